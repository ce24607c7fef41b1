// SPDX-License-Identifier: Apache-2.0
#include "block.hpp"

#include <algorithm>
#include <boost/context/preallocated.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <memory>
#include <utility>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace heddle::emulation {

namespace {

namespace context = boost::context;

thread_local block* running = nullptr;

constexpr std::size_t stack_bytes = 256 * 1024;
constexpr std::size_t static_shared_bytes = 48 * 1024;  // of every device
constexpr std::size_t most_shared_bytes = 227 * 1024;   // of sm_90, which has the most

/// Stacks that are used again: to map one costs more than to run a thread.
class stack_pool {
 public:
  stack_pool() = default;
  stack_pool(stack_pool const&) = delete;
  stack_pool& operator=(stack_pool const&) = delete;
  ~stack_pool() {
    for (auto& one : free_) context::protected_fixedsize_stack(stack_bytes).deallocate(one);
  }
  context::stack_context allocate() {
    if (free_.empty()) return context::protected_fixedsize_stack(stack_bytes).allocate();
    context::stack_context const last = free_.back();
    free_.pop_back();
    return last;
  }
  void deallocate(context::stack_context const& one) { free_.push_back(one); }

 private:
  std::vector<context::stack_context> free_;
};
thread_local stack_pool stacks;

struct pooled_stack {
  context::stack_context allocate() { return stacks.allocate(); }
  void deallocate(context::stack_context& one) { stacks.deallocate(one); }
};

/// Ends a thread whose block has a fault elsewhere.
struct abandoned {};

// The address sanitizer is told of every change of stacks; without it these do nothing.
#if defined(__SANITIZE_ADDRESS__)
void leave_for(void** own_fake_stack, void const* bottom, std::size_t size) {
  __sanitizer_start_switch_fiber(own_fake_stack, bottom, size);
}
void arrive(void* own_fake_stack, void const** left_bottom, std::size_t* left_size) {
  __sanitizer_finish_switch_fiber(own_fake_stack, left_bottom, left_size);
}
#else
void leave_for(void**, void const*, std::size_t) {}
void arrive(void*, void const**, std::size_t*) {}
#endif

std::string text_of_index(uint3 const& v) {
  return '(' + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ')';
}

char const* name_of(meeting what) {
  switch (what) {
    case meeting::sync:
      return "__syncwarp";
    case meeting::shuffle:
      return "a shuffle";
    case meeting::vote:
      return "a vote";
    case meeting::multiply:
      return "mma";
    case meeting::load_matrix:
      return "ldmatrix";
  }
  return "";
}

}  // namespace

block::block(std::string kernel, dim3 grid, dim3 shape, uint3 index, std::size_t dynamic_bytes)
    : kernel_(std::move(kernel)), grid_(grid), shape_(shape), index_(index), dynamic_bytes_(dynamic_bytes) {
  if (dynamic_bytes > most_shared_bytes)
    throw fault(kernel_ + ": " + std::to_string(dynamic_bytes) +
                " bytes of dynamic shared memory; no device has more than " + std::to_string(most_shared_bytes));
  unsigned const count = shape.x * shape.y * shape.z;
  if (count == 0 || count > 1024)
    throw fault(kernel_ + ": a block has " + std::to_string(count) + " threads; give it 1 to 1024");
  thread_.resize(count);
  left_.resize((count + warp_size - 1) / warp_size * warp_size);
  warp_epoch_.resize(left_.size() / warp_size);
  for (unsigned t = 0; t < count; ++t) thread_[t].index = {t % shape.x, t / shape.x % shape.y, t / shape.x / shape.y};
}
block::~block() = default;

block& block::current() { return *running; }

void block::run(std::function<void()> const& body) {
  for (thread& one : thread_) {
    pooled_stack pool;
    one.stack = pool.allocate();
    one.fiber = context::fiber(std::allocator_arg, context::preallocated(one.stack.sp, one.stack.size, one.stack), pool,
                               [this, &body](context::fiber&& caller) {
                                 arrive(nullptr, &scheduler_stack_, &scheduler_stack_size_);
                                 scheduler_ = std::move(caller);
                                 try {
                                   if (!abandoned_) body();
                                 } catch (abandoned const&) {
                                 } catch (...) {
                                   if (error_ == nullptr) error_ = std::current_exception();
                                 }
                                 thread_[now_].state = wait::end;
                                 leave_for(nullptr, scheduler_stack_, scheduler_stack_size_);
                                 return std::move(scheduler_);
                               });
  }
  block* const outer = std::exchange(running, this);
  try {
    for (bool ended = false; !ended;) {
      bool ran = false;
      for (now_ = 0; now_ < thread_.size(); ++now_)
        if (thread_[now_].state == wait::nothing) {
          enter(now_);
          if (error_ != nullptr) std::rethrow_exception(error_);
          ran = true;
        }
      ended = std::all_of(thread_.begin(), thread_.end(), [](thread const& one) { return one.state == wait::end; });
      bool const released = !ended && (release_warps() || release_block());
      if (!ended && !ran && !released) throw fault_of("threads wait for each other: " + stuck());
    }
  } catch (...) {
    abandon();
    running = outer;
    throw;
  }
  running = outer;
}

/// Runs a thread until it waits or ends.
void block::enter(unsigned rank) {
  thread& one = thread_[rank];
  void* fake_stack = nullptr;
  leave_for(&fake_stack, static_cast<char const*>(one.stack.sp) - one.stack.size, one.stack.size);
  one.fiber = std::move(one.fiber).resume();
  arrive(fake_stack, nullptr, nullptr);
}

/// Threads that still wait are ended, while their block is the running one: each by an exception out of its wait.
void block::abandon() {
  abandoned_ = true;
  for (now_ = 0; now_ < thread_.size(); ++now_) {
    if (thread_[now_].state != wait::end) enter(now_);
  }
}

void block::pause() {
  thread& me = thread_[now_];
  leave_for(&me.fake_stack, scheduler_stack_, scheduler_stack_size_);
  scheduler_ = std::move(scheduler_).resume();
  arrive(me.fake_stack, &scheduler_stack_, &scheduler_stack_size_);
  if (abandoned_) throw abandoned();
}

void block::barrier(place const& at) {
  thread_[now_].state = wait::block;
  thread_[now_].at = at;
  pause();
}

void block::meet(meeting what, unsigned mask, brought const& value, place const& at, form const& how) {
  thread& me = thread_[now_];
  if ((mask >> now_ % warp_size & 1U) == 0)
    fail(std::string("calls ") + name_of(what) + " at " + text_of(at) + " with a mask that lacks its own lane");
  me.state = wait::warp;
  me.what = what;
  me.mask = mask;
  me.at = at;
  me.how = how;
  me.value = value;
  pause();
}

/// All threads have come to one barrier, or it is divergent. Whether it let them go on.
bool block::release_block() {
  auto const waits = [](thread const& one) { return one.state == wait::block; };
  auto const first = std::find_if(thread_.begin(), thread_.end(), waits);
  if (first == thread_.end()) return false;
  for (thread const& one : thread_)
    if (!waits(one) && one.state != wait::end) return false;  // still on its way
  for (thread const& one : thread_)
    if (!waits(one) || !(one.at == first->at))
      throw fault_of("divergent barrier: " + where(static_cast<unsigned>(first - thread_.begin())) + "; " +
                     where(static_cast<unsigned>(&one - thread_.data())));
  ++epoch_;
  for (thread& one : thread_) one.state = wait::nothing;
  return true;
}

/// Lets the lanes of a mask go on that have all come to one meeting. Whether there were any.
bool block::release_warps() {
  bool any = false;
  for (unsigned base = 0; base < thread_.size(); base += warp_size) {
    unsigned const lanes = std::min<unsigned>(warp_size, static_cast<unsigned>(thread_.size()) - base);
    unsigned done = 0, present = 0;
    for (unsigned l = 0; l < lanes; ++l) present |= thread_[base + l].state != wait::end ? 1U << l : 0U;
    for (unsigned l = 0; l < lanes; ++l) {
      thread const& mine = thread_[base + l];
      if (mine.state != wait::warp || (done >> l & 1U) != 0) continue;
      bool all = true;
      for (unsigned k = 0; k < warp_size; ++k) {
        if ((mine.mask >> k & 1U) == 0) continue;
        if ((present >> k & 1U) == 0)
          throw fault_of(where(base + l) + " with lane " + std::to_string(k) + " in its mask, which " +
                         (k < lanes ? "has ended" : "does not exist"));
        thread const& other = thread_[base + k];
        all = all && other.state == wait::warp && other.mask == mine.mask && other.what == mine.what;
      }
      if (!all) continue;
      for (unsigned k = 0; mine.what != meeting::sync && k < lanes; ++k) {
        thread const& other = thread_[base + k];
        if ((mine.mask >> k & 1U) != 0 && !(other.at == mine.at && other.how == mine.how))
          throw fault_of("the lanes of a mask are not at the same one: " + where(base + l) + "; " + where(base + k));
      }
      done |= mine.mask;
      // Of the three only __syncwarp orders memory, and here only one of the whole warp.
      if (mine.what == meeting::sync && (mine.mask & present) == present) ++warp_epoch_[base / warp_size];
    }
    for (unsigned l = 0; l < lanes; ++l)
      if ((done >> l & 1U) != 0) {
        thread_[base + l].state = wait::nothing;
        left_[base + l] = thread_[base + l].value;
      }
    any = any || done != 0;
  }
  return any;
}

void block::grow(std::size_t bytes, place const& at) {
  shared_bytes_ += bytes;
  if (shared_bytes_ > static_shared_bytes)
    fail("declares shared memory at " + text_of(at) + ", which makes " + std::to_string(shared_bytes_) +
         " bytes; a block has " + std::to_string(static_shared_bytes));
  if (shared_bytes_ + dynamic_bytes_ > most_shared_bytes)
    fail("declares shared memory at " + text_of(at) + ", which makes " +
         std::to_string(shared_bytes_ + dynamic_bytes_) + " bytes with the launch's; no device has more than " +
         std::to_string(most_shared_bytes));
}

/// What begins there, if it was taken already. Arrays that another thread takes otherwise, or that lie over others, are
/// faults.
block::taken const* block::find(std::size_t begin, std::size_t bytes, std::type_info const& type,
                                place const& at) const {
  auto const what = [&] {
    return "takes bytes " + std::to_string(begin) + " to " + std::to_string(begin + bytes) +
           " of the dynamic shared memory at " + text_of(at);
  };
  for (taken const& one : taken_) {
    if (one.begin == begin && one.bytes == bytes && *one.type == type) return &one;
    if (begin < one.begin + one.bytes && one.begin < begin + bytes)
      fail(what() + ", of which others are another array, from " + std::to_string(one.begin) + " to " +
           std::to_string(one.begin + one.bytes));
  }
  if (begin + bytes > dynamic_bytes_) fail(what() + "; the launch gives " + std::to_string(dynamic_bytes_));
  return nullptr;
}

std::string block::name_of_thread(unsigned rank) const { return "thread " + text_of_index(thread_[rank].index); }

std::string block::where(unsigned rank) const {
  thread const& one = thread_[rank];
  switch (one.state) {
    case wait::nothing:
      return name_of_thread(rank) + " runs";
    case wait::block:
      return name_of_thread(rank) + " waits in __syncthreads at " + text_of(one.at);
    case wait::warp:
      return name_of_thread(rank) + " waits in " + name_of(one.what) +
             (one.what == meeting::shuffle
                  ? " of " + std::to_string(one.how.bytes) + " bytes in segments of " + std::to_string(one.how.width)
                  : std::string()) +
             " at " + text_of(one.at) + " with mask " + std::to_string(one.mask);
    case wait::end:
      return name_of_thread(rank) + " has ended";
  }
  return {};
}

/// One that waits, and one that waits for something else.
std::string block::stuck() const {
  unsigned first = 0;
  while (thread_[first].state != wait::warp) ++first;  // a barrier alone is released, or divergent
  for (unsigned t = 0; t < thread_.size(); ++t)
    if (thread_[t].state != thread_[first].state || thread_[t].mask != thread_[first].mask ||
        thread_[t].what != thread_[first].what)
      return where(first) + "; " + where(t);
  return where(first);
}

fault block::fault_of(std::string const& text) const {
  return fault(kernel_ + ", block " + text_of_index(index_) + ": " + text);
}

void block::fail(std::string const& text) const { throw fault_of(name_of_thread(now_) + ' ' + text); }

}  // namespace heddle::emulation
