// SPDX-License-Identifier: Apache-2.0
// Every kernel once, for the undefined-behaviour sanitizer, which this program is compiled with: the other tests
// compare results, and would take a minute more to compile so.
#include <doctest/doctest.h>

#include <activation/activation.cuh>
#include <cast/cast.cuh>
#include <communication/copy_blocks.cuh>
#include <communication/join_ranks.cuh>
#include <cross_entropy/cross_entropy.cuh>
#include <cstdint>
#include <embedding/embedding.cuh>
#include <norm/norm.cuh>
#include <optimizer/adamw.cuh>
#include <optimizer/norm_and_check.cuh>
#include <optimizer/step_numbers.cuh>
#include <pointwise/pointwise.cuh>
#include <random/dropout.cuh>
#include <random/fill.cuh>
#include <redistribution/blocks.cuh>
#include <redistribution/shares.cuh>
#include <rotary/rotary.cuh>
#include <rotary/table.cuh>
#include <support/geometry.cuh>
#include <support/sum_parts.cuh>
#include <vector>

#include "attention.hpp"
#include "guarded.hpp"
#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using emulation::guarded;
using emulation::launch;
using emulation::values;
using T = __nv_bfloat16;

// Rows of packs and a part of one, so that a shift of 0 and of 1 element comes to both ways of access.
constexpr std::size_t rows = 5;
constexpr int width = 264, parts = 2, threads = 32;
constexpr std::size_t n = rows * width;
constexpr dim3 by_row = kernels::row_grid(rows), by_column = kernels::column_grid<T, threads>(width, parts);

/// What was written has no NaN, and its border is whole.
template <class... Arrays>
void looked_at(Arrays const&... written) {
  auto const one = [](auto const& values) {
    for (auto const number : values) CHECK(number == number);
  };
  (one(written.values()), ...);
}

void norms(std::size_t shift) {
  guarded<T> const x(values<T>(n, 1), shift), gamma(values<T>(width, 2), shift), dy(values<T>(n, 3), shift);
  guarded<T> s(n, shift), y(n, shift), dx(n, shift);
  guarded<float> mean(rows), rstd(rows), gamma_part(kernels::parts_size(parts, width), shift),
      beta_part(kernels::parts_size(parts, width), shift), dgamma(values<float>(width, 4), shift);
  launch<kernels::norm_forward<T, true, threads>>(by_row, dim3(threads), x.read(), x.read(), gamma.read(), gamma.read(),
                                                  1e-5F, width, s.data(), y.data(), mean.data(), rstd.data());
  launch<kernels::norm_backward<T, true, threads>>(
      kernels::part_grid(parts), dim3(threads), s.read(), gamma.read(), mean.read(), rstd.read(), dy.read(), x.read(),
      static_cast<long long>(rows), width, dx.data(), gamma_part.data(), beta_part.data());
  launch<kernels::norm_forward<T, false, threads>>(by_row, dim3(threads), nullptr, x.read(), gamma.read(), nullptr,
                                                   1e-5F, width, nullptr, y.data(), nullptr, rstd.data());
  launch<kernels::norm_backward<T, false, threads>>(
      kernels::part_grid(parts), dim3(threads), x.read(), gamma.read(), nullptr, rstd.read(), dy.read(), nullptr,
      static_cast<long long>(rows), width, dx.data(), gamma_part.data(), nullptr);
  float* const frozen = nullptr;
  launch<kernels::norm_backward<T, true, threads>>(kernels::part_grid(parts), dim3(threads), x.read(), gamma.read(),
                                                   mean.read(), rstd.read(), dy.read(), nullptr,
                                                   static_cast<long long>(rows), width, dx.data(), frozen, frozen);
  launch<kernels::add_parts<float, threads>>(kernels::add_parts_grid<threads>(width), dim3(threads), gamma_part.read(),
                                             parts, width, dgamma.data());
  looked_at(s, y, dx, dgamma);
}

void activations(std::size_t shift) {
  constexpr long long r = rows, all = n;
  guarded<T> const x(values<T>(n, 1), shift), gates(values<T>(2 * n, 2), shift), bias(values<T>(width, 3), shift),
      dy(values<T>(n, 4), shift);
  guarded<T> y(n, shift), dgates(2 * n, shift);
  guarded<float> part(kernels::parts_size(parts, width), shift);
  using function = kernels::gelu_tanh;
  constexpr dim3 by_pack = kernels::pack_grid<T, threads>(all, 2);
  launch<kernels::activation_forward<T, function, threads>>(by_pack, dim3(threads), x.read(), all, y.data());
  launch<kernels::activation_backward<T, function, threads>>(by_pack, dim3(threads), x.read(), dy.read(), all,
                                                             y.data());
  launch<kernels::biased_sum<T, threads>>(by_column, dim3(threads), bias.read(), x.read(), dy.read(), r, width,
                                          y.data());
  launch<kernels::biased_activation_forward<T, function, threads>>(by_column, dim3(threads), x.read(), bias.read(), r,
                                                                   width, y.data());
  launch<kernels::biased_activation_backward<T, function, threads>>(by_column, dim3(threads), x.read(), bias.read(),
                                                                    dy.read(), r, width, y.data(), part.data());
  launch<kernels::column_sums<T, threads>>(by_column, dim3(threads), dy.read(), r, width, part.data());
  launch<kernels::gated_forward<T, kernels::silu, threads>>(by_column, dim3(threads), gates.read(), r, width, y.data());
  launch<kernels::gated_backward<T, kernels::gelu_erf, threads>>(by_column, dim3(threads), gates.read(), dy.read(), r,
                                                                 width, dgates.data());
  looked_at(y, dgates, part);
}

void cross_entropy(std::size_t shift) {
  guarded<T> const logits(values<T>(n, 1), shift);
  guarded<T> dlogits(n, shift);
  guarded<std::int32_t> const targets(std::vector<std::int32_t>{0, 259, -100, -2147483647 - 1, 2147483647});
  guarded<float> highest(rows), sum(rows), logit(rows), lse(rows), loss(1);
  guarded<double> part(1);
  guarded<long long> const cut(std::vector<long long>{0, 1});
  guarded<float> const scale(std::vector<float>{0.5F});
  launch<kernels::cross_entropy_max<T, threads>>(by_row, dim3(threads), logits.read(), width, 260, highest.data());
  launch<kernels::cross_entropy_sum<T, threads>>(by_row, dim3(threads), logits.read(), width, 260, 0LL, targets.read(),
                                                 highest.read(), sum.data(), logit.data());
  launch<kernels::cross_entropy_loss<float, threads>>(
      kernels::thread_grid<threads>(rows), dim3(threads), static_cast<long long>(rows), targets.read(), -100,
      highest.read(), sum.read(), logit.read(), lse.data(), part.data());
  launch<kernels::sum_parts<double, float, threads>>(dim3(1), dim3(threads), part.read(), cut.read(), loss.data());
  launch<kernels::cross_entropy_backward<T, threads>>(by_row, dim3(threads), logits.read(), width, 260, 0LL,
                                                      targets.read(), -100, lse.read(), scale.read(), dlogits.data());
  looked_at(dlogits, lse);
}

void embedding_and_positions(std::size_t shift) {
  int const vocabulary = 4;
  guarded<std::int32_t> const tokens(std::vector<std::int32_t>{1, 3, -2147483647 - 1, 1, 2147483647});
  guarded<T> const table(values<T>(4 * width, 1), shift), dy(values<T>(n, 2), shift);
  guarded<T> y(n, shift);
  guarded<float> dtable(values<float>(4 * width, 3), shift);
  launch<kernels::embedding_forward<T, threads>>(by_row, dim3(threads), tokens.read(), table.read(), vocabulary, width,
                                                 0LL, y.data());
  launch<kernels::embedding_backward<T, float, threads>>(kernels::embedding_grid<T, threads>(rows, width),
                                                         dim3(threads), tokens.read(), static_cast<int>(rows),
                                                         dy.read(), vocabulary, width, 0LL, dtable.data());
  guarded<float> const cosine(values<float>(rows * 16, 4)), sine(values<float>(rows * 16, 5));
  guarded<T> const qkv(values<T>(rows * 2 * 3 * 32, 6), shift);
  guarded<T> turned(rows * 2 * 3 * 32, shift);
  launch<kernels::rotary<T, 32, threads>>(by_row, dim3(threads), qkv.read(), turned.data(), cosine.read(), sine.read(),
                                          -1.0F, static_cast<int>(rows), 2, 1);
  looked_at(y, dtable, turned);
}

void attention(std::size_t shift) {
  auto const what = emulation::attention_case::fused_of(1, 19, 1, 2);
  std::vector<float> const qkv = values<T>(what.input(24), 1), dy = values<T>(what.output(24), 2);
  auto const looked_at_all = [](emulation::attention_results<T> const& results) {
    for (float const number : results.y) CHECK(number == number);
    for (float const number : results.dx) CHECK(number == number);
  };
  using emulation::attend;
  using emulation::attention_path;
  looked_at_all(attend<T, 24, attention_path::plain, emulation::smallest>(what, qkv, dy, shift));
  looked_at_all(attend<T, 24, attention_path::tensor_cores, emulation::smallest>(what, qkv, dy, shift));
}

void redistributions(std::size_t shift) {
  guarded<T> const x(values<T>(n, 1), shift);
  kernels::blocks_shape const shape = kernels::blocks_of(rows, 33, 8, 2);
  auto const moved = static_cast<std::size_t>(kernels::blocks_size(shape, 2));
  guarded<T> front(moved, shift), back(n, shift);
  dim3 const by_pack = kernels::pack_grid<T, threads>(static_cast<long long>(moved), 2);
  launch<kernels::blocks_to_front<T, threads>>(by_pack, dim3(threads), x.read(), front.data(), shape,
                                               static_cast<long long>(moved));
  launch<kernels::blocks_from_front<T, threads>>(by_pack, dim3(threads), front.read(), back.data(), shape,
                                                 static_cast<long long>(moved));
  scattering s{};
  s.rank = 2;
  s.whole = {rows, width};
  s.share = {3, width};
  s.ways[0] = s.all_ways = 2;
  s.count = 1;
  s.size = 3 * width;
  kernels::share_map const map = kernels::share_map::of(s);
  auto const count = static_cast<long long>(s.size);
  guarded<T> packed(2 * s.size, shift);
  guarded<float> sums(values<float>(n, 2), shift);
  dim3 const by_share = kernels::share_grid<T, threads>(count, 2, 2);
  launch<kernels::pack_shares<T, T, threads>>(by_share, dim3(threads), x.read(), map, 0LL, count, packed.data(), count);
  launch<kernels::unpack_shares<T, float, true, threads>>(by_share, dim3(threads), packed.read(), map, 0LL, count,
                                                          sums.data(), count);
  guarded<float> whole_values(n, shift), added(values<float>(n, 3), shift);
  launch<kernels::cast<T, float, threads>>(kernels::pack_grid<T, threads>(n, 2), dim3(threads), x.read(),
                                           whole_values.data(), static_cast<long long>(n));
  launch<kernels::add_cast<T, float, threads>>(kernels::pack_grid<T, threads>(n, 2), dim3(threads), x.read(),
                                               added.data(), static_cast<long long>(n));
  looked_at(front, back, packed, sums, whole_values, added);
}

void masks(std::size_t shift) {
  index_map const map{
      .rank = 2, .extent = {5, 264}, .valid = {5, 260}, .stride = {0x300000001, 1}, .origin = 0x123456789A};
  guarded<T> const x(values<T>(n, 1), shift);
  guarded<T> y(n, shift);
  std::uint64_t const step = 3;
  step_key const stream({.seed = ~std::uint64_t{0}, .step = 0, .site = 9}, &step);
  launch<kernels::dropout<T, threads>>(kernels::pack_grid<T, threads>(n, 2), dim3(threads), x.read(), x.read(),
                                       y.data(), static_cast<long long>(n), kernels::index_runs::of(map), stream,
                                       kernels::dropout_rate<float>::of(0.1));
  looked_at(y);
}

void fills_and_sums(std::size_t shift) {
  index_map const map{
      .rank = 2, .extent = {5, 264}, .valid = {5, 260}, .stride = {0x300000001, 1}, .origin = 0x123456789A};
  kernels::index_runs const runs = kernels::index_runs::of(map);
  constexpr long long all = n;
  constexpr dim3 by_pack = kernels::pack_grid<T, threads>(all, 2);
  random_stream const stream(random_key{.seed = ~std::uint64_t{0}, .step = 3, .site = 9});
  guarded<T> const a(values<T>(n, 1), shift), b(values<T>(n, 2), shift);
  guarded<T> y(n, shift);
  launch<kernels::add<T, threads>>(by_pack, dim3(threads), a.read(), b.read(), all, y.data());
  launch<kernels::scale<T, threads>>(by_pack, dim3(threads), 0.5F, y.data(), all);
  launch<kernels::fill<T, threads>>(by_pack, dim3(threads), 2.0F, y.data(), all);
  launch<kernels::fill_real<T, threads>>(by_pack, dim3(threads), 3.0F, y.data(), all, runs);
  launch<kernels::fill_uniform<T, threads>>(by_pack, dim3(threads), y.data(), all, runs, stream, -1.0, 2.0);
  launch<kernels::fill_normal<T, threads>>(by_pack, dim3(threads), y.data(), all, runs, stream, 0.0, 0.02);
  guarded<double> part(3), total(std::vector<double>{0});
  launch<kernels::sum_of_squares_of_array<T, threads>>(dim3(3), dim3(threads), a.read(), all, 512LL, part.data());
  launch<kernels::sum_up<double, double, true, threads>>(dim3(1), dim3(threads), part.read(), 3LL, total.data());
  launch<kernels::add_to_total<T, double, 1>>(dim3(1), dim3(1), a.read(), total.data());
  guarded<std::int64_t> positions(rows);
  guarded<float> cosine(rows * 16, shift), sine(rows * 16, shift);
  launch<kernels::count_up<threads>>(kernels::thread_grid<threads>(rows), dim3(threads), std::int64_t{1} << 40,
                                     positions.data(), static_cast<long long>(rows));
  launch<kernels::rotary_table<float, 32, threads>>(kernels::thread_grid<threads>(rows * 16), dim3(threads),
                                                    positions.read(), 10000.0, static_cast<long long>(rows),
                                                    cosine.data(), sine.data());
  guarded<float> w(values<float>(n, 1), shift), m(values<float>(n, 2), shift), v(std::vector<float>(n, 1), shift);
  launch<kernels::adamw_of_tensor<T, T, threads>>(
      by_pack, dim3(threads), kernels::adamw_tensor<T, T>{w.data(), b.read(), m.data(), v.data(), nullptr, all, 0},
      adamw_factors<float>::of(adamw_coefficients{}));
  // The second of two blocks of 132, to the front of each row.
  kernels::blocks_shape const second = kernels::blocks_of(rows, width, 1, 2, 1);
  launch<kernels::block_in_place<T, threads>>(dim3(1), dim3(threads), y.data(), second,
                                              kernels::blocks_size(second, 1));
  looked_at(y, total, cosine, sine, w, m, v);
}

void optimizer(std::size_t shift) {
  constexpr int length = 512;
  guarded<float> w(values<float>(n, 1), shift), m(values<float>(n, 2), shift), v(std::vector<float>(n, 1), shift);
  guarded<T> const g(values<T>(n, 3), shift);
  guarded<T> copy(n, shift);
  std::vector<kernels::tensor_chunk> chunks;
  for (long long k = 0; k < kernels::chunk_count(n, length); ++k) chunks.push_back({k * length, 0});
  guarded<long long> const first(std::vector<long long>{0, static_cast<long long>(chunks.size())});
  guarded<long long> bad_part(chunks.size()), bad(1);
  guarded<double> part(chunks.size());
  std::vector<adamw_coefficients> const coefficients(1);
  std::vector<adamw_factors<float>> factors(1);
  std::vector<kernels::listed_tensor<T>> const gradients{{g.read(), n}};
  std::vector<kernels::adamw_tensor<T, T>> const tensors{{w.data(), g.read(), m.data(), v.data(), copy.data(), n, 0}};
  dim3 const by_chunk = kernels::row_grid(chunks.size());
  launch<kernels::sum_of_squares<T, threads>>(by_chunk, dim3(threads), gradients.data(), chunks.data(), length,
                                              part.data());
  launch<kernels::count_not_finite<T, threads>>(by_chunk, dim3(threads), gradients.data(), chunks.data(), length,
                                                bad_part.data());
  launch<kernels::sum_parts<long long, long long, threads>>(dim3(1), dim3(threads), bad_part.read(), first.read(),
                                                            bad.data());
  step_numbers now{.squared_norm = 64, .loss = 1, .count = 2, .clip = 1};
  launch<kernels::seed_step<1>>(dim3(1), dim3(1), &now);
  launch<kernels::decide_step<1>>(dim3(1), dim3(1), &now);
  launch<kernels::prepare_adamw<float, threads>>(dim3(1), dim3(threads), coefficients.data(), 1, &now.gradient_scale,
                                                 &now.skips, &now.updates, factors.data());
  launch<kernels::adamw<T, T, threads>>(by_chunk, dim3(threads), tensors.data(), chunks.data(), length, factors.data(),
                                        bad.read());
  looked_at(w, m, v, copy);
}

void communication(std::size_t shift) {
  guarded<T> const a(values<T>(n, 1), shift), b(values<T>(n, 2), shift);
  guarded<T> sum(n, shift), copy(n, shift);
  kernels::rank_arrays<T const> from{};
  kernels::rank_arrays<T> to{};
  from.of[0] = a.read();
  from.of[1] = b.read();
  to.of[0] = sum.data();
  dim3 const grid = kernels::pack_grid<T, threads>(static_cast<long long>(n), 4);
  launch<kernels::join_ranks<T, float, comm::reduction::sum, threads>>(grid, dim3(threads), from, 2, to, 1,
                                                                       static_cast<long long>(n));
  kernels::block_copies list{};
  list.from[0] = reinterpret_cast<unsigned char const*>(a.read());
  list.to[0] = reinterpret_cast<unsigned char*>(copy.data());
  list.bytes[0] = static_cast<long long>(n * sizeof(T));
  launch<kernels::copy_blocks<threads>>(kernels::copy_grid<threads>(list.bytes[0], 1, 4), dim3(threads), list);
  looked_at(sum, copy);
}

}  // namespace

TEST_CASE("every kernel, in accesses of 16 bytes and one by one, does nothing that is undefined") {
  for (std::size_t const shift : {0, 1}) {
    norms(shift);
    activations(shift);
    cross_entropy(shift);
    embedding_and_positions(shift);
    attention(shift);
    redistributions(shift);
    communication(shift);
    masks(shift);
    fills_and_sums(shift);
    optimizer(shift);
  }
}
