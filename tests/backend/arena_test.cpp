// SPDX-License-Identifier: Apache-2.0
// Memory in huge pages, mapped before it is used (docs/design/host-backend.md).
#include <heddle/tensor/arena.hpp>

#include "checks.hpp"

#if defined(__linux__)
#include <sys/resource.h>
#endif
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace arena_test {

namespace {

using heddle::arena;
using heddle::detail::huge_page;

std::uintptr_t address(void const* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

#if defined(__linux__)
/// Whether huge pages were asked for where `memory` is; nothing where the system does not say, or has none.
std::optional<bool> asked_for_huge_pages(void const* memory) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) return {};
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-')
      here = begin <= address(memory) && address(memory) < end;
    if (here && line.starts_with("VmFlags:")) return (line + ' ').find(" hg ") != std::string::npos;
  }
  return {};
}

long page_faults() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}
#endif

}  // namespace

TEST_CASE("an arena is aligned to cache lines, from the size of a huge page on to huge pages, and holds zeros") {
  for (int round = 0; round < 2; ++round)
    for (std::size_t const bytes :
         {std::size_t{4}, std::size_t{4096}, huge_page - 4, huge_page, huge_page + 4, 5 * huge_page + 4096}) {
      CAPTURE(bytes);
      arena<float> const a(bytes / sizeof(float)), b(bytes / sizeof(float));
      CHECK(a.bytes() == bytes);
      for (arena<float> const* one : {&a, &b}) {
        CHECK(address(one->data()) % (bytes >= huge_page ? huge_page : 128) == 0);
        std::size_t others = 0;
        for (std::size_t i = 0; i < one->size(); ++i) others += one->data()[i] == 0 ? 0 : 1;
        CHECK(others == 0);
        std::fill_n(one->data(), one->size(), 1.0F);  // what one of the next round may be given
      }
    }
  CHECK(arena<float>(0).data() == nullptr);
}

#if defined(__linux__)
TEST_CASE("the system is asked for huge pages where an arena is large, and for none where it is small") {
  arena<float> const large(4 * huge_page / sizeof(float)), small(4096);
  auto const of_large = asked_for_huge_pages(large.data()), of_small = asked_for_huge_pages(small.data());
  if (!of_large || !of_small) {
    MESSAGE("this system does not say");
    return;
  }
  CHECK(*of_large);
  CHECK_FALSE(*of_small);
}

TEST_CASE("who first uses an arena meets no page fault") {
  constexpr std::size_t bytes = 8 * huge_page;
  arena<char> const a(bytes);
  long const before = page_faults();
  for (std::size_t i = 0; i < bytes; i += 4096) a.data()[i] = 1;
  CHECK(page_faults() - before < 4);  // of 8 huge pages, or 4096 small ones
}
#endif

}  // namespace arena_test
