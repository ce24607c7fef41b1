// SPDX-License-Identifier: Apache-2.0
#include "accesses.hpp"

#include <algorithm>

namespace heddle::emulation {

bool overlap(range const& a, range const& b) {
  if (a.empty() || b.empty() || a.end() <= b.begin || b.end() <= a.begin) return false;
  if (a.rows == 1 && b.rows == 1) return true;
  if (b.rows == 1) return overlap(b, a);
  for (std::size_t r = 0; r < a.rows; ++r) {
    std::uintptr_t const begin = a.begin + r * a.pitch, end = begin + a.width;
    // The first row of b that ends behind `begin`; it is the one to meet, if any does.
    std::size_t const first = begin < b.begin + b.width ? 0 : (begin - b.begin - b.width) / b.pitch + 1;
    if (first < b.rows && b.begin + first * b.pitch < end) return true;
  }
  return false;
}

namespace {
bool covers(range const& a, range const& b) { return a.rows == 1 && a.begin <= b.begin && b.end() <= a.end(); }
}  // namespace

std::string access_log::enter(std::uintptr_t allocation, range const& used, actor const& who,
                              vector_clock const& before) {
  std::vector<use>& all = used_[allocation];
  for (use const& one : all)
    if ((one.bytes.written || used.written) && one.who.tick > before.of(one.who.lane) && overlap(one.bytes, used) &&
        !(one.who.lane == who.lane && one.who.tick == who.tick))
      return *one.who.text + (one.bytes.written ? " writes" : " reads");
  // What comes before, and has no byte beside these, says nothing more: whoever races with it races with this, too.
  std::erase_if(all, [&](use const& one) {
    return one.who.tick <= before.of(one.who.lane) && (used.written || !one.bytes.written) && covers(used, one.bytes);
  });
  all.push_back({used, who});
  return {};
}

void access_log::forget_before(vector_clock const& known) {
  for (auto& [allocation, all] : used_)
    std::erase_if(all, [&](use const& one) { return one.who.tick <= known.of(one.who.lane); });
}

}  // namespace heddle::emulation
