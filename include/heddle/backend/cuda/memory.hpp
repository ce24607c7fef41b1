// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <heddle/backend/cuda/status.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

namespace heddle::cuda {

namespace detail {

struct free_device {
  void operator()(void* memory) const noexcept { note(cudaFree(memory), "cudaFree"); }
};
struct free_pinned {
  void operator()(void* memory) const noexcept { note(cudaFreeHost(memory), "cudaFreeHost"); }
};

inline std::string bytes_text(char const* call, std::size_t bytes) {
  return std::string(call) + " of " + std::to_string(bytes) + " bytes";
}

inline void copy(stream_ref on, void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, char const* way,
                 source_place const& place) {
  if (bytes != 0)
    check(
        cudaMemcpyAsync(to, from, bytes, kind, on.get()),
        [&] { return bytes_text("cudaMemcpyAsync", bytes) + ' ' + way; }, place);
}
inline void require_equal(std::size_t to, std::size_t from) {
  if (to != from)
    throw error("a copy of " + std::to_string(from) + " elements into " + std::to_string(to) +
                "; give both sides one length");
}

}  // namespace detail

/// One allocation on the device that is current when it is made, filled with zeros: `arena`'s twin in device memory.
/// Aligned to 256 bytes. Destroying it waits for the device's work.
template <class T>
class device_arena {
 public:
  static_assert(std::is_trivially_copyable_v<T>,
                "device_arena<T>: 'T' must be trivially copyable; it is moved byte by byte");
  device_arena() = default;
  explicit device_arena(std::size_t elements, source_place place = source_place::here()) : elements_(elements) {
    if (elements == 0) return;
    void* memory = nullptr;
    cudaError_t const status = cudaMalloc(&memory, bytes());
    data_.reset(static_cast<T*>(memory));
    check(
        status, [&] { return detail::bytes_text("cudaMalloc", bytes()); }, place);
    check(
        cudaMemset(memory, 0, bytes()), [&] { return detail::bytes_text("cudaMemset", bytes()); }, place);
    // The default stream's work, for which streams of ours do not wait.
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize after cudaMemset", place);
  }
  [[nodiscard]] T* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return elements_; }
  [[nodiscard]] std::size_t bytes() const { return elements_ * sizeof(T); }

 private:
  std::unique_ptr<T, detail::free_device> data_;
  std::size_t elements_ = 0;
};

/// One allocation of host memory that stays where it is, filled with zeros, from and to which every device copies by
/// itself: `arena`'s twin for what goes to and from devices.
template <class T>
class pinned_arena {
 public:
  static_assert(std::is_trivially_copyable_v<T>,
                "pinned_arena<T>: 'T' must be trivially copyable; it is moved byte by byte");
  pinned_arena() = default;
  explicit pinned_arena(std::size_t elements, source_place place = source_place::here()) : elements_(elements) {
    if (elements == 0) return;
    void* memory = nullptr;
    cudaError_t const status = cudaHostAlloc(&memory, bytes(), cudaHostAllocPortable);
    data_.reset(static_cast<T*>(memory));
    check(
        status, [&] { return detail::bytes_text("cudaHostAlloc", bytes()); }, place);
    std::memset(memory, 0, bytes());
  }
  [[nodiscard]] T* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return elements_; }
  [[nodiscard]] std::size_t bytes() const { return elements_ * sizeof(T); }

 private:
  std::unique_ptr<T, detail::free_pinned> data_;
  std::size_t elements_ = 0;
};

/// Copies in the order of the stream, beside the host: its side belongs to the copy until the stream, or an event after
/// it, has been waited for. Host memory that is not pinned is allowed, and makes the host wait.
template <class T>
void copy_to_device(stream_ref on, std::span<T> device, std::span<T const> host,
                    source_place place = source_place::here()) {
  detail::require_equal(device.size(), host.size());
  detail::copy(on, device.data(), host.data(), host.size_bytes(), cudaMemcpyHostToDevice, "to the device", place);
}
template <class T>
void copy_to_host(stream_ref on, std::span<T> host, std::span<T const> device,
                  source_place place = source_place::here()) {
  detail::require_equal(host.size(), device.size());
  detail::copy(on, host.data(), device.data(), device.size_bytes(), cudaMemcpyDeviceToHost, "to the host", place);
}
/// From device memory to device memory, of one device or of two.
template <class T>
void copy_on_device(stream_ref on, std::span<T> to, std::span<T const> from,
                    source_place place = source_place::here()) {
  detail::require_equal(to.size(), from.size());
  detail::copy(on, to.data(), from.data(), from.size_bytes(), cudaMemcpyDeviceToDevice, "on the device", place);
}

/// A block of a matrix: `rows` rows of `width` elements, each `pitch` elements behind the one before.
template <class T>
struct matrix_block {
  T* data = nullptr;
  std::size_t rows = 0, width = 0, pitch = 0;
};
/// Copies a block within device memory, row by row in one call.
template <class T>
void copy_block_on_device(stream_ref on, matrix_block<T> to, matrix_block<T const> from,
                          source_place place = source_place::here()) {
  if (to.rows != from.rows || to.width != from.width)
    throw error("a copy of a block of " + std::to_string(from.rows) + " rows of " + std::to_string(from.width) +
                " into one of " + std::to_string(to.rows) + " rows of " + std::to_string(to.width) +
                "; give both one shape");
  if (to.rows == 0 || to.width == 0) return;
  check(
      cudaMemcpy2DAsync(to.data, to.pitch * sizeof(T), from.data, from.pitch * sizeof(T), to.width * sizeof(T), to.rows,
                        cudaMemcpyDeviceToDevice, on.get()),
      [&] {
        return "cudaMemcpy2DAsync of " + std::to_string(to.rows) + " rows of " + std::to_string(to.width * sizeof(T)) +
               " bytes on the device";
      },
      place);
}

/// Fills with zero bytes.
template <class T>
void fill_zero(stream_ref on, std::span<T> device, source_place place = source_place::here()) {
  if (!device.empty())
    check(
        cudaMemsetAsync(device.data(), 0, device.size_bytes(), on.get()),
        [&] { return detail::bytes_text("cudaMemsetAsync", device.size_bytes()); }, place);
}

}  // namespace heddle::cuda
