// SPDX-License-Identifier: Apache-2.0
#include "attention.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <heddle/backend/host/attention.hpp>
#include <limits>
#include <string>
#include <type_traits>

namespace {

using namespace heddle;
using emulation::attend;
using emulation::attention_case;
using emulation::attention_path;
using emulation::attention_reference;
using emulation::bounded;
using emulation::smallest;
using emulation::tuned_for_80;
using emulation::values;
using emulation::wide;

constexpr attention_path plain = attention_path::plain, tensor_cores = attention_path::tensor_cores;
constexpr double infinite = std::numeric_limits<double>::infinity();

/// Whether all three kernels have a tile on a device, and it the memory for them.
template <class T, int HeadDim>
constexpr bool fits(int capability) {
  using namespace kernels;
  constexpr auto ok = [](attention_tile const& tile, int most) { return tile.rows > 0 && tile.shared <= most; };
  int const most = block_shared_bytes(capability);
  auto const all = [=](auto cores) {
    constexpr bool c = decltype(cores)::value;
    return ok(tuning<attention_forward_kernel<T, HeadDim, c>>::at(capability), most) &&
           ok(tuning<attention_query_gradient_kernel<T, HeadDim, c>>::at(capability), most) &&
           ok(tuning<attention_key_gradient_kernel<T, HeadDim, c>>::at(capability), most);
  };
  if constexpr (has_mma<T>)
    return all(std::bool_constant<true>{}) && all(std::bool_constant<false>{});
  else
    return all(std::bool_constant<false>{});
}
static_assert(fits<double, 256>(80) && fits<double, 256>(90) && fits<float, 256>(80) && fits<float, 256>(90));
static_assert(fits<float, 256>(86) && fits<double, 128>(89) && fits<__half, 256>(86) && fits<__nv_bfloat16, 256>(120));
static_assert(fits<float, 128>(75) && fits<__nv_bfloat16, 64>(0) && !fits<double, 256>(86));

template <class A>
std::vector<double> doubles(std::vector<A> const& all) {
  return {all.begin(), all.end()};
}

/// Within the bounds, and these are worth something: on the average below `worth` of the largest value.
template <class A>
void check_within(char const* name, std::vector<A> const& got, bounded const& expected, double worth) {
  CAPTURE(name);
  REQUIRE(got.size() == expected.value.size());
  std::size_t wrong = 0, first = 0;
  double bounds = 0;
  for (std::size_t i = got.size(); i-- > 0;) {
    double const g = static_cast<double>(got[i]), e = expected.value[i];
    bounds += expected.bound[i] / static_cast<double>(got.size());
    if (g == e || std::fabs(g - e) <= expected.bound[i]) continue;
    ++wrong;
    first = i;
  }
  CAPTURE(first);
  CAPTURE(static_cast<double>(got[first]));
  CAPTURE(expected.value[first]);
  CAPTURE(expected.bound[first]);
  CHECK(wrong == 0);
  CAPTURE(bounds);
  CHECK(bounds <= worth * (1 + emulation::largest(expected.value)));
}

template <class T, int HeadDim, attention_path Path, template <class, int, attention_path> class Tiles = tuned_for_80>
void check(attention_case const& what, double spread = 1.5, std::size_t offset = 0) {
  CAPTURE(HeadDim);
  CAPTURE(what.queries);
  CAPTURE(what.keys);
  CAPTURE(what.shift);
  CAPTURE(offset);
  std::vector<wide<T>> const x = values<T>(what.input(HeadDim), 31 + HeadDim, spread);
  std::vector<wide<T>> const dy = values<T>(what.output(HeadDim), 77);
  auto const got = attend<T, HeadDim, Path, Tiles>(what, x, dy, offset);
  attention_reference<T, HeadDim> expected(what);
  expected.forward(doubles(x));
  expected.backward(doubles(x), doubles(got.y), doubles(dy));
  double const worth = 16 * attention_reference<T, HeadDim>::u +
                       4096 * attention_reference<T, HeadDim>::f * std::fmax(1, spread * spread);
  check_within("y", got.y, expected.y, worth);
  check_within("log_sum_exp", got.log_sum_exp, expected.log_sum_exp, worth);
  check_within("dx", got.dx, expected.dx, worth);
}

/// The kernels, against the host's primitives in the same type.
template <class T, int HeadDim, std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group>
void check_host(std::size_t offset) {
  auto const what = attention_case::fused_of(Batch, Sequence, KvHeads, Group);
  std::vector<T> const x = values<T>(what.input(HeadDim), 5), dy = values<T>(what.output(HeadDim), 6);
  std::vector<T> y(dy.size()), log_sum_exp(what.statistics()), dx(x.size());
  using host_attention = host::attentions;
  std::vector<T> scratch(host_attention::attention_backward_scratch<Batch, Sequence, KvHeads, Group, HeadDim>());
  host_attention::attention<Batch, Sequence, KvHeads, Group, HeadDim>(x.data(), y.data(), log_sum_exp.data(),
                                                                      scratch.data());
  host_attention::attention_backward<Batch, Sequence, KvHeads, Group, HeadDim>(x.data(), y.data(), log_sum_exp.data(),
                                                                               dy.data(), dx.data(), scratch.data());
  auto const got = attend<T, HeadDim, plain>(what, x, dy, offset);
  emulation::check_near<T>(got.y, y);
  emulation::check_near<T>(got.log_sum_exp, log_sum_exp);
  emulation::check_near<T>(got.dx, dx, 64);
}
template <class T, int HeadDim, std::size_t Queries, std::size_t Keys>
void check_host_core() {
  attention_case const what{1, Queries, Keys, 1, 1, static_cast<int>(Keys) - static_cast<int>(Queries), false};
  std::vector<T> const x = values<T>(what.input(HeadDim), 5), dy = values<T>(what.output(HeadDim), 6);
  std::vector<T> y(dy.size()), log_sum_exp(Queries), dx(x.size());
  std::vector<T> scratch(host::attentions::attention_core_backward_scratch<Queries, Keys, HeadDim>());
  T const *const k = x.data() + Queries * HeadDim, *const v = k + Keys * HeadDim;
  host::attentions::attention_core<Queries, Keys, HeadDim>(x.data(), HeadDim, k, HeadDim, v, HeadDim, y.data(), HeadDim,
                                                           log_sum_exp.data(), scratch.data());
  host::attentions::attention_core_backward<Queries, Keys, HeadDim>(
      x.data(), HeadDim, k, HeadDim, v, HeadDim, y.data(), dy.data(), HeadDim, log_sum_exp.data(), dx.data(),
      dx.data() + Queries * HeadDim, dx.data() + (Queries + Keys) * HeadDim, scratch.data());
  auto const got = attend<T, HeadDim, plain>(what, x, dy);
  emulation::check_near<T>(got.y, y);
  emulation::check_near<T>(got.log_sum_exp, log_sum_exp);
  emulation::check_near<T>(got.dx, dx, 64);
}

/// What a row that sees nothing gives, and one that sees keys of equal scores.
template <class T, attention_path Path>
void check_alignment() {
  constexpr int head_dim = 16;
  std::vector<wide<T>> const ones(4 * head_dim, 1);
  {
    attention_case const what{1, 4, 2, 1, 1, -2, false};
    auto const got = attend<T, head_dim, Path>(what, values<T>(what.input(head_dim), 3), ones);
    for (std::size_t i = 0; i < 2 * head_dim; ++i) {
      CHECK(got.y[i] == 0);
      CHECK(got.dx[i] == 0);
    }
    CHECK(got.log_sum_exp[0] == -infinite);
    CHECK(got.log_sum_exp[1] == -infinite);
    CHECK(std::isfinite(got.log_sum_exp[2]));
    for (wide<T> const one : got.dx) CHECK(std::isfinite(one));
  }
  {
    attention_case const what{1, 2, 5, 1, 1, 3, false};
    std::vector<wide<T>> x(what.input(head_dim));
    for (std::size_t j = 0; j < 5; ++j)
      for (std::size_t d = 0; d < head_dim; ++d) x[(2 + 5 + j) * head_dim + d] = static_cast<wide<T>>(j);
    auto const got =
        attend<T, head_dim, Path>(what, x, std::vector<wide<T>>(ones.begin(), ones.begin() + 2 * head_dim));
    CHECK(got.y[0] == 1.5);
    CHECK(got.y[head_dim] == 2.0);
    CHECK(std::fabs(got.log_sum_exp[1] - std::log(5.0)) < 1e-6);
  }
}

/// Masked everywhere, in part, and nowhere; more queries than keys and fewer; several heads.
template <class T, int HeadDim, attention_path Path>
void check_shifts() {
  for (int const shift : {-1000, -60, -25, -2, 14, 15, 59, 1000})
    check<T, HeadDim, Path>({1, 100, 40, 1, 2, shift, false});
  for (int const shift : {-17, 60, 62}) check<T, HeadDim, Path, smallest>({2, 40, 100, 2, 1, shift, false});
}

/// NaN and infinity in a query, a key or a value come out as NaN in the rows that see them, and nowhere before.
template <class T, attention_path Path>
void check_not_finite() {
  constexpr int head_dim = 16, sequence = 70;
  auto const what = attention_case::fused_of(1, sequence, 1, 1);
  std::vector<wide<T>> const x = values<T>(what.input(head_dim), 3), dy = values<T>(what.output(head_dim), 4);
  for (std::size_t slot = 0; slot < 3; ++slot)
    for (wide<T> const bad : {std::numeric_limits<wide<T>>::quiet_NaN(), std::numeric_limits<wide<T>>::infinity()}) {
      std::vector<wide<T>> broken = x;
      // A score of -infinity is none: it would only take the key away.
      broken[(66 * 3 + slot) * head_dim] = slot == 1 ? std::copysign(bad, x[66 * 3 * head_dim]) : bad;
      auto const got = attend<T, head_dim, Path, smallest>(what, broken, dy);
      CAPTURE(slot);
      for (std::size_t i = 0; i < static_cast<std::size_t>(sequence); ++i) {
        CAPTURE(i);
        if (i == 66) CHECK(!std::isfinite(got.y[i * head_dim]));
        if (i < 64) CHECK(std::isfinite(got.y[i * head_dim]));
      }
    }
}

template <class T, int HeadDim, attention_path Path>
void check_scores_of_all_sizes() {
  auto const what = attention_case::fused_of(1, 70, 1, 1);
  std::vector<wide<T>> const dy = values<T>(what.output(HeadDim), 9);
  for (double const size : {0.0, 1.0, 60.0}) {
    // All scores of a head are equal, as large as they may be, and then almost.
    std::vector<wide<T>> x(what.input(HeadDim), static_cast<wide<T>>(size));
    auto const got = attend<T, HeadDim, Path>(what, x, dy);
    for (std::size_t i = 0; i < 70; ++i) {
      double const score = size * size * std::sqrt(static_cast<double>(HeadDim)),
                   expected = score + std::log(static_cast<double>(i) + 1);
      CHECK(std::fabs(got.log_sum_exp[i] - expected) <= 1e-6 * (1 + expected));
      CHECK(std::fabs(got.y[i * HeadDim] - size) <= 2 * attention_reference<T, HeadDim>::u * size);
    }
  }
  check<T, HeadDim, Path>(what, 8);
}

}  // namespace

TEST_CASE("attention without tensor cores is the host's, for groups of heads, odd lengths and starts") {
  check_host<float, 64, 2, 65, 2, 2>(0);
  check_host<float, 64, 1, 1, 1, 1>(0);
  check_host<float, 16, 1, 127, 1, 3>(1);
  check_host<double, 32, 2, 70, 1, 2>(0);
  check_host<double, 63, 1, 33, 2, 1>(1);
  check_host_core<float, 64, 40, 100>();
  check_host_core<double, 16, 100, 40>();
}
TEST_CASE("attention without tensor cores is within its bounds of the definition") {
  for (int const sequence : {1, 63, 64, 65, 129}) check<float, 64, plain>(attention_case::fused_of(1, sequence, 1, 2));
  check<float, 1, plain>(attention_case::fused_of(2, 65, 2, 1));
  check<float, 63, plain>(attention_case::fused_of(1, 65, 1, 1));
  check<float, 80, plain>(attention_case::fused_of(1, 64, 1, 1), 1.5, 1);
  check<float, 128, plain>(attention_case::fused_of(1, 70, 1, 1));
  check<float, 32, plain, smallest>(attention_case::fused_of(1, 70, 2, 2));
  check<double, 64, plain>(attention_case::fused_of(1, 70, 1, 2));
  check<double, 256, plain>(attention_case::fused_of(1, 33, 1, 1));
  check<__nv_bfloat16, 64, plain>(attention_case::fused_of(1, 70, 1, 2));
  check<__half, 32, plain>(attention_case::fused_of(1, 70, 1, 2), 1.5, 1);
}
TEST_CASE("attention on tensor cores is within its bounds of the definition") {
  for (int const sequence : {1, 63, 64, 65, 129})
    check<__nv_bfloat16, 64, tensor_cores>(attention_case::fused_of(1, sequence, 1, 2));
  check<__nv_bfloat16, 16, tensor_cores>(attention_case::fused_of(2, 127, 2, 1));
  check<__nv_bfloat16, 32, tensor_cores, smallest>(attention_case::fused_of(1, 70, 2, 2));
  check<__nv_bfloat16, 63, tensor_cores>(attention_case::fused_of(1, 65, 1, 1));
  check<__nv_bfloat16, 80, tensor_cores>(attention_case::fused_of(1, 64, 1, 1), 1.5, 1);
  check<__nv_bfloat16, 128, tensor_cores>(attention_case::fused_of(1, 70, 1, 2));
  check<__nv_bfloat16, 200, tensor_cores>(attention_case::fused_of(1, 40, 1, 1));
  check<__nv_bfloat16, 256, tensor_cores>(attention_case::fused_of(1, 40, 1, 1));
  check<__half, 64, tensor_cores>(attention_case::fused_of(2, 65, 1, 2));
  check<__half, 32, tensor_cores, smallest>(attention_case::fused_of(1, 70, 1, 1), 1.5, 1);
}
TEST_CASE("queries and keys of unlike numbers are aligned at the end, and a row that sees nothing gives nothing") {
  check_alignment<float, plain>();
  check_alignment<double, plain>();
  check_alignment<__nv_bfloat16, plain>();
  check_alignment<__nv_bfloat16, tensor_cores>();
  check_alignment<__half, tensor_cores>();
}
TEST_CASE("any shift between queries and keys, as a ring of ranks has them") {
  check_shifts<float, 32, plain>();
  check_shifts<__nv_bfloat16, 32, tensor_cores>();
}
TEST_CASE("scores that are large, or all equal") {
  check_scores_of_all_sizes<float, 64, plain>();
  check_scores_of_all_sizes<__nv_bfloat16, 64, tensor_cores>();
  check_scores_of_all_sizes<__half, 64, tensor_cores>();
}
TEST_CASE("NaN and infinity spoil the rows that see them, not those of the tiles before") {
  check_not_finite<float, plain>();
  check_not_finite<__nv_bfloat16, tensor_cores>();
}
TEST_CASE("the gradient is that of central differences") {
  constexpr int head_dim = 3;
  auto const what = attention_case::fused_of(1, 4, 1, 2);
  std::vector<double> x = values<double>(what.input(head_dim), 1, 2), dy = values<double>(what.output(head_dim), 2);
  std::vector<double> const got = attend<double, head_dim, plain>(what, x, dy).dx;
  emulation::attention_kernels<double, head_dim, plain> const kernels{what};
  auto const loss = [&] {
    std::vector<double> y(dy.size()), log_sum_exp(what.statistics());
    kernels.forward(x.data(), y.data(), log_sum_exp.data());
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    constexpr double step = 1e-5;
    double const before = x[i];
    x[i] = before + step;
    double const above = loss();
    x[i] = before - step;
    double const below = loss();
    x[i] = before;
    CHECK(std::fabs((above - below) / (2 * step) - got[i]) < 1e-8);
  }
}
TEST_CASE("a batch's bits do not depend on what else is in it, nor on where it begins") {
  constexpr int head_dim = 32;
  auto const whole = attention_case::fused_of(2, 70, 1, 2), one = attention_case::fused_of(1, 70, 1, 2);
  using T = __nv_bfloat16;
  std::vector<float> const x = values<T>(whole.input(head_dim), 1), dy = values<T>(whole.output(head_dim), 2);
  auto const both = attend<T, head_dim, tensor_cores>(whole, x, dy);
  auto const second = attend<T, head_dim, tensor_cores>(
      one, std::vector<float>(x.begin() + static_cast<std::ptrdiff_t>(one.input(head_dim)), x.end()),
      std::vector<float>(dy.begin() + static_cast<std::ptrdiff_t>(one.output(head_dim)), dy.end()), 1);
  auto const is_end = [](auto const& part, auto const& all) {
    return std::equal(part.begin(), part.end(), all.end() - static_cast<std::ptrdiff_t>(part.size()));
  };
  CHECK(is_end(second.y, both.y));
  CHECK(is_end(second.log_sum_exp, both.log_sum_exp));
  CHECK(is_end(second.dx, both.dx));
}
TEST_CASE("the shared memory that is asked for is what the kernels take") {
  constexpr int head_dim = 64;
  auto const what = attention_case::fused_of(1, 5, 1, 1);
  auto const told = [&](auto const& kernels, auto type) {
    using T = decltype(type);
    std::vector<T> const x(what.input(head_dim), T(1.0F)), dy(what.output(head_dim), T(1.0F));
    std::vector<T> y(dy), dx(x);
    std::vector<float> statistics(what.statistics()), inner(statistics);
    std::string text;
    try {
      kernels.forward(x.data(), y.data(), statistics.data());
    } catch (emulation::fault const& e) {
      text = e.what();
    }
    try {
      kernels.backward(x.data(), y.data(), statistics.data(), dy.data(), inner.data(), dx.data());
    } catch (emulation::fault const& e) {
      text += e.what();
    }
    return text;
  };
  CHECK(told(emulation::attention_kernels<float, head_dim, plain>{what, 0}, 0.0F).empty());
  std::string const text = told(emulation::attention_kernels<float, head_dim, plain>{what, 16}, 0.0F);
  CHECK_MESSAGE(text.find("attention_forward<float, 64, 64, 64, 256>") != std::string::npos, text);
  CHECK_MESSAGE(text.find("; the launch gives") != std::string::npos, text);
  CHECK(text.find("attention_query_gradient<float, 64") != std::string::npos);
  std::string const cores = told(emulation::attention_kernels<__half, head_dim, tensor_cores>{what, 16}, __half(0.0F));
  CHECK_MESSAGE(cores.find("attention_forward_mma<__half, 64, 128, 64, 256>") != std::string::npos, cores);
  CHECK(cores.find("attention_query_gradient_mma<__half") != std::string::npos);
}
