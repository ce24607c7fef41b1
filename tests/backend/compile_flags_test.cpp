// SPDX-License-Identifier: Apache-2.0
// The report's warnings follow the flags that a program was compiled with. Compiled three times; see meson.build.
#include <doctest/doctest.h>

#include <heddle/backend/host/compile_flags.hpp>

TEST_CASE("flags that cost speed are named, with the remedy, and no others") {
  std::string const told = heddle::describe_host_flags();
  CAPTURE(told);
  [[maybe_unused]] auto const has = [&](char const* text) { return told.find(text) != std::string::npos; };
#if defined(EXPECT_SLOW)
  CHECK(has("add -O3"));
  CHECK(has("add -march=native"));
  CHECK(!has("-mtune"));
#elif defined(EXPECT_TUNED)
  CHECK(has("add -mtune=generic"));
  CHECK(!has("add -O3"));
  CHECK(!has("add -march=native"));
#else
  CHECK(told.empty());
#endif
}
