// SPDX-License-Identifier: Apache-2.0
// Stand-ins for CUDA's streams, events, captures and graphs, with the signatures of its headers.
#include <cuda_runtime_api.h>

#include <utility>

#include "machine.hpp"

using heddle::emulation::call;
using heddle::emulation::call_to_release;
using heddle::emulation::event_state;
using heddle::emulation::machine;
using heddle::emulation::refusal;
using heddle::emulation::stream_state;

// ---- streams

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned int flags) {
  return call("cudaStreamCreateWithFlags", [&](machine& all) {
    if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking)
      throw refusal{cudaErrorInvalidValue, "flags " + std::to_string(flags)};
    *out = all.make_stream(flags == cudaStreamDefault);
  });
}
cudaError_t cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithFlags(out, cudaStreamDefault); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call_to_release("cudaStreamDestroy", [&](machine& all) { all.destroy_stream(stream); });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call("cudaStreamSynchronize", [&](machine& all) {
    stream_state& one = all.stream(stream);
    all.require_no_capture(one);
    all.refuse_in_capture("the host waits for " + one.name);
    int const device = one.device;
    all.finish(all.end_of(one));
    all.require_alive(device);
  });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call("cudaStreamQuery", [&](machine& all) {
    stream_state& one = all.stream(stream);
    all.require_no_capture(one);
    // Asking is no work: the default stream's own, and what it waits for at its last call.
    bool const done = all.ask(one.at);
    all.require_alive(one.device);
    if (!done) throw refusal{cudaErrorNotReady, one.name + " has work"};
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return call("cudaStreamWaitEvent", [&](machine& all) {
    if (flags != cudaEventWaitDefault) throw refusal{cudaErrorInvalidValue, "flags " + std::to_string(flags)};
    all.wait(all.stream(stream), all.event(event));
  });
}

// ---- events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned int flags) {
  return call("cudaEventCreateWithFlags", [&](machine& all) {
    if ((flags & ~unsigned{cudaEventBlockingSync | cudaEventDisableTiming}) != 0)
      throw refusal{cudaErrorInvalidValue, "flags " + std::to_string(flags)};
    *out = all.make_event();
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call_to_release("cudaEventDestroy", [&](machine& all) { all.destroy_event(event); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord", [&](machine& all) { all.record(all.event(event), all.stream(stream)); });
}
namespace {
event_state& event_to_ask(machine& all, cudaEvent_t event) {
  event_state& one = all.event(event);
  if (one.at.capture != nullptr) {
    std::string const text = "an event that was last recorded in a capture";
    if (one.at.capture->active) machine::invalidate(*one.at.capture, cudaErrorCapturedEvent, text);
    throw refusal{cudaErrorCapturedEvent, text};
  }
  all.refuse_in_capture("the host waits, or asks, for an event");
  return one;
}
}  // namespace
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize", [&](machine& all) {
    event_state const& one = event_to_ask(all, event);
    all.finish(one.at);
    all.require_alive(one.device);
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", [&](machine& all) {
    event_state const& one = event_to_ask(all, event);
    bool const done = all.ask(one.at);
    all.require_alive(one.device);
    if (!done) throw refusal{cudaErrorNotReady, "there is work before the event"};
  });
}

// ---- captures and graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&](machine& all) { all.begin(all.stream(stream), mode); });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  return call_to_release("cudaStreamEndCapture", [&](machine& all) {
    *out = nullptr;
    heddle::emulation::graph_state made = all.end(all.stream(stream));
    all.require_alive(machine::device());
    *out = all.make_graph(std::move(made));
  });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
  return call("cudaStreamIsCapturing", [&](machine& all) {
    auto const& capture = all.stream(stream).captured.capture;
    *out = capture == nullptr         ? cudaStreamCaptureStatusNone
           : capture->invalid.empty() ? cudaStreamCaptureStatusActive
                                      : cudaStreamCaptureStatusInvalidated;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  return call("cudaGraphInstantiate", [&](machine& all) {
    if (flags != 0) throw refusal{cudaErrorInvalidValue, "flags " + std::to_string(flags)};
    *out = all.make_executable(all.graph(graph));
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return call("cudaGraphLaunch", [&](machine& all) { all.launch(all.stream(stream), all.executable(graph)); });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call_to_release("cudaGraphDestroy", [&](machine& all) { all.destroy_graph(graph); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return call_to_release("cudaGraphExecDestroy", [&](machine& all) { all.destroy_executable(graph); });
}
