// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <cstring>
#include <iterator>
#include <new>
#include <set>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace heddle::emulation {

namespace {

constexpr int nothing = 0xFF;
constexpr std::size_t kept_bytes = std::size_t{64} << 20;  // of freed memory
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t border = 0;  // the sanitizer sees the allocation's own ends
void hide(void* memory, std::size_t bytes) { ASAN_POISON_MEMORY_REGION(memory, bytes); }
void show(void* memory, std::size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(memory, bytes); }
#else
constexpr std::size_t border = memory_registry::alignment;
void hide(void*, std::size_t) {}
void show(void*, std::size_t) {}
#endif

unsigned char* bytes_at(std::uintptr_t address) { return reinterpret_cast<unsigned char*>(address); }
void give_back(allocation const& one) {
  show(bytes_at(one.begin), one.bytes);
  ::operator delete (bytes_at(one.begin - border), std::align_val_t{memory_registry::alignment});
}

}  // namespace

std::string text_of(allocation const& one) {
  return (one.pinned ? "pinned memory " : "device memory ") + std::to_string(one.number) + " (" +
         std::to_string(one.bytes) + " bytes)";
}

allocation const& memory_registry::allocate(std::size_t bytes, bool pinned, int device) {
  auto* const memory = static_cast<unsigned char*>(::operator new (bytes + 2 * border, std::align_val_t{alignment}));
  std::memset(memory, nothing, bytes + 2 * border);
  std::uintptr_t const begin = reinterpret_cast<std::uintptr_t>(memory) + border;
  return all_[begin] = {begin, bytes, pinned, device, ++number_, true};
}

std::string memory_registry::release(allocation const& one) {
  std::string wrong;
  for (std::size_t i = 0; i < border && wrong.empty(); ++i) {
    if (*bytes_at(one.begin + one.bytes + i) != nothing)
      wrong = text_of(one) + " was written " + std::to_string(i + 1) + " bytes behind its end";
    else if (*bytes_at(one.begin - 1 - i) != nothing)
      wrong = text_of(one) + " was written " + std::to_string(i + 1) + " bytes before its begin";
  }
  std::memset(bytes_at(one.begin), nothing, one.bytes);
  hide(bytes_at(one.begin), one.bytes);
  all_[one.begin].live = false;
  freed_.push_back(one.begin);
  freed_bytes_ += one.bytes;
  while (freed_bytes_ > kept_bytes && freed_.size() > 1) {
    allocation const& oldest = all_[freed_.front()];
    freed_bytes_ -= oldest.bytes;
    give_back(oldest);
    all_.erase(freed_.front());
    freed_.pop_front();
  }
  return wrong;
}

allocation const* memory_registry::find(std::uintptr_t address) const {
  auto next = all_.upper_bound(address);
  if (next == all_.begin()) return nullptr;
  allocation const& one = (--next)->second;
  return address < one.begin + one.bytes ? &one : nullptr;
}

std::string memory_registry::fault_of(range const& used, allocation const** found) const {
  *found = nullptr;
  if (used.empty()) return {};
  allocation const* const one = find(used.begin);
  if (one == nullptr)
    return used.where == side::device || used.where == side::mapped ? "memory that is not allocated" : "";
  if (!one->live) return text_of(*one) + ", which has been freed";
  if (used.where == side::host && !one->pinned) return text_of(*one) + " as if it were the host's";
  if (used.where == side::device && one->pinned) return text_of(*one) + " as if it were the device's";
  if (used.end() > one->begin + one->bytes)
    return "bytes " + std::to_string(used.begin - one->begin) + " to " + std::to_string(used.end() - one->begin) +
           " of " + text_of(*one);
  *found = one;
  return {};
}

namespace {
/// Bytes of an allocation, as they were.
struct kept {
  allocation const* of;
  std::size_t begin;
  std::vector<unsigned char> bytes;
  bool named;  ///< as read
};
void keep(std::vector<kept>& all, allocation const& one, std::uintptr_t begin, std::uintptr_t end, bool named) {
  if (begin < end) all.push_back({&one, begin - one.begin, {bytes_at(begin), bytes_at(end)}, named});
}
}  // namespace

std::string memory_registry::run_confined(std::vector<range> const& uses, std::function<void()> const& body) const {
  std::vector<kept> all;
  for (auto const& [begin, one] : all_) {
    if (!one.live || one.pinned) continue;  // what is pinned is the host's, whose threads write it meanwhile
    // The bytes that are used, in order; then those between are hidden, and those that are only read must stay.
    std::set<std::uintptr_t> edges{one.begin, one.begin + one.bytes};
    for (range const& use : uses)
      if (!use.empty() && find(use.begin) == &one) edges.insert({use.begin, use.end()});
    for (auto edge = edges.begin(), next = std::next(edge); next != edges.end(); edge = next, ++next) {
      bool read = false, written = false;
      for (range const& use : uses)
        if (!use.empty() && use.begin <= *edge && *next <= use.end()) (use.written ? written : read) = true;
      if (!written) keep(all, one, *edge, *next, read);
    }
  }
  for (kept const& part : all)
    if (!part.named) std::memset(bytes_at(part.of->begin + part.begin), nothing, part.bytes.size());
  auto const restore = [&] {
    std::string wrong;
    for (kept const& part : all) {
      unsigned char* const now = bytes_at(part.of->begin + part.begin);
      for (std::size_t i = 0; i < part.bytes.size() && wrong.empty(); ++i)
        if (now[i] != (part.named ? part.bytes[i] : nothing))
          wrong = "writes byte " + std::to_string(part.begin + i) + " of " + text_of(*part.of) +
                  (part.named ? ", which its launch names as read" : ", which its launch does not name");
      std::memcpy(now, part.bytes.data(), part.bytes.size());
    }
    return wrong;
  };
  try {
    body();
  } catch (...) {
    restore();
    throw;
  }
  return restore();
}

std::size_t memory_registry::count() const {
  std::size_t live = 0;
  for (auto const& [begin, one] : all_) live += one.live ? 1 : 0;
  return live;
}
std::size_t memory_registry::bytes(bool pinned, int device) const {
  std::size_t sum = 0;
  for (auto const& [begin, one] : all_)
    if (one.live && one.pinned == pinned && (pinned || one.device == device)) sum += one.bytes;
  return sum;
}

void memory_registry::clear() {
  for (auto const& [begin, one] : all_) give_back(one);
  all_.clear();
  freed_.clear();
  freed_bytes_ = 0;
  number_ = 0;
}

}  // namespace heddle::emulation
