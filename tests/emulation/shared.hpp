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

  unsigned writer = nobody;
  unsigned reader = nobody;  ///< since the last write: one thread, several of `reader_warp`, or of several warps
  unsigned reader_warp = 0;
  access_time written{}, read{};
  bool defined = false;  ///< has ever been written
};

/// An array in shared memory that knows of each element whether it was written, by whom and when: reading what nobody
/// wrote, an index outside, and two accesses with no barrier between them of which one writes, are faults.
template <class T, std::size_t Size>
class shared_array {
 public:
  /// An element: reads where it is used as a value, writes where it is assigned to.
  class element {
   public:
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

   private:
    shared_array* array_;
    std::size_t i_;
  };

  explicit shared_array(place const& at) : at_(at), value_(Size), touched_(Size) {}

  template <class Index>
  element operator[](Index i) {
    if (i < Index(0) || static_cast<std::size_t>(i) >= Size)
      block::current().fail("uses element " + std::to_string(i) + " of " + name());
    return {*this, static_cast<std::size_t>(i)};
  }
  static constexpr std::size_t size() { return Size; }

 private:
  [[nodiscard]] std::string name() const {
    return "the " + std::to_string(Size) + " in shared memory declared at " + text_of(at_);
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
  void require_written_before(std::size_t i, char const* now) {
    touched const& t = touched_[i];
    if (t.writer != touched::nobody && t.writer != block::current().rank() && !ordered(t.written, t.writer / warp_size))
      race(i, now, "wrote", block::current().name_of_thread(t.writer));
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
    block const& here = block::current();
    touched& t = touched_[i];
    require_written_before(i, "writes");
    if (t.reader != touched::nobody && t.reader != here.rank()) {
      bool const over = t.reader == touched::several_warps ? t.read.block_epoch < here.time().block_epoch
                                                           : ordered(t.read, t.reader_warp);
      if (!over)
        race(i, "writes", "read",
             t.reader == touched::several || t.reader == touched::several_warps ? "other threads"
                                                                                : here.name_of_thread(t.reader));
    }
    t.writer = here.rank();
    t.written = here.time();
    t.reader = touched::nobody;
    t.defined = true;
    value_[i] = value;
  }

  place at_;
  std::vector<T> value_;
  std::vector<touched> touched_;
};

}  // namespace heddle::emulation
