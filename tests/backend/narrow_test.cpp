// SPDX-License-Identifier: Apache-2.0
// The host's primitives on 16-bit numbers, and products in tf32: against the same sums in double, of the same rounded
// operands. What is left is one rounding of the result to the narrow type, and roundings of float on the way.
#include <heddle/backend/host.hpp>
#include <heddle/optim/adamw.hpp>
#include <limits>

#include "checks.hpp"

namespace narrow_test {
namespace {

namespace hd = heddle;
namespace host = heddle::host;
using B = hd::host_backend;
using checks::values;

/// Half a step at 1: what rounding to T may change, of the number itself.
template <class T>
constexpr double unit = 0;
template <>
constexpr double unit<host::bfloat16> = 0x1p-8;
template <>
constexpr double unit<host::float16> = 0x1p-11;
template <>
constexpr double unit<float> = 0x1p-24;
/// Half of the smallest number of T, to which what vanishes is rounded; bfloat16 has float's exponents.
template <class T>
constexpr double least = std::is_same_v<T, host::float16> ? 0x1p-25 : 0;
/// Half a step of float.
constexpr double fine = 0x1p-24;

template <class T>
std::vector<T> rounded(std::vector<double> const& x) {
  std::vector<T> out;
  for (double v : x) out.push_back(static_cast<T>(static_cast<float>(v)));
  return out;
}
template <class T>
std::vector<double> widened(std::vector<T> const& x) {
  std::vector<double> out;
  for (T v : x) out.push_back(static_cast<double>(v));
  return out;
}
template <class T>
std::vector<T> some(std::size_t n, std::uint64_t seed, double low = -1, double high = 1) {
  return rounded<T>(values(n, seed, low, high));
}
/// |out - exact| is at most one rounding of the exact number and `float_error`, element by element.
template <class T, class Bound>
void check_near(std::vector<T> const& out, std::vector<double> const& exact, Bound float_error) {
  REQUIRE(out.size() == exact.size());
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    double const e = float_error(i);
    double const off = std::fabs(static_cast<double>(out[i]) - exact[i]) /
                       (unit<T> * (std::fabs(exact[i]) + e) + e + least<T> + 1e-300);
    if (!(off <= worst)) worst = off, at = i;
  }
  CAPTURE(at);
  CAPTURE(exact[at]);
  CHECK(worst <= 1);
}

}  // namespace

TEST_CASE_TEMPLATE("widening and rounding are Eigen's, for every number", T, host::bfloat16, host::float16) {
  constexpr std::size_t lanes = host::detail::lane_count_v<float>;
  for (std::uint32_t bits = 0; bits < 65536; bits += lanes) {
    T in[lanes], out[lanes];
    for (std::size_t i = 0; i < lanes; ++i) {
      auto const word = static_cast<std::uint16_t>(bits + i);
      std::memcpy(static_cast<void*>(in + i), &word, 2);
    }
    auto const wide = host::detail::load<T>(in, host::detail::whole<T>{});
    host::detail::store<T>(out, wide);
    for (std::size_t i = 0; i < lanes; ++i) {
      auto const expected = static_cast<float>(in[i]);
      bool const alike = std::isnan(expected) ? std::isnan(wide[i]) && std::isnan(static_cast<float>(out[i]))
                                              : wide[i] == expected && static_cast<float>(out[i]) == expected;
      if (!alike) FAIL("bits " << bits + i);
    }
  }
  // Ties, their neighbours, what overflows, what vanishes.
  std::vector<float> x = {1.0F,
                          std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::max(),
                          65519.99F,
                          65520.0F,
                          0x1p-24F,
                          0x1p-25F,
                          0x1.000002p-25F,
                          -0.0F};
  for (double v : values(4096, 3, -4, 4)) x.push_back(static_cast<float>(v));
  for (std::uint32_t i = 0; i < 4096; ++i) {
    float const at = 1 + static_cast<float>(i) * (static_cast<float>(unit<T>) / 4);
    for (float const v : {at, std::nextafter(at, 0.0F), std::nextafter(at, 9.0F)}) x.push_back(-v);
  }
  for (float const v : x) {
    T out[1];
    host::detail::store<T>(out, host::detail::broadcast(v), 1);
    if (!(static_cast<float>(out[0]) == static_cast<float>(static_cast<T>(v)))) FAIL("float " << v);
  }
  T nan[1];
  host::detail::store<T>(nan, host::detail::broadcast(std::numeric_limits<float>::quiet_NaN()), 1);
  CHECK(std::isnan(static_cast<float>(nan[0])));
}

TEST_CASE("an operand of tf32 has 10 bits of fraction, to nearest, ties away from zero") {
  auto const rounded_of = [](float x) {
    float out[1];
    host::detail::tfloat32_operand::read(&x, 1, out);
    return out[0];
  };
  CHECK(rounded_of(1 + 0x1p-11F) == 1 + 0x1p-10F);  // to even it would be 1
  CHECK(rounded_of(-1 - 0x1p-11F) == -1 - 0x1p-10F);
  CHECK(rounded_of(std::nextafter(1 + 0x1p-11F, 0.0F)) == 1);
  CHECK(rounded_of(1 + 3 * 0x1p-11F) == 1 + 0x1p-9F);
  CHECK(rounded_of(std::numeric_limits<float>::infinity()) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(rounded_of(std::numeric_limits<float>::quiet_NaN())));
}

namespace {
/// One product against sums in double of the operands as `read` gives them.
template <class Products, class T, std::size_t M, std::size_t N, std::size_t K, bool TA, bool TB, class Read>
void check_product(Read read) {
  auto const a = some<T>(M * K, 1), b = some<T>(K * N, 2), before = some<T>(M * N, 3, -16, 16);
  std::vector<T> c = before, fresh(M * N, T(7));
  Products::template product<M, N, K, TA, TB>(a.data(), b.data(), fresh.data());
  Products::template product_accumulate<M, N, K, TA, TB>(a.data(), b.data(), c.data());
  std::vector<double> exact(M * N), sizes(M * N), sums(M * N);
  for (std::size_t i = 0; i < M; ++i)
    for (std::size_t j = 0; j < N; ++j) {
      double sum = 0, size = 0;
      for (std::size_t k = 0; k < K; ++k) {
        double const term = read(a[TA ? k * M + i : i * K + k]) * read(b[TB ? j * K + k : k * N + j]);
        sum += term;
        size += std::fabs(term);
      }
      exact[i * N + j] = sum;
      sums[i * N + j] = sum + static_cast<double>(before[i * N + j]);
      sizes[i * N + j] = size + std::fabs(static_cast<double>(before[i * N + j]));
    }
  // K additions of float, each within half a step of the largest partial sum.
  auto const error = [&](std::size_t i) { return static_cast<double>(K + 1) * fine * sizes[i]; };
  check_near(fresh, exact, error);
  check_near(c, sums, error);
}
template <class Products, class T, bool TA, bool TB, class Read>
void check_products(Read read) {
  check_product<Products, T, 1, 1, 1, TA, TB>(read);
  check_product<Products, T, 5, 17, 33, TA, TB>(read);
  check_product<Products, T, 33, 65, 7, TA, TB>(read);
  check_product<Products, T, 261, 37, 19, TA, TB>(read);   // more rows than a part has,
  check_product<Products, T, 3, 515, 1030, TA, TB>(read);  // more columns, and more depth
}
template <class Products, class T, class Read>
void check_layouts(Read read) {
  check_products<Products, T, false, false>(read);
  check_products<Products, T, false, true>(read);
  check_products<Products, T, true, false>(read);
  check_products<Products, T, true, true>(read);
}
}  // namespace

TEST_CASE_TEMPLATE("products are summed in float and rounded once", T, host::bfloat16, host::float16) {
  check_layouts<B, T>([](T x) { return static_cast<double>(x); });
  // A sum in bfloat16 stops at 256, in float16 at 2048.
  std::vector<T> const ones(4096, T(1));
  std::vector<T> c(1, T(4096));
  B::product_accumulate<1, 1, 4096, false, true>(ones.data(), ones.data(), c.data());
  CHECK(static_cast<double>(c[0]) == 8192);
}
TEST_CASE("products in tf32 round their operands and nothing else") {
  check_layouts<hd::host_tfloat32_backend, float>([](float x) {
    float out[1];
    host::detail::tfloat32_operand::read(&x, 1, out);
    return static_cast<double>(out[0]);
  });
}

TEST_CASE_TEMPLATE("norms: what is kept is float, and gradients are rounded once", T, host::bfloat16, host::float16) {
  constexpr std::size_t rows = 67, width = 33;
  auto const x = some<T>(rows * width, 1), gamma = some<T>(width, 2), beta = some<T>(width, 3),
             dy = some<T>(rows * width, 4), base = some<T>(rows * width, 5);
  for (bool const centred : {true, false}) {
    CAPTURE(centred);
    std::vector<T> y(rows * width), dx(rows * width), dgamma = gamma, dbeta = beta;
    std::vector<float> mean(rows), rstd(rows);
    if (centred) {
      B::layer_norm<rows, width>(x.data(), gamma.data(), beta.data(), 1e-5F, y.data(), mean.data(), rstd.data());
      B::layer_norm_backward<rows, width>(x.data(), gamma.data(), mean.data(), rstd.data(), dy.data(), base.data(),
                                          dx.data(), dgamma.data(), dbeta.data());
    } else {
      B::rms_norm<rows, width>(x.data(), gamma.data(), 1e-5F, y.data(), rstd.data());
      B::rms_norm_backward<rows, width>(x.data(), gamma.data(), rstd.data(), dy.data(), base.data(), dx.data(),
                                        dgamma.data());
    }
    auto const X = widened(x), G = widened(gamma), D = widened(dy);
    std::vector<double> exact_y(rows * width), exact_dx(rows * width), exact_dg = widened(gamma),
                                                                       exact_db = widened(beta);
    for (std::size_t r = 0; r < rows; ++r) {
      double average = 0, squares = 0, shift = 0, slope = 0;
      for (std::size_t i = 0; i < width && centred; ++i) average += X[r * width + i] / width;
      for (std::size_t i = 0; i < width; ++i) squares += std::pow(X[r * width + i] - average, 2) / width;
      double const inverse = 1 / std::sqrt(squares + 1e-5);
      for (std::size_t i = 0; i < width; ++i) {
        double const normal = (X[r * width + i] - average) * inverse;
        exact_y[r * width + i] = normal * G[i] + (centred ? static_cast<double>(beta[i]) : 0);
        exact_dg[i] += D[r * width + i] * normal;
        exact_db[i] += D[r * width + i];
        shift += centred ? D[r * width + i] * G[i] / width : 0;
        slope += D[r * width + i] * G[i] * normal / width;
      }
      for (std::size_t i = 0; i < width; ++i) {
        double const normal = (X[r * width + i] - average) * inverse;
        exact_dx[r * width + i] =
            (D[r * width + i] * G[i] - shift - normal * slope) * inverse + static_cast<double>(base[r * width + i]);
      }
    }
    // Numbers up to 4 (a normal number times 1/σ), some dozen roundings of float; sums over 67 rows.
    check_near(y, exact_y, [](std::size_t) { return 64 * fine; });
    check_near(dx, exact_dx, [](std::size_t) { return 256 * fine; });
    check_near(dgamma, exact_dg, [](std::size_t) { return 67 * 16 * fine; });
    if (centred) check_near(dbeta, exact_db, [](std::size_t) { return 67 * 8 * fine; });
  }
}

TEST_CASE_TEMPLATE("sums over many rows do not stall", T, host::bfloat16, host::float16) {
  constexpr std::size_t rows = 4096, width = 19;
  std::vector<T> const ones(rows * width, T(1)), gamma(width, T(1));
  std::vector<float> const mean(rows, 0), rstd(rows, 1);
  std::vector<T> bias(width, T(0)), table(3 * width, T(0)), dgamma(width, T(0)), dbeta(width, T(0)), dx(rows * width);
  std::vector<std::int32_t> const ids(rows, 1);
  B::bias_gradient<rows, width>(ones.data(), bias.data());
  B::embedding_backward<rows, 3, width>(ids.data(), ones.data(), 0, table.data());
  B::layer_norm_backward<rows, width>(ones.data(), gamma.data(), mean.data(), rstd.data(), ones.data(), nullptr,
                                      dx.data(), dgamma.data(), dbeta.data());
  for (std::size_t i = 0; i < width; ++i) {
    CHECK(static_cast<double>(bias[i]) == rows);
    CHECK(static_cast<double>(table[width + i]) == rows);
    CHECK(static_cast<double>(table[i]) == 0);
    CHECK(static_cast<double>(dgamma[i]) == rows);
    CHECK(static_cast<double>(dbeta[i]) == rows);
  }
}

TEST_CASE_TEMPLATE("an embedding's gradient: each id once, with what stood there", T, host::bfloat16, host::float16) {
  constexpr std::size_t rows = 61, vocabulary = 7, width = 21;
  auto const dy = some<T>(rows * width, 1), before = some<T>(vocabulary * width, 2);
  std::vector<std::int32_t> ids(rows);
  for (std::size_t r = 0; r < rows; ++r) ids[r] = static_cast<std::int32_t>(r * r % 11);  // some are held elsewhere
  std::vector<T> table = before;
  B::embedding_backward<rows, vocabulary, width>(ids.data(), dy.data(), 2, table.data());
  auto exact = widened(before);
  for (std::size_t r = 0; r < rows; ++r)
    if (ids[r] >= 2 && ids[r] < 9)
      for (std::size_t i = 0; i < width; ++i)
        exact[static_cast<std::size_t>(ids[r] - 2) * width + i] += static_cast<double>(dy[r * width + i]);
  check_near(table, exact, [](std::size_t) { return 61 * 8 * fine; });
}

TEST_CASE_TEMPLATE("functions of one number are rounded once", T, host::bfloat16, host::float16) {
  constexpr std::size_t n = 1031;
  auto const x = some<T>(n, 1, -6, 6), dy = some<T>(n, 2);
  auto const X = widened(x);
  std::vector<T> y(n), dx(n), sum(n);
  B::activation<hd::activation_kind::silu, n>(x.data(), y.data());
  B::activation_backward<hd::activation_kind::silu, n>(x.data(), dy.data(), dx.data());
  B::add<n>(x.data(), dy.data(), sum.data());
  std::vector<double> exact_y(n), exact_dx(n), exact_sum(n);
  for (std::size_t i = 0; i < n; ++i) {
    double const s = 1 / (1 + std::exp(-X[i]));
    exact_y[i] = X[i] * s;
    exact_dx[i] = static_cast<double>(dy[i]) * (s + X[i] * s * (1 - s));
    exact_sum[i] = X[i] + static_cast<double>(dy[i]);
  }
  check_near(y, exact_y, [](std::size_t) { return 64 * fine; });
  check_near(dx, exact_dx, [](std::size_t) { return 64 * fine; });
  check_near(sum, exact_sum, [](std::size_t) { return 8 * fine; });
}

TEST_CASE_TEMPLATE("cross-entropy: sums in float, and a probability near 1 leaves its gradient", T, host::bfloat16,
                   host::float16) {
  constexpr std::size_t rows = 9, width = 37;
  auto logits = some<T>(rows * width, 1, -8, 8);
  logits[3] = T(20);  // of the first row, whose target it is
  std::vector<std::int32_t> targets(rows);
  for (std::size_t r = 0; r < rows; ++r) targets[r] = static_cast<std::int32_t>(3 + r * 5 % 31);
  targets[4] = -100;
  std::vector<float> row_max(rows), row_sum(rows), at_target(rows), lse(rows);
  float loss = 0, scale = 1024;
  B::cross_entropy_max<rows, width>(logits.data(), width - 2, row_max.data());
  B::cross_entropy_sum<rows, width>(logits.data(), width - 2, 0, targets.data(), row_max.data(), row_sum.data(),
                                    at_target.data());
  B::cross_entropy_loss<rows>(targets.data(), -100, row_max.data(), row_sum.data(), at_target.data(), lse.data(),
                              &loss);
  auto const L = widened(logits);
  std::vector<double> exact(rows * width, 0);
  double exact_loss = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    if (targets[r] < 0) continue;
    double sum = 0;
    for (std::size_t i = 0; i < width - 2; ++i) sum += std::exp(L[r * width + i]);
    auto const t = static_cast<std::size_t>(targets[r]);
    exact_loss += std::log(sum) - L[r * width + t];
    double others = 0;
    for (std::size_t i = 0; i < width - 2; ++i) {
      exact[r * width + i] = 1024 * std::exp(L[r * width + i]) / sum;
      if (i != t) others += exact[r * width + i];
    }
    exact[r * width + t] = -others;
  }
  CHECK(std::fabs(loss - exact_loss) <= 64 * fine * exact_loss);
  std::vector<T> apart(rows * width, T(5)), in_place = logits;
  for (T* const out : {apart.data(), in_place.data()})
    B::cross_entropy_backward<rows, width>(out == in_place.data() ? in_place.data() : logits.data(), width - 2, 0,
                                           targets.data(), -100, lse.data(), &scale, out);
  // Exponents up to 28 in float: half a step of 32 is 32·2^-24 of the result, which is up to 1024.
  auto const error = [&](std::size_t) { return 1024 * 64 * fine; };
  check_near(apart, exact, error);
  check_near(in_place, exact, error);
  CHECK(static_cast<double>(apart[3]) < 0);  // a probability rounded to T would be 1, and the gradient 0
}

TEST_CASE_TEMPLATE("rotary and dropout: one rounding, and the mask of float", T, host::bfloat16, host::float16) {
  constexpr std::size_t sequence = 5, heads = 2, dim = 6, n = sequence * heads * 3 * dim;
  auto const x = some<T>(n, 1), base = some<T>(n, 2);
  std::vector<float> cosine(sequence * dim / 2), sine(sequence * dim / 2), wide(n), wide_base(n), expected(n);
  std::int64_t positions[sequence];
  B::count_up<sequence>(3, positions);
  B::rotary_table<sequence, dim>(positions, 1e4, cosine.data(), sine.data());
  for (std::size_t i = 0; i < n; ++i) {
    wide[i] = static_cast<float>(x[i]);
    wide_base[i] = static_cast<float>(base[i]);
  }
  std::vector<T> out(n);
  auto const is_rounded = [&] {  // the same operations in float, and then rounded
    for (std::size_t i = 0; i < n; ++i)
      if (static_cast<float>(out[i]) != static_cast<float>(static_cast<T>(expected[i]))) return false;
    return true;
  };
  B::rotary<1, sequence, heads, 1, dim>(x.data(), out.data(), cosine.data(), sine.data());
  B::rotary<1, sequence, heads, 1, dim>(wide.data(), expected.data(), cosine.data(), sine.data());
  CHECK(is_rounded());
  hd::index_map map{};
  map.rank = 1;
  map.extent[0] = map.valid[0] = n;
  map.stride[0] = 1;
  hd::random_key const key{1, 2, 3};
  B::dropout(x.data(), nullptr, out.data(), map, key, 0.3);
  B::dropout(wide.data(), nullptr, expected.data(), map, key, 0.3);
  CHECK(is_rounded());
  B::dropout(x.data(), base.data(), out.data(), map, key, 0.3);
  B::dropout(wide.data(), wide_base.data(), expected.data(), map, key, 0.3);
  CHECK(is_rounded());
}

TEST_CASE_TEMPLATE("an optimizer reads narrow gradients as what they are", T, host::bfloat16, host::float16) {
  constexpr std::size_t n = 1031;
  auto const g = some<T>(n, 1);
  std::vector<float> wide(n), w(n, 1), m(n, 0), v(n, 0);
  for (std::size_t i = 0; i < n; ++i) wide[i] = static_cast<float>(g[i]);
  auto w2 = w, m2 = m, v2 = v;
  hd::adamw::options const options{};
  hd::update_facts const facts{1, 1e-2, 0.5, true};
  hd::adamw::update<B>(options, facts, w.data(), g.data(), {m.data(), v.data()}, n);
  hd::adamw::update<B>(options, facts, w2.data(), static_cast<float const*>(wide.data()), {m2.data(), v2.data()}, n);
  CHECK(w == w2);
  CHECK(m == m2);
  CHECK(v == v2);
  CHECK(B::sum_of_squares(g.data(), n) == B::sum_of_squares(wide.data(), n));
}

}  // namespace narrow_test
