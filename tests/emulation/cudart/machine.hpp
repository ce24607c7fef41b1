// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../runtime.hpp"
#include "memory.hpp"
#include "queue.hpp"

namespace heddle::emulation {

/// Why a call returns an error.
struct refusal {
  cudaError_t code;
  std::string text;
};

/// All devices with their memory and streams. One call at a time: each holds `mutex`. Thrown refusals become the call's
/// result.
class machine {
 public:
  static machine& get();

  std::mutex mutex;
  std::condition_variable_any changed;  ///< something was given to a stream, or ended
  device_options options;
  memory_registry memory;
  std::size_t waiting_copies = 0, stream_waits = 0;
  std::map<void const*, std::size_t> shared_limit;  ///< of dynamic shared memory, by kernel

  void reset(device_options const& next);
  [[nodiscard]] usage used() const;
  std::string take_fault();

  // Handles. One that is not there, or was destroyed, is refused.
  static int& device();  ///< of the calling thread
  cudaStream_t make_stream(bool waits_for_default);
  void destroy_stream(cudaStream_t handle);
  [[nodiscard]] stream_state& stream(cudaStream_t handle);
  cudaEvent_t make_event();
  void destroy_event(cudaEvent_t handle);
  [[nodiscard]] event_state& event(cudaEvent_t handle);
  cudaGraph_t make_graph(graph_state&& made);
  void destroy_graph(cudaGraph_t handle);
  [[nodiscard]] graph_state& graph(cudaGraph_t handle);
  cudaGraphExec_t make_executable(graph_state const& from);
  void destroy_executable(cudaGraphExec_t handle);
  [[nodiscard]] executable_state& executable(cudaGraphExec_t handle);

  // Memory, and work.
  /// Frees an allocation of which nothing is under way. What is wrong with it, or an empty text.
  std::string release(allocation const& one);
  void enqueue(stream_state& to, work&& given);
  /// The same, of what streams of several devices do together.
  operation_ref enqueue(stream_state& to, work&& given, std::shared_ptr<meeting> meets);
  void launch(stream_state& to, executable_state& graph);
  void record(event_state& event, stream_state& of);
  void wait(stream_state& stream, event_state const& event);
  /// The end of what the stream has so far.
  point const& end_of(stream_state& of);
  /// Runs what comes before the point, and in delayed mode perhaps more; the host knows it then.
  void finish(point const& at);
  /// Runs one operation of those. Whether none is left.
  bool ask(point const& at);
  /// Runs everything of all devices.
  void finish_all();
  /// The same, and waits until others have brought what the device's work needs.
  void finish_device(int on);

  // Captures.
  void begin(stream_state& origin, cudaStreamCaptureMode mode);
  graph_state end(stream_state& origin);
  /// Refuses what must not be asked of a stream while its work becomes nodes.
  void require_no_capture(stream_state const& of);
  /// Refuses a call that no thread may make while it captures, and that ends the capture.
  void refuse_in_capture(std::string const& what);
  /// Ends a capture as one that has no graph, and refuses.
  [[noreturn]] static void invalidate(capture_state& capture, cudaError_t code, std::string const& text);

  // Errors.
  void require_alive(int on) const;
  [[noreturn]] void lose(int on, cudaError_t code, std::string const& text);
  void note_loss(int on, cudaError_t code, std::string const& text);
  [[nodiscard]] cudaError_t lost_code(int on) const { return lost_[static_cast<std::size_t>(on)].code; }

 private:
  /// Which other work the next one runs beside what somebody waits for.
  enum class beside : std::uint8_t { nothing, anything, all_first };

  void enter(access_log& log, std::vector<range> const& uses, actor const& who, vector_clock const& before, int on);
  void require_memory(std::vector<range> const& uses, std::string const& text, int on);
  void add_node(stream_state& to, work&& given);
  /// A new operation behind all that the stream, and CUDA's default stream, order before it.
  operation_ref order(stream_state& to);
  void submit(stream_state& to, operation_ref const& made);
  /// An operation that does nothing but to be ordered.
  void mark(stream_state& to);
  void run(operation& one);
  /// The first operation of the stream, which is ready. Whether it came further.
  bool attempt(stream_state& stream);
  bool attempt_any(std::vector<stream_state*> streams);
  /// Lets other threads call, until one has brought something. Nothing can go on otherwise: where that is certain, or
  /// takes longer than the options say, the devices are lost.
  void await_others();
  void run_nodes(std::vector<node> const& nodes);
  bool step(std::set<operation const*> const& needed, beside others);
  void know(vector_clock const& clock);
  std::size_t random(std::size_t below);

  struct loss {
    cudaError_t code = cudaSuccess;
    std::string text;
  };
  std::vector<loss> lost_ = std::vector<loss>(1);
  std::vector<std::unique_ptr<stream_state>> streams_;
  std::map<void*, std::unique_ptr<event_state>> events_;
  std::map<void*, std::unique_ptr<graph_state>> graphs_;
  std::map<void*, std::unique_ptr<executable_state>> executables_;
  std::vector<capture_ref> captures_;
  access_log log_;
  std::size_t lanes_ = 0, named_ = 0;
  std::mt19937_64 order_{1};
};

/// The calling thread's last error.
struct last_error {
  cudaError_t code = cudaSuccess;
  std::string text;
  bool taken = true;
};
last_error& last();

/// The body of a stand-in: under the machine's mutex, with refusals as results.
template <class Body>
cudaError_t call_anyhow(char const* name, Body const& body) {
  machine& all = machine::get();
  std::unique_lock<std::mutex> const lock(all.mutex);
  try {
    body(all);
    return cudaSuccess;
  } catch (refusal const& one) {
    last() = {one.code, std::string(name) + " (emulated): " + one.text, false};
    return one.code;
  }
}
/// One that a device refuses once it is lost.
template <class Body>
cudaError_t call(char const* name, Body const& body) {
  return call_anyhow(name, [&](machine& all) {
    all.require_alive(machine::device());
    body(all);
  });
}
/// One that gives something back, which a device that is lost does, too; the error is that of the loss all the same.
template <class Body>
cudaError_t call_to_release(char const* name, Body const& body) {
  return call_anyhow(name, [&](machine& all) {
    body(all);
    all.require_alive(machine::device());
  });
}

}  // namespace heddle::emulation
