// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace heddle::emulation {

last_error& last() {
  thread_local last_error error;
  return error;
}

machine& machine::get() {
  static machine one;
  return one;
}
int& machine::device() {
  thread_local int current = 0;
  return current;
}

std::size_t machine::random(std::size_t below) { return order_() % below; }

// ---- errors

void machine::require_alive(int on) const {
  loss const& one = lost_[static_cast<std::size_t>(on)];
  if (one.code != cudaSuccess) throw refusal{one.code, one.text};
}
void machine::lose(int on, cudaError_t code, std::string const& text) {
  note_loss(on, code, text);
  loss const& one = lost_[static_cast<std::size_t>(on)];
  throw refusal{one.code, one.text};
}
void machine::note_loss(int on, cudaError_t code, std::string const& text) {
  loss& one = lost_[static_cast<std::size_t>(on)];
  if (one.code == cudaSuccess) one = {code, text};
  changed.notify_all();
}

// ---- for tests

void machine::reset(device_options const& next) {
  options = next;
  memory.clear();
  waiting_copies = stream_waits = 0;
  shared_limit.clear();
  lost_.assign(static_cast<std::size_t>(std::max(next.devices, 1)), {});
  streams_.clear();
  events_.clear();
  graphs_.clear();
  executables_.clear();
  captures_.clear();
  log_ = {};
  lanes_ = named_ = 0;
  order_.seed(next.seed);
  device() = 0;
  last() = {};
}

usage machine::used() const {
  usage now{.allocations = memory.count(),
            .device_bytes = memory.bytes(false, device()),
            .pinned_bytes = memory.bytes(true, device()),
            .events = events_.size(),
            .graphs = graphs_.size() + executables_.size()};
  for (auto const& one : streams_) now.streams += one->is_default || one->destroyed ? 0 : 1;
  return now;
}

std::string machine::take_fault() {
  std::string text;
  auto const take = [&] {
    for (loss& one : lost_) {
      if (text.empty()) text = one.text;
      one = {};
    }
  };
  take();
  finish_all();
  for (auto const& stream : streams_)
    if (!stream->queue.empty() && stream->queue.front()->meets != nullptr && text.empty())
      text = stream->queue.front()->meets->text() + ", when the session ends";
  take();
  last() = {};
  return text;
}

// ---- memory, and work

std::string machine::release(allocation const& one) {
  log_.forget(one.begin);
  return memory.release(one);
}

void machine::require_memory(std::vector<range> const& uses, std::string const& text, int on) {
  for (range const& one : uses) {
    allocation const* found = nullptr;
    std::string const wrong = memory.fault_of(one, &found);
    if (!wrong.empty()) lose(on, cudaErrorIllegalAddress, text + " uses " + wrong);
    if (found != nullptr && one.where == side::mapped && !found->pinned && found->device != on)
      lose(on, cudaErrorIllegalAddress,
           text + " uses " + text_of(*found) + " of device " + std::to_string(found->device) + " on device " +
               std::to_string(on));
  }
}

void machine::enter(access_log& log, std::vector<range> const& uses, actor const& who, vector_clock const& before,
                    int on) {
  for (range const& one : uses) {
    allocation const* found = nullptr;
    if (!memory.fault_of(one, &found).empty() || found == nullptr) continue;
    std::string const other = log.enter(found->begin, one, who, before);
    if (!other.empty())
      lose(on, cudaErrorLaunchFailure,
           "race: " + *who.text + (one.written ? " writes" : " reads") + " bytes " +
               std::to_string(one.begin - found->begin) + " to " + std::to_string(one.end() - found->begin) + " of " +
               text_of(*found) + ", which " + other +
               ", and neither comes before the other; record an event after the first, and let the stream of the "
               "second wait for it");
  }
}

/// What the host knows to be done comes before all that it gives to any stream from now on.
void machine::know(vector_clock const& clock) { log_.forget_before(clock); }

operation_ref machine::order(stream_state& to) {
  auto made = std::make_shared<operation>();
  made->device = to.device;
  auto const after = [&](point const& before) {
    to.at.clock.join(before.clock);
    if (before.last != nullptr && !before.last->done) made->before.push_back(before.last);
  };
  after(to.at);
  for (auto const& other : streams_)
    if (other->device == to.device &&
        ((to.is_default && other->waits_for_default) || (to.waits_for_default && other->is_default)))
      after(other->at);
  to.at.clock.tick(to.lane);
  return made;
}

void machine::submit(stream_state& to, operation_ref const& made) {
  to.at.last = made;
  changed.notify_all();
  bool const eager = options.mode == execution::eager;
  if (eager && made->meets == nullptr && to.queue.empty() && made->before.empty()) return run(*made);
  to.queue.push_back(made);
  while (eager && step({}, beside::anything)) {
  }
}

void machine::mark(stream_state& to) { submit(to, order(to)); }

void machine::enqueue(stream_state& to, work&& given) { (void)enqueue(to, std::move(given), nullptr); }

operation_ref machine::enqueue(stream_state& to, work&& given, std::shared_ptr<meeting> meets) {
  require_alive(to.device);
  given.text += " on " + to.name;
  require_memory(given.uses, given.text, to.device);
  if (to.captured.capture != nullptr) {
    if (meets != nullptr)
      invalidate(*to.captured.capture, cudaErrorStreamCaptureUnsupported,
                 given.text + ", which the emulated device does not capture");
    add_node(to, std::move(given));
    return nullptr;
  }
  if (to.is_default)
    for (auto const& one : streams_)
      if (one->device == to.device && one->waits_for_default && one->captured.capture != nullptr)
        invalidate(*one->captured.capture, cudaErrorStreamCaptureImplicit,
                   given.text + ", for which " + one->name + " would wait while it is captured");
  operation_ref const made = order(to);
  enter(log_, given.uses,
        {to.lane, to.at.clock.of(to.lane), std::make_shared<std::string const>(std::move(given.text))}, to.at.clock,
        to.device);
  made->run = std::move(given.run);
  made->meets = std::move(meets);
  submit(to, made);
  return made;
}

void machine::run(operation& one) {
  if (one.run != nullptr && lost_[static_cast<std::size_t>(one.device)].code == cudaSuccess) {
    try {
      one.run();
    } catch (std::exception const& error) {
      lost_[static_cast<std::size_t>(one.device)] = {cudaErrorLaunchFailure, error.what()};
    }
  }
  one.run = nullptr;
  one.meets = nullptr;
  one.before.clear();
  one.done = true;
}

/// In the order of the capture, or in any other that the nodes allow.
void machine::run_nodes(std::vector<node> const& nodes) {
  std::vector<bool> done(nodes.size());
  for (std::size_t left = nodes.size(); left > 0; --left) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (!done[i] &&
          std::all_of(nodes[i].before.begin(), nodes[i].before.end(), [&](std::size_t one) { return done[one]; })) {
        ready.push_back(i);
        if (options.mode == execution::eager) break;
      }
    std::size_t const next = ready[random(ready.size())];
    nodes[next].run();
    done[next] = true;
  }
}

void machine::launch(stream_state& to, executable_state& graph) {
  require_alive(to.device);
  if (to.captured.capture != nullptr)
    invalidate(*to.captured.capture, cudaErrorNotSupported, "a graph as a part of another");
  for (node const& one : *graph.nodes) require_memory(one.uses, *one.text + ", in a graph,", to.device);
  to.at.clock.join(graph.clock);
  operation_ref const made = order(to);
  if (graph.last != nullptr && !graph.last->done) made->before.push_back(graph.last);
  for (node const& one : *graph.nodes)
    enter(log_, one.uses,
          {to.lane, to.at.clock.of(to.lane),
           std::make_shared<std::string const>(*one.text + ", in a graph on " + to.name + ',')},
          to.at.clock, to.device);
  made->run = [this, nodes = graph.nodes] { run_nodes(*nodes); };
  submit(to, made);
  graph.last = made;
  graph.clock = to.at.clock;
}

void machine::record(event_state& event, stream_state& of) {
  require_alive(of.device);
  if (event.device != of.device)
    throw refusal{cudaErrorInvalidResourceHandle, "an event of device " + std::to_string(event.device) + " on " +
                                                      of.name + " of device " + std::to_string(of.device)};
  if (of.captured.capture != nullptr && !of.captured.capture->invalid.empty())
    throw refusal{cudaErrorStreamCaptureInvalidated, of.captured.capture->invalid};
  event.at = of.captured.capture != nullptr ? of.captured : end_of(of);
  event.recorded = true;
}

void machine::wait(stream_state& stream, event_state const& event) {
  require_alive(stream.device);
  point const& from = event.at;
  if (!event.recorded) return;  // which CUDA takes for an event that has passed
  if (stream_waits++ == options.waits_before_one_is_dropped) return;
  if (from.capture != nullptr && !from.capture->active)
    throw refusal{cudaErrorCapturedEvent, "an event that was recorded in a capture which has ended"};
  capture_ref const into = stream.captured.capture;
  if (into == nullptr && from.capture == nullptr) {
    stream.at.clock.join(from.clock);
    operation_ref const made = order(stream);
    if (from.last != nullptr && !from.last->done) made->before.push_back(from.last);
    submit(stream, made);
    return;
  }
  capture_state& one = into != nullptr ? *into : *from.capture;
  if (!one.invalid.empty()) throw refusal{cudaErrorStreamCaptureInvalidated, one.invalid};
  if (from.capture == nullptr)
    invalidate(one, cudaErrorStreamCaptureIsolation, "a wait of " + stream.name + " for an event from outside");
  if (into == nullptr) {  // the stream joins
    if (stream.is_default)
      invalidate(one, cudaErrorStreamCaptureImplicit, "a wait of the default stream for an event of a capture");
    stream.captured = from;
    one.joined.push_back(&stream);
    return;
  }
  if (into != from.capture) {
    from.capture->invalid = "its event was waited for in another capture";
    invalidate(one, cudaErrorStreamCaptureMerge, "a wait of " + stream.name + " for an event of another capture");
  }
  stream.captured.clock.join(from.clock);
  for (std::size_t const tip : from.tips)
    if (std::find(stream.captured.tips.begin(), stream.captured.tips.end(), tip) == stream.captured.tips.end())
      stream.captured.tips.push_back(tip);
}

point const& machine::end_of(stream_state& of) {
  if (of.is_default || of.waits_for_default) mark(of);
  return of.at;
}

namespace {
/// The operations that must run before `target` is done, and itself.
std::set<operation const*> all_before(operation_ref const& target) {
  std::set<operation const*> found;
  std::vector<operation const*> next{target.get()};
  while (!next.empty()) {
    operation const* const one = next.back();
    next.pop_back();
    if (one->done || !found.insert(one).second) continue;
    for (operation_ref const& before : one->before) next.push_back(before.get());
    if (one->meets != nullptr) one->meets->partners(next);
  }
  return found;
}
}  // namespace

/// Runs one operation that is ready, if there is one that `others` allows.
bool machine::step(std::set<operation const*> const& needed, beside others) {
  std::vector<stream_state*> ready, first;
  for (auto const& stream : streams_) {
    auto& queue = stream->queue;
    if (queue.empty() || !std::all_of(queue.front()->before.begin(), queue.front()->before.end(),
                                      [](operation_ref const& one) { return one->done; }))
      continue;
    bool const is_needed = needed.contains(queue.front().get());
    if (is_needed || others != beside::nothing) ready.push_back(stream.get());
    if (!is_needed && others == beside::all_first) first.push_back(stream.get());
  }
  return attempt_any(std::move(first)) || attempt_any(std::move(ready));
}

bool machine::attempt_any(std::vector<stream_state*> streams) {
  while (!streams.empty()) {
    auto const chosen = streams.begin() + static_cast<std::ptrdiff_t>(random(streams.size()));
    if (attempt(**chosen)) return true;
    streams.erase(chosen);
  }
  return false;
}

bool machine::attempt(stream_state& chosen) {
  operation_ref const one = chosen.queue.front();
  if (one->meets != nullptr && lost_[static_cast<std::size_t>(one->device)].code == cudaSuccess) {
    meeting::progress const came = one->meets->step();
    if (came != meeting::progress::none) changed.notify_all();
    if (came != meeting::progress::done) return came == meeting::progress::some;
  }
  chosen.queue.pop_front();
  run(*one);
  if (chosen.destroyed && chosen.queue.empty())
    std::erase_if(streams_, [&](auto const& stream) { return stream.get() == &chosen; });
  return true;
}

namespace {
/// What several streams do together that waits for `head` and that `head` waits for, or null: then other calls may
/// still help.
operation const* waits_in_a_circle(operation const& head) {
  std::set<operation const*> seen;
  std::vector<std::pair<operation const*, operation const*>> next;  // and which meeting leads to it
  auto const add_partners = [&](operation const& of) {
    std::vector<operation const*> all;
    of.meets->partners(all);
    for (operation const* const one : all) next.emplace_back(one, one);
  };
  add_partners(head);
  while (!next.empty()) {
    auto const [one, through] = next.back();
    next.pop_back();
    if (one->done || one == &head || !seen.insert(one).second) continue;
    for (operation_ref const& before : one->before) {
      if (before.get() == &head) return through;
      next.emplace_back(before.get(), before->meets != nullptr ? before.get() : through);
    }
    if (one->meets != nullptr) add_partners(*one);
  }
  return nullptr;
}
}  // namespace

void machine::await_others() {
  auto const stuck = [this](auto const& body) {
    for (auto const& stream : streams_)
      if (!stream->queue.empty() && stream->queue.front()->meets != nullptr) body(*stream, *stream->queue.front());
  };
  std::string text;
  stuck([&](stream_state const&, operation const& head) {
    operation const* const other = waits_in_a_circle(head);
    if (other != nullptr && text.empty())
      text = "deadlock: " + head.meets->text() + "; " + other->meets->text() + ", and comes after it";
  });
  if (text.empty()) {
    if (changed.wait_for(mutex, options.patience) == std::cv_status::no_timeout) return;
    stuck([&](stream_state const&, operation const& head) { text += (text.empty() ? "" : "; ") + head.meets->text(); });
    text = "nothing can go on: " + text;
  }
  stuck([&](stream_state const& stream, operation const&) { note_loss(stream.device, cudaErrorLaunchFailure, text); });
}

void machine::finish(point const& at) {
  vector_clock const known = at.clock;
  if (operation_ref const target = at.last; target != nullptr && !target->done) {
    auto const others = static_cast<beside>(random(3));
    auto needed = all_before(target);
    while (!target->done) {
      if (step(needed, others)) continue;
      needed = all_before(target);  // it may meet what was given to other streams meanwhile
      if (!step(needed, others)) await_others();
    }
  }
  know(known);
}

bool machine::ask(point const& at) {
  if (at.last == nullptr || at.last->done) {
    know(at.clock);
    return true;
  }
  step(all_before(at.last), beside::nothing);
  return false;
}

void machine::finish_all() {
  while (step({}, beside::anything)) {
  }
  vector_clock all;
  for (auto const& stream : streams_) all.join(stream->at.clock);
  know(all);
}

void machine::finish_device(int on) {
  finish_all();
  auto const busy = [&] {
    return std::any_of(streams_.begin(), streams_.end(),
                       [&](auto const& one) { return one->device == on && !one->queue.empty(); });
  };
  while (busy()) {
    if (!step({}, beside::anything)) await_others();
  }
  finish_all();
}

}  // namespace heddle::emulation
