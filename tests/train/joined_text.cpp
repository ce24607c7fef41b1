// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>

namespace joined_text_test {
namespace {

using heddle::detail::joined_text;
using heddle::detail::text_part;

// A character would be written as its number, and a truth value as 1.
static_assert(!std::convertible_to<char, text_part> && !std::convertible_to<bool, text_part>);

TEST_CASE("parts are joined in their order, whatever they are") {
  std::string const name = "w";
  std::string_view const middle = std::string_view("[middle]").substr(1, 6);
  CHECK(joined_text({}).empty());
  CHECK(joined_text({"", "", std::string()}).empty());
  CHECK(joined_text({name, " has ", 3U, ' ' + name + 's', "; ", middle, std::string(100, '.')}) ==
        "w has 3 ws; middle" + std::string(100, '.'));
  CHECK(joined_text({std::string_view("a\0b", 3), "c"}) == std::string("a\0bc", 4));
}

TEST_CASE("whole numbers are written with all their digits") {
  CHECK(joined_text({0U, " ", 0, " ", -1, " ", -10L, " ", static_cast<unsigned char>(65)}) == "0 0 -1 -10 65");
  CHECK(joined_text({std::numeric_limits<std::uint64_t>::max()}) == "18446744073709551615");
  CHECK(joined_text({std::numeric_limits<std::uint64_t>::max() - 2}) == "18446744073709551613");
  CHECK(joined_text({std::numeric_limits<std::int64_t>::max()}) == "9223372036854775807");
  CHECK(joined_text({std::numeric_limits<std::int64_t>::min()}) == "-9223372036854775808");
}

TEST_CASE("other numbers are written so that they read back as the same") {
  double const third = 1.0 / 3;
  CHECK(std::stod(joined_text({third})) == third);
  CHECK(joined_text({0.5, " ", -2.0, " ", 1e-30, " ", 0.25F}) == "0.5 -2 1e-30 0.25");
  CHECK(joined_text({-std::numeric_limits<double>::quiet_NaN(), " ", -std::numeric_limits<double>::infinity()}) ==
        "nan -inf");
}

TEST_CASE("an error has the text that it was given, of either type") {
  CHECK(heddle::error("plain").what() == std::string("plain"));
  CHECK(heddle::error(joined_text({"rank ", 7U, " failed"})).what() == std::string("rank 7 failed"));
}

}  // namespace
}  // namespace joined_text_test
