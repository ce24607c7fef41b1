// SPDX-License-Identifier: Apache-2.0
// Stand-ins for CUDA's allocations, copies and fills, with the signatures of its headers.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "machine.hpp"

using heddle::emulation::allocation;
using heddle::emulation::call;
using heddle::emulation::call_to_release;
using heddle::emulation::machine;
using heddle::emulation::range;
using heddle::emulation::refusal;
using heddle::emulation::side;
using heddle::emulation::stream_state;
using heddle::emulation::text_of;

namespace {

void allocate(machine& all, void** out, std::size_t bytes, bool pinned) {
  all.refuse_in_capture(pinned ? "pinned memory is allocated" : "device memory is allocated");
  *out = nullptr;
  if (bytes == 0) return;
  std::size_t const taken = pinned ? 0 : all.memory.bytes(false, machine::device());
  if (!pinned && (bytes > all.options.bytes || taken > all.options.bytes - bytes))
    throw refusal{cudaErrorMemoryAllocation, std::to_string(bytes) + " bytes, where " + std::to_string(taken) + " of " +
                                                 std::to_string(all.options.bytes) + " are taken"};
  *out = reinterpret_cast<void*>(all.memory.allocate(bytes, pinned, machine::device()).begin);
}

/// What was given to streams is done first, as by CUDA's own.
void release(machine& all, void* memory, bool pinned) {
  all.refuse_in_capture("memory is freed");
  if (memory == nullptr) return;
  auto const address = reinterpret_cast<std::uintptr_t>(memory);
  allocation const* const one = all.memory.find(address);
  char const* const kind = pinned ? "pinned memory" : "device memory";
  if (one == nullptr)
    throw refusal{cudaErrorInvalidValue, std::string("an address in no allocation, freed as ") + kind};
  if (!one->live) throw refusal{cudaErrorInvalidValue, text_of(*one) + ", which has been freed before"};
  if (one->pinned != pinned) throw refusal{cudaErrorInvalidValue, text_of(*one) + ", freed as " + kind};
  if (one->begin != address) throw refusal{cudaErrorInvalidValue, "an address within " + text_of(*one)};
  int const device = one->device;
  all.finish_device(device);
  std::string const wrong = all.release(*one);
  if (!wrong.empty()) all.lose(device, cudaErrorIllegalAddress, wrong);
  all.require_alive(device);
}

/// Rows of `width` bytes, each `pitch` behind the one before.
struct block {
  unsigned char* data;
  std::size_t width, rows, pitch;
};
void move_rows(block const& to, block const& from) {
  for (std::size_t r = 0; r < to.rows; ++r) std::memcpy(to.data + r * to.pitch, from.data + r * from.pitch, to.width);
}
range bytes_of(block const& one, bool written, side where) {
  return {reinterpret_cast<std::uintptr_t>(one.data), one.width, one.rows, one.pitch, written, where};
}

std::pair<side, side> sides_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return {side::host, side::host};
    case cudaMemcpyHostToDevice:
      return {side::device, side::host};
    case cudaMemcpyDeviceToHost:
      return {side::host, side::device};
    case cudaMemcpyDeviceToDevice:
      return {side::device, side::device};
    case cudaMemcpyDefault:
      return {side::either, side::either};
  }
  throw refusal{cudaErrorInvalidMemcpyDirection, "direction " + std::to_string(static_cast<int>(kind))};
}

void copy(machine& all, block const& to, block const& from, cudaMemcpyKind kind, cudaStream_t handle, bool blocking) {
  auto const [to_side, from_side] = sides_of(kind);
  if (blocking) all.refuse_in_capture("a copy for which the host waits");
  if (to.width > to.pitch || from.width > from.pitch)
    throw refusal{cudaErrorInvalidPitchValue, "rows of " + std::to_string(to.width) + " bytes that lie " +
                                                  std::to_string(to.pitch) + " and " + std::to_string(from.pitch) +
                                                  " apart"};
  stream_state& stream = all.stream(handle);
  if (to.width == 0 || to.rows == 0) return;
  range const out = bytes_of(to, true, to_side), in = bytes_of(from, false, from_side);
  std::string const text = "a copy of " + std::to_string(to.rows * to.width) + " bytes";
  if (overlap(out, in)) all.lose(stream.device, cudaErrorIllegalAddress, text + " onto a part of itself");
  bool const from_pageable = from_side != side::device && all.memory.find(in.begin) == nullptr;
  bool const to_pageable = to_side != side::device && all.memory.find(out.begin) == nullptr;
  if (from_pageable || to_pageable) {
    // CUDA may take it into a graph, which then runs with whatever is in that memory; nobody means that.
    if (stream.captured.capture != nullptr)
      machine::invalidate(*stream.captured.capture, cudaErrorStreamCaptureUnsupported,
                          text + " from or to host memory that is not pinned");
    if (!blocking) ++all.waiting_copies;
  }
  std::function<void()> run = [to, from] { move_rows(to, from); };
  if (from_pageable) {  // read before the call returns
    auto const staged = std::make_shared<std::vector<unsigned char>>(from.rows * from.width);
    block const between{staged->data(), from.width, from.rows, from.width};
    move_rows(between, from);
    run = [to, between, staged] { move_rows(to, between); };
  }
  int const device = stream.device;
  all.enqueue(stream, {text, {out, in}, std::move(run)});
  if (to_pageable || (blocking && (to_side != side::device || from_side != side::device))) {
    all.finish(all.end_of(stream));
    all.require_alive(device);
  }
}

block flat(void* data, std::size_t bytes) { return {static_cast<unsigned char*>(data), bytes, 1, bytes}; }
block flat(void const* data, std::size_t bytes) { return flat(const_cast<void*>(data), bytes); }

void fill(machine& all, void* data, int value, std::size_t bytes, cudaStream_t stream) {
  stream_state& to = all.stream(stream);
  if (bytes == 0) return;
  all.enqueue(to, {"a fill of " + std::to_string(bytes) + " bytes",
                   {bytes_of(flat(data, bytes), true, side::mapped)},
                   [=] { std::memset(data, value, bytes); }});
}

}  // namespace

cudaError_t cudaMalloc(void** out, size_t bytes) {
  return call("cudaMalloc", [&](machine& all) { allocate(all, out, bytes, false); });
}
cudaError_t cudaFree(void* memory) {
  return call_to_release("cudaFree", [&](machine& all) { release(all, memory, false); });
}
cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned int flags) {
  return call("cudaHostAlloc", [&](machine& all) {
    if ((flags & ~unsigned{cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined}) != 0)
      throw refusal{cudaErrorInvalidValue, "flags " + std::to_string(flags)};
    allocate(all, out, bytes, true);
  });
}
cudaError_t cudaMallocHost(void** out, size_t bytes) { return cudaHostAlloc(out, bytes, cudaHostAllocDefault); }
cudaError_t cudaFreeHost(void* memory) {
  return call_to_release("cudaFreeHost", [&](machine& all) { release(all, memory, true); });
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call("cudaMemGetInfo", [&](machine& all) {
    *total = all.options.bytes;
    *free = all.options.bytes - all.memory.bytes(false, machine::device());
  });
}

cudaError_t cudaMemcpyAsync(void* to, void const* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call("cudaMemcpyAsync",
              [&](machine& all) { copy(all, flat(to, bytes), flat(from, bytes), kind, stream, false); });
}
cudaError_t cudaMemcpy(void* to, void const* from, size_t bytes, cudaMemcpyKind kind) {
  return call("cudaMemcpy", [&](machine& all) { copy(all, flat(to, bytes), flat(from, bytes), kind, nullptr, true); });
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, void const* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return call("cudaMemcpy2DAsync", [&](machine& all) {
    copy(all, {static_cast<unsigned char*>(to), width, height, to_pitch},
         {static_cast<unsigned char*>(const_cast<void*>(from)), width, height, from_pitch}, kind, stream, false);
  });
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, void const* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  return call("cudaMemcpy2D", [&](machine& all) {
    copy(all, {static_cast<unsigned char*>(to), width, height, to_pitch},
         {static_cast<unsigned char*>(const_cast<void*>(from)), width, height, from_pitch}, kind, nullptr, true);
  });
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&](machine& all) { fill(all, data, value, bytes, stream); });
}
/// Of device memory: the host does not wait.
cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  return call("cudaMemset", [&](machine& all) {
    all.refuse_in_capture("a fill on the default stream");
    fill(all, data, value, bytes, nullptr);
  });
}
