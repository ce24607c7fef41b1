// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "block.hpp"

namespace heddle::emulation {

/// Who touched an element of shared memory last, and when.
struct touched {
  static constexpr unsigned nobody = ~0U, several = ~0U - 1, several_warps = ~0U - 2;

  unsigned writer = nobody;  ///< one thread; of atomic operations several of `writer_warp`, or of several warps
  unsigned writer_warp = 0;
  unsigned reader = nobody;  ///< since the last write: one thread, several of `reader_warp`, or of several warps
  unsigned reader_warp = 0;
  access_time written{}, read{};
  bool defined = false;  ///< has ever been written
  bool atomic = false;   ///< last by an atomic operation, after which another one is no race
};

/// An array in shared memory that knows of each element whether it was written, by whom and when: reading what nobody
/// wrote, an index outside, and two accesses with no barrier between them of which one writes, are faults.
template <class T>
class shared_array {
 public:
  /// An element: reads where it is used as a value, writes where it is assigned to.
  class element {
   public:
    using value_type = T;

    element(shared_array& array, std::size_t i) : array_(&array), i_(i) {}
    element(element const&) = default;
    operator T() const { return array_->read(i_); }
    element const& operator=(T value) const {
      array_->write(i_, value);
      return *this;
    }
    element const& operator=(element const& other) const { return *this = T(other); }
    element const& operator+=(T value) const { return *this = T(*this) + value; }
    element const& operator*=(T value) const { return *this = T(*this) * value; }
    /// Its address, for atomic operations.
    element const* operator&() const { return this; }  // NOLINT(google-runtime-operator)
    /// Replaces the value by `change` of it, atomically; gives what it was.
    template <class Change>
    T update(Change const& change) const {
      return array_->update(i_, change);
    }

   private:
    shared_array* array_;
    std::size_t i_;
  };

  shared_array(place const& at, std::size_t size) : at_(at), value_(size), touched_(size) {}

  template <class Index>
  element operator[](Index i) {
    if (i < Index(0) || static_cast<std::size_t>(i) >= size())
      block::current().fail("uses element " + std::to_string(i) + " of " + name());
    return {*this, static_cast<std::size_t>(i)};
  }
  [[nodiscard]] std::size_t size() const { return value_.size(); }

 private:
  [[nodiscard]] std::string name() const {
    return "the " + std::to_string(size()) + " in shared memory declared at " + text_of(at_);
  }
  /// Whether what was done by a thread of `warp` then comes before what the calling thread does now.
  static bool ordered(access_time const& then, unsigned warp) {
    block const& here = block::current();
    access_time const now = here.time();
    return then.block_epoch < now.block_epoch || (warp == here.rank() / warp_size && then.warp_epoch < now.warp_epoch);
  }
  [[noreturn]] void race(std::size_t i, char const* now, char const* then, std::string const& who) const {
    block::current().fail(std::string(now) + " element " + std::to_string(i) + " of " + name() + ", which " + who +
                          ' ' + then + " with no barrier between");
  }
  /// Whether what `who` (or several, of `warp` or of several warps) did then comes before what the calling thread does.
  static bool over(unsigned who, unsigned warp, access_time const& then) {
    block const& here = block::current();
    if (who == touched::nobody || who == here.rank()) return true;
    return who == touched::several_warps ? then.block_epoch < here.time().block_epoch : ordered(then, warp);
  }
  static std::string name_of(unsigned who) {
    bool const one = who != touched::several && who != touched::several_warps;
    return one ? block::current().name_of_thread(who) : "other threads";
  }
  void require_written_before(std::size_t i, char const* now) {
    touched const& t = touched_[i];
    if (!over(t.writer, t.writer_warp, t.written)) race(i, now, "wrote", name_of(t.writer));
  }
  void require_read_before(std::size_t i, char const* now) {
    touched const& t = touched_[i];
    if (!over(t.reader, t.reader_warp, t.read)) race(i, now, "read", name_of(t.reader));
  }
  T read(std::size_t i) {
    block const& here = block::current();
    touched& t = touched_[i];
    if (!t.defined) here.fail("reads element " + std::to_string(i) + " of " + name() + ", which nobody has written");
    require_written_before(i, "reads");
    unsigned const me = here.rank(), warp = me / warp_size;
    if (t.reader == touched::nobody || t.read.block_epoch != here.time().block_epoch) {
      t.reader = me;
      t.reader_warp = warp;
    } else if (t.reader != me) {
      bool const one_warp = t.reader != touched::several_warps && t.reader_warp == warp;
      t.reader = one_warp ? touched::several : touched::several_warps;
    }
    t.read = here.time();
    return value_[i];
  }
  void write(std::size_t i, T value) {
    require_written_before(i, "writes");
    require_read_before(i, "writes");
    leave(i, value, block::current().rank(), false);
  }
  template <class Change>
  T update(std::size_t i, Change const& change) {
    char const* const now = "changes atomically";
    block const& here = block::current();
    touched const& t = touched_[i];
    if (!t.defined)
      here.fail(std::string(now) + " element " + std::to_string(i) + " of " + name() + ", which nobody has written");
    bool const together = t.atomic && !over(t.writer, t.writer_warp, t.written);
    if (!together) require_written_before(i, now);
    require_read_before(i, now);
    bool const one_warp = t.writer != touched::several_warps && t.writer_warp == here.rank() / warp_size;
    T const old = value_[i];
    leave(i, change(old), !together ? here.rank() : one_warp ? touched::several : touched::several_warps, true);
    return old;
  }
  void leave(std::size_t i, T value, unsigned writer, bool atomic) {
    block const& here = block::current();
    touched& t = touched_[i];
    t.writer = writer;
    t.writer_warp = here.rank() / warp_size;
    t.written = here.time();
    t.reader = touched::nobody;
    t.defined = true;
    t.atomic = atomic;
    value_[i] = value;
  }

  place at_;
  std::vector<T> value_;
  std::vector<touched> touched_;
};

/// What a kernel has of an array in dynamic shared memory, in the place of a pointer.
template <class T>
class shared_span {
 public:
  explicit shared_span(shared_array<T>& array) : array_(&array) {}
  template <class Index>
  auto operator[](Index i) const {
    return (*array_)[i];
  }
  [[nodiscard]] void const* array() const { return array_; }

 private:
  shared_array<T>* array_;
};

/// The dynamic shared memory of a block, cut into arrays one after the other.
class dynamic_shared {
 public:
  /// The next `size` elements, from a multiple of 16 bytes on. All threads take the same.
  template <class T>
  shared_span<T> take(int size, place const& at = place::here()) {
    auto const elements = static_cast<std::size_t>(size);
    std::size_t const begin = next_, bytes = elements * sizeof(T);
    next_ = (begin + bytes + 15) / 16 * 16;
    return shared_span<T>(block::current().dynamic<shared_array<T>>(begin, elements, bytes, at));
  }

 private:
  std::size_t next_ = 0;
};

}  // namespace heddle::emulation
