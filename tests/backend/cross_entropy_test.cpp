// SPDX-License-Identifier: Apache-2.0
#include <heddle/backend/host/cross_entropy.hpp>

#include <cmath>
#include <limits>
#include <string>

#include "checks.hpp"

namespace cross_entropy_test {

namespace {

using heddle::host::cross_entropy;

constexpr std::int32_t ignored = -100;

/// Loss and gradient as `Parts` ranks that each hold `Width` columns compute them; the reductions over the ranks, which
/// are a communicator's elsewhere, are done by hand.
template <class T, std::size_t Rows, std::size_t Width, std::size_t Parts>
struct split_loss {
  std::size_t vocabulary;
  std::vector<std::int32_t> targets;
  T loss = 0;
  std::vector<T> log_sum_exp = std::vector<T>(Rows);
  std::vector<T> row_sum = std::vector<T>(Rows);

  std::size_t valid(std::size_t part) const {
    std::size_t const first = part * Width;
    return vocabulary <= first ? 0 : vocabulary - first < Width ? vocabulary - first : Width;
  }

  /// logits[part][Rows,Width]
  double forward(std::vector<std::vector<T>> const& logits) {
    std::vector<T> highest(Rows, -std::numeric_limits<T>::infinity()), target(Rows), part_max(Rows), part_sum(Rows),
        part_target(Rows);
    row_sum.assign(Rows, T(0));
    for (std::size_t part = 0; part < Parts; ++part) {
      cross_entropy::cross_entropy_max<Rows, Width>(logits[part].data(), valid(part), part_max.data());
      for (std::size_t i = 0; i < Rows; ++i) highest[i] = part_max[i] > highest[i] ? part_max[i] : highest[i];
    }
    for (std::size_t part = 0; part < Parts; ++part) {
      cross_entropy::cross_entropy_sum<Rows, Width>(logits[part].data(), valid(part),
                                                    static_cast<std::int64_t>(part * Width), targets.data(),
                                                    highest.data(), part_sum.data(), part_target.data());
      for (std::size_t i = 0; i < Rows; ++i) {
        row_sum[i] += part_sum[i];
        target[i] += part_target[i];
      }
    }
    cross_entropy::cross_entropy_loss<Rows>(targets.data(), ignored, highest.data(), row_sum.data(), target.data(),
                                            log_sum_exp.data(), &loss);
    return static_cast<double>(loss);
  }

  std::vector<std::vector<T>> backward(std::vector<std::vector<T>> logits, T scale) const {
    for (std::size_t part = 0; part < Parts; ++part)
      cross_entropy::cross_entropy_backward<Rows, Width>(logits[part].data(), valid(part),
                                                         static_cast<std::int64_t>(part * Width), targets.data(),
                                                         ignored, log_sum_exp.data(), &scale, logits[part].data());
    return logits;
  }
};

double expected(std::vector<double> const& logits, std::vector<std::int32_t> const& targets) {
  std::size_t const width = logits.size() / targets.size();
  double loss = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignored) continue;
    double sum = 0;
    for (std::size_t j = 0; j < width; ++j) sum += std::exp(logits[i * width + j]);
    loss += std::log(sum) - logits[i * width + static_cast<std::size_t>(targets[i])];
  }
  return loss;
}

template <std::size_t Width>
void check_whole() {
  CAPTURE(Width);
  constexpr std::size_t rows = 5;
  constexpr std::int32_t last = static_cast<std::int32_t>(Width) - 1;
  split_loss<double, rows, Width, 1> whole{Width, {0, last, ignored, last / 2, 0}};
  std::vector<std::vector<double>> logits{checks::values(rows * Width, 1, -5, 5)};
  CHECK(whole.forward(logits) == doctest::Approx(expected(logits[0], whole.targets)).epsilon(1e-14));
  auto const gradient = whole.backward(logits, 0.25);
  checks::gradient(logits[0], gradient[0], [&] { return 0.25 * whole.forward(logits); });
  for (std::size_t j = 0; j < Width; ++j) CHECK(gradient[0][2 * Width + j] == 0);

  // Out of place: the same bits.
  whole.forward(logits);
  std::vector<double> separate(rows * Width, 7.0);
  double const scale = 0.25;
  cross_entropy::cross_entropy_backward<rows, Width>(logits[0].data(), Width, 0, whole.targets.data(), ignored,
                                                     whole.log_sum_exp.data(), &scale, separate.data());
  CHECK(separate == whole.backward(logits, 0.25)[0]);

  split_loss<float, rows, Width, 1> narrow{Width, whole.targets};
  std::vector<std::vector<float>> const logits32{checks::narrowed(logits[0])};
  // The logarithm of a sum of about ten roundings of 6e-8, and logits of size 5 with half an ulp of 2.4e-7, in 4 rows.
  CHECK(std::fabs(narrow.forward(logits32) - whole.loss) < 4e-6);
  CHECK(checks::distance(narrow.backward(logits32, 0.25f)[0], gradient[0]) < 1e-6);
}

}  // namespace

TEST_CASE("cross-entropy: values, gradients, ignored rows, precisions, in place") {
  checks::for_odd_sizes([](auto n) { check_whole<decltype(n)::value>(); });
}

TEST_CASE("cross-entropy: split in halves it is the whole (CE-3: ln 4)") {
  // Four columns of zero logits in two halves: ln 4; a fault that takes each half for the whole gives ln 8.
  split_loss<double, 1, 2, 2> halves{4, {2}};
  CHECK(halves.forward({{0, 0}, {0, 0}}) == doctest::Approx(1.3862943611198906).epsilon(1e-15));

  constexpr std::size_t rows = 3;
  auto const logits = checks::values(rows * 34, 1, -5, 5);
  split_loss<double, rows, 34, 1> whole{34, {3, 33, ignored}};
  split_loss<double, rows, 17, 2> split{34, whole.targets};
  std::vector<std::vector<double>> parts(2, std::vector<double>(rows * 17));
  for (std::size_t i = 0; i < rows * 34; ++i) parts[i % 34 / 17][i / 34 * 17 + i % 34 % 17] = logits[i];
  CHECK(split.forward(parts) == doctest::Approx(whole.forward({logits})).epsilon(1e-14));
  auto const dwhole = whole.backward({logits}, 1)[0];
  auto const dparts = split.backward(parts, 1);
  for (std::size_t i = 0; i < rows * 34; ++i)
    CHECK(dparts[i % 34 / 17][i / 34 * 17 + i % 34 % 17] == doctest::Approx(dwhole[i]).epsilon(1e-13));
}

TEST_CASE_TEMPLATE("cross-entropy: padded columns take no part (VP-2: ln 5)", T, float, double) {
  // A vocabulary of 5 padded to 8 over two ranks; what stands in the padding must not matter, not even NaN.
  T const trap = std::numeric_limits<T>::quiet_NaN();
  std::vector<std::vector<T>> const logits{{0, 0, 0, 0}, {0, trap, 100, std::numeric_limits<T>::infinity()}};
  split_loss<T, 1, 4, 2> split{5, {1}};
  CHECK(split.forward(logits) == doctest::Approx(1.6094379124341003).epsilon(1e-7));
  auto const gradient = split.backward(logits, T(1));
  for (std::size_t j = 1; j < 4; ++j) CHECK(gradient[1][j] == 0);
  CHECK(gradient[0][0] == doctest::Approx(0.2));
  CHECK(gradient[0][1] == doctest::Approx(-0.8));
  CHECK(gradient[1][0] == doctest::Approx(0.2));
}

TEST_CASE("cross-entropy: a rank whose columns are all padding") {
  std::vector<std::vector<double>> const logits{{1, 2, 3, 4}, {9, 9, 9, 9}};
  split_loss<double, 1, 4, 2> split{4, {3}};
  split_loss<double, 1, 4, 1> whole{4, {3}};
  CHECK(split.forward(logits) == whole.forward({logits[0]}));
  CHECK(split.backward(logits, 1)[1] == std::vector<double>(4, 0.0));
  double highest = 0;
  cross_entropy::cross_entropy_max<1, 4>(logits[1].data(), 0, &highest);
  CHECK(highest == -std::numeric_limits<double>::infinity());
}

TEST_CASE("cross-entropy: nothing counts (CE-2)") {
  split_loss<double, 2, 3, 1> none{3, {ignored, ignored}};
  double const trap = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::vector<double>> const logits{{1, 2, 3, trap, trap, trap}};
  CHECK(none.forward(logits) == 0);
  CHECK(none.backward(logits, 1)[0] == std::vector<double>(6, 0.0));
}

TEST_CASE_TEMPLATE("cross-entropy: large logits do not overflow, -infinity has no weight", T, float, double) {
  T const infinity = std::numeric_limits<T>::infinity();
  split_loss<T, 2, 3, 1> loss{3, {0, 1}};
  std::vector<std::vector<T>> const logits{{10000, 10000, -10000, -10000, -10000, -infinity}};
  CHECK(loss.forward(logits) ==
        doctest::Approx(2 * 0.6931471805599453).epsilon(1e-7));  // although 10000 has an ulp of 1e-3
  auto const gradient = loss.backward(logits, T(1))[0];
  CHECK(gradient[2] == 0);
  CHECK(gradient[5] == 0);
}

TEST_CASE_TEMPLATE("cross-entropy: a NaN logit gives a NaN loss wherever it stands", T, float, double) {
  checks::for_odd_sizes([](auto n) {
    constexpr std::size_t N = decltype(n)::value;
    for (std::size_t at = 0; at < N; ++at) {
      split_loss<T, 1, N, 1> loss{N, {0}};
      std::vector<std::vector<T>> logits{std::vector<T>(N, T(1))};
      logits[0][at] = std::numeric_limits<T>::quiet_NaN();
      T highest = 0;
      cross_entropy::cross_entropy_max<1, N>(logits[0].data(), N, &highest);
      CHECK(std::isnan(highest));
    }
  });
}

TEST_CASE("cross-entropy: a target outside the vocabulary is an error that names it (VP-2)") {
  std::int32_t const targets[] = {0, ignored, 4, 5};
  CHECK_NOTHROW(cross_entropy::check_targets(targets, 3, 5, ignored));
  std::string text;
  try {
    cross_entropy::check_targets(targets, 4, 5, ignored);
  } catch (heddle::error const& error) {
    text = error.what();
  }
  CHECK(text.find("target 5 at position 3") != std::string::npos);
  CHECK(text.find("0..4") != std::string::npos);
  CHECK_THROWS_AS(cross_entropy::check_targets(targets, 4, 5, -1), heddle::error);
}

}  // namespace cross_entropy_test
