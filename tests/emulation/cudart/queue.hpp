// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "accesses.hpp"

namespace heddle::emulation {

/// What a call gives to a stream.
struct work {
  std::string text;
  std::vector<range> uses;
  std::function<void()> run;
};

struct operation;

/// What an operation of several streams has in each of them, which the devices of several ranks run together.
class meeting {
 public:
  enum class progress : std::uint8_t { none, some, done };

  virtual ~meeting() = default;
  /// All before it is done: as much of it as can be done now.
  virtual progress step() = 0;
  /// The parts without which it cannot end, of those that their streams have been given.
  virtual void partners(std::vector<operation const*>& out) const = 0;
  /// What it is, and whom it waits for.
  [[nodiscard]] virtual std::string text() const = 0;
};

/// Work in a stream. It runs once, when all before it is done.
struct operation {
  std::function<void()> run;
  std::shared_ptr<meeting> meets;  ///< in place of `run`
  std::vector<std::shared_ptr<operation>> before;
  int device = 0;
  bool done = false;
};
using operation_ref = std::shared_ptr<operation>;

/// Work in a graph, which runs as often as the graph is launched, after the nodes `before`.
struct node {
  std::shared_ptr<std::string const> text;
  std::vector<range> uses;
  std::function<void()> run;
  std::vector<std::size_t> before;
};

struct stream_state;

/// A capture: what its streams are given becomes nodes.
struct capture_state {
  stream_state* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool active = true;
  std::string invalid;  ///< which call was not permitted
  std::vector<node> nodes;
  std::vector<stream_state*> joined;
  access_log log;
};
using capture_ref = std::shared_ptr<capture_state>;

/// A point: of a stream's work, or in a capture.
struct point {
  operation_ref last;
  vector_clock clock;
  capture_ref capture;
  std::vector<std::size_t> tips;  ///< nodes after which the next one comes
};

struct stream_state {
  std::size_t lane = 0;
  int device = 0;
  bool is_default = false;
  bool waits_for_default = false;
  bool destroyed = false;
  std::string name;
  std::deque<operation_ref> queue;
  point at;
  point captured;  ///< while its work becomes nodes
};

struct event_state {
  int device = 0;
  bool recorded = false;
  point at;
};

struct graph_state {
  std::vector<node> nodes;
};
struct executable_state {
  std::shared_ptr<std::vector<node> const> nodes;
  operation_ref last;  ///< of its launches, which come one after the other
  vector_clock clock;
};

}  // namespace heddle::emulation
