// SPDX-License-Identifier: Apache-2.0
// What stands behind CUDA's handles, and what becomes of streams while they are captured.
#include <algorithm>
#include <utility>

#include "machine.hpp"

namespace heddle::emulation {

namespace {

template <class State>
State& of_handle(std::map<void*, std::unique_ptr<State>> const& all, void* handle, char const* what) {
  auto const found = all.find(handle);
  if (found == all.end())
    throw refusal{cudaErrorInvalidResourceHandle,
                  std::string("a handle that is no ") + what + ", or of one that was destroyed"};
  return *found->second;
}
template <class Handle, class State>
Handle keep(std::map<void*, std::unique_ptr<State>>& all, std::unique_ptr<State> made) {
  void* const handle = made.get();
  all[handle] = std::move(made);
  return static_cast<Handle>(handle);
}

}  // namespace

stream_state& machine::stream(cudaStream_t handle) {
  if (handle == cudaStreamPerThread)
    throw refusal{cudaErrorNotSupported, "the default stream of each thread; make a stream"};
  bool const is_default = handle == nullptr || handle == cudaStreamLegacy;
  for (auto const& one : streams_)
    if (is_default ? one->is_default && one->device == device()
                   : static_cast<void*>(one.get()) == static_cast<void*>(handle) && !one->destroyed)
      return *one;
  if (!is_default)
    throw refusal{cudaErrorInvalidResourceHandle, "a handle that is no stream, or of one that was destroyed"};
  auto made = std::make_unique<stream_state>();
  made->lane = lanes_++;
  made->device = device();
  made->is_default = true;
  made->name = "the default stream";
  return *streams_.emplace_back(std::move(made));
}

cudaStream_t machine::make_stream(bool waits_for_default) {
  auto made = std::make_unique<stream_state>();
  made->lane = lanes_++;
  made->device = device();
  made->waits_for_default = waits_for_default;
  made->name = "stream " + std::to_string(++named_);
  return static_cast<cudaStream_t>(static_cast<void*>(streams_.emplace_back(std::move(made)).get()));
}

void machine::destroy_stream(cudaStream_t handle) {
  stream_state& one = stream(handle);
  if (one.is_default) throw refusal{cudaErrorInvalidResourceHandle, "the default stream is nobody's to destroy"};
  if (capture_ref const capture = one.captured.capture; capture != nullptr) {
    std::erase(capture->joined, &one);
    one.captured = {};
    capture->origin = capture->origin == &one ? nullptr : capture->origin;
    invalidate(*capture, cudaErrorStreamCaptureUnsupported, "a stream that is captured is destroyed");
  }
  one.destroyed = true;  // what it still has to do is done
  if (one.queue.empty()) std::erase_if(streams_, [&](auto const& other) { return other.get() == &one; });
}

cudaEvent_t machine::make_event() {
  auto made = std::make_unique<event_state>();
  made->device = device();
  return keep<cudaEvent_t>(events_, std::move(made));
}
event_state& machine::event(cudaEvent_t handle) { return of_handle(events_, handle, "event"); }
void machine::destroy_event(cudaEvent_t handle) {
  (void)event(handle);
  events_.erase(handle);
}

cudaGraph_t machine::make_graph(graph_state&& made) {
  return keep<cudaGraph_t>(graphs_, std::make_unique<graph_state>(std::move(made)));
}
graph_state& machine::graph(cudaGraph_t handle) { return of_handle(graphs_, handle, "graph"); }
void machine::destroy_graph(cudaGraph_t handle) {
  (void)graph(handle);
  graphs_.erase(handle);
}

cudaGraphExec_t machine::make_executable(graph_state const& from) {
  auto made = std::make_unique<executable_state>();
  made->nodes = std::make_shared<std::vector<node> const>(from.nodes);
  return keep<cudaGraphExec_t>(executables_, std::move(made));
}
executable_state& machine::executable(cudaGraphExec_t handle) {
  return of_handle(executables_, handle, "executable graph");
}
void machine::destroy_executable(cudaGraphExec_t handle) {
  (void)executable(handle);
  executables_.erase(handle);  // a launch that is under way has its nodes
}

// ---- captures

void machine::invalidate(capture_state& capture, cudaError_t code, std::string const& text) {
  if (capture.invalid.empty()) capture.invalid = text;
  throw refusal{code, text};
}

void machine::require_no_capture(stream_state const& of) {
  if (of.captured.capture != nullptr)
    invalidate(*of.captured.capture, cudaErrorStreamCaptureUnsupported,
               "the host waits for " + of.name + ", or asks for it, while it is captured");
}

void machine::refuse_in_capture(std::string const& what) {
  for (capture_ref const& one : captures_) {
    bool const mine = one->thread == std::this_thread::get_id();
    if (mine ? one->mode != cudaStreamCaptureModeRelaxed : one->mode == cudaStreamCaptureModeGlobal)
      invalidate(*one, cudaErrorStreamCaptureUnsupported, what + " while a stream is captured");
  }
}

void machine::begin(stream_state& origin, cudaStreamCaptureMode mode) {
  if (origin.is_default)
    throw refusal{cudaErrorStreamCaptureUnsupported, "the default stream cannot be captured; make a stream"};
  if (origin.captured.capture != nullptr) throw refusal{cudaErrorIllegalState, origin.name + " is captured already"};
  auto made = std::make_shared<capture_state>();
  made->origin = &origin;
  made->mode = mode;
  made->thread = std::this_thread::get_id();
  made->joined.push_back(&origin);
  origin.captured = {};
  origin.captured.capture = made;
  captures_.push_back(std::move(made));
}

graph_state machine::end(stream_state& origin) {
  capture_ref const capture = origin.captured.capture;
  if (capture == nullptr) throw refusal{cudaErrorIllegalState, origin.name + " is not captured"};
  if (capture->origin != &origin)
    invalidate(*capture, cudaErrorStreamCaptureUnmatched, "the capture began on another stream than " + origin.name);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    invalidate(*capture, cudaErrorStreamCaptureWrongThread, "the capture began in another thread");
  std::vector<bool> reached(capture->nodes.size());
  std::vector<std::size_t> next = origin.captured.tips;
  while (!next.empty()) {
    std::size_t const one = next.back();
    next.pop_back();
    if (reached[one]) continue;
    reached[one] = true;
    next.insert(next.end(), capture->nodes[one].before.begin(), capture->nodes[one].before.end());
  }
  std::string unjoined;
  for (stream_state* const one : capture->joined) {
    for (std::size_t const tip : one->captured.tips)
      if (!reached[tip]) unjoined = one->name;
    one->captured = {};
  }
  capture->active = false;
  std::erase(captures_, capture);
  if (!capture->invalid.empty()) throw refusal{cudaErrorStreamCaptureInvalidated, capture->invalid};
  if (!unjoined.empty())
    throw refusal{cudaErrorStreamCaptureUnjoined, origin.name + " does not wait for the end of " + unjoined};
  return {std::move(capture->nodes)};
}

void machine::add_node(stream_state& to, work&& given) {
  point& at = to.captured;
  capture_state& capture = *at.capture;
  if (!capture.invalid.empty()) throw refusal{cudaErrorStreamCaptureInvalidated, capture.invalid};
  at.clock.tick(to.lane);
  auto const text = std::make_shared<std::string const>(std::move(given.text));
  enter(capture.log, given.uses, {to.lane, at.clock.of(to.lane), text}, at.clock, to.device);
  capture.nodes.push_back({text, std::move(given.uses), std::move(given.run), at.tips});
  at.tips = {capture.nodes.size() - 1};
}

}  // namespace heddle::emulation
