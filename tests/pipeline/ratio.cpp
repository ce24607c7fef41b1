// SPDX-License-Identifier: Apache-2.0
#include <heddle/ratio.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using heddle::ratio;

namespace ratio_test {

static_assert(ratio{2, 10} == ratio{1, 5});
static_assert(ratio{0, 7} == ratio{});
static_assert(ratio{1, 5} != ratio{1, 6});
static_assert(ratio{1, 6} < ratio{1, 5} && ratio{3, 4} > ratio{2, 3} && ratio{7, 3} >= ratio{14, 6});
static_assert(ratio{6, 4}.normalised().num == 3 && ratio{6, 4}.normalised().den == 2);
static_assert(ratio{0, 9}.normalised().den == 1);

// Without a value, and without an upper bound.
static_assert(ratio{1, 0} == ratio{5, 0} && ratio{1, 0} > ratio{UINT64_MAX, 1});
static_assert(ratio{0, 0} == ratio{0, 0} && ratio{0, 0} != ratio{0, 1} && ratio{0, 0} != ratio{1, 0});
static_assert(!(ratio{0, 0} < ratio{1, 2}) && !(ratio{0, 0} > ratio{1, 2}));

// Products of these do not fit into 64 bits: (n-1)/n < n/(n+1).
static_assert(ratio{UINT64_MAX - 2, UINT64_MAX - 1} < ratio{UINT64_MAX - 1, UINT64_MAX});
static_assert(ratio{UINT64_MAX, UINT64_MAX - 1} > ratio{UINT64_MAX - 1, UINT64_MAX});

TEST_CASE("ratios are ordered like their values") {
  for (std::uint64_t a = 0; a < 7; ++a)
    for (std::uint64_t b = 1; b < 7; ++b)
      for (std::uint64_t c = 0; c < 7; ++c)
        for (std::uint64_t d = 1; d < 7; ++d) {
          ratio const x{a, b};
          ratio const y{c, d};
          CHECK((x < y) == (a * d < c * b));
          CHECK((x == y) == (a * d == c * b));
          CHECK((x > y) == (a * d > c * b));
        }
  CHECK(ratio{3, 8}.to_double() == 0.375);
}

}  // namespace ratio_test
