// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/optim/adamw.hpp>
#include <heddle/tensor/adamw_coefficients.hpp>
#include <heddle/tensor/index_map.hpp>
#include <heddle/tensor/random_key.hpp>
#include <heddle/tensor/step_numbers.hpp>
#include <limits>
#include <vector>
#include "both_backends.hpp"

/// Programs of primitives, for a backend and a type of number: what they come to on the device is what they come to on
/// the host.
namespace heddle::emulation {

template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim, class B,
          class T>
void attended(outcome<T>& out, std::size_t offset) {
  constexpr std::size_t heads = Batch * Sequence * KvHeads * HeadDim, rows = Batch * KvHeads * Group * Sequence;
  array_of<B, T> const qkv(values<T>(heads * (Group + 2), 1, 2), offset), dy(values<T>(heads * Group, 2), offset);
  array_of<B, T> y(heads * Group, offset), dqkv(heads * (Group + 2), offset);
  array_of<B, wide<T>> lse(rows);
  array_of<B, wide<T>> const scratch(B::template attention_scratch<Batch, Sequence, KvHeads, Group, HeadDim>()),
      backward_scratch(B::template attention_backward_scratch<Batch, Sequence, KvHeads, Group, HeadDim>());
  B::template attention<Batch, Sequence, KvHeads, Group, HeadDim>(qkv.read(), y.data(), lse.data(), scratch.data());
  B::template attention_backward<Batch, Sequence, KvHeads, Group, HeadDim>(qkv.read(), y.read(), lse.read(), dy.read(),
                                                                           dqkv.data(), backward_scratch.data());
  // Of 16 bits, probabilities and their gradients are rounded before they are multiplied, and backward takes y.
  out.leave("attention", y, 16 + Sequence, 1);
  out.leave("log_sum_exp", lse, 16);
  out.leave("attention_backward", dqkv, 64 + Sequence, 4);
}
template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim, class B,
          class T>
void rotated(outcome<T>& out, std::size_t offset) {
  constexpr std::size_t n = Batch * Sequence * KvHeads * (Group + 2) * HeadDim, angles = Sequence * HeadDim / 2;
  array_of<B, T> const x(values<T>(n, 1), offset);
  array_of<B, wide<T>> cosine(angles, offset), sine(angles, offset);
  array_of<B, T> y(n, offset), back(values<T>(n, 2), offset);
  array_of<B, std::int64_t> positions(Sequence);
  B::template count_up<Sequence>(1000, positions.data());
  B::template rotary_table<Sequence, HeadDim>(positions.read(), 10000, cosine.data(), sine.data());
  B::template rotary<Batch, Sequence, KvHeads, Group, HeadDim>(x.read(), y.data(), cosine.read(), sine.read());
  B::template rotary_backward<Batch, Sequence, KvHeads, Group, HeadDim>(back.read(), back.data(), cosine.read(),
                                                                        sine.read());
  out.leave("cosine", cosine, 4);
  out.leave("sine", sine, 4);
  out.leave("rotary", y, 8);
  out.leave("rotary_backward", back, 8);
}

/// Parts of a tensor, with padding and without.
inline index_map const maps[] = {{.rank = 1, .extent = {70}, .valid = {70}, .stride = {1}, .origin = 3},
                                 {.rank = 2, .extent = {5, 6}, .valid = {4, 5}, .stride = {9, 1}, .origin = 5},
                                 {.rank = 3, .extent = {2, 3, 4}, .valid = {2, 3, 4}, .stride = {100, 4, 1}},
                                 {.rank = 1, .extent = {0}, .valid = {0}, .stride = {1}}};
template <class B, class T>
void drawn(outcome<T>& out, std::size_t offset) {
  random_key const key{.seed = 7, .step = 3, .site = 11};
  for (index_map const& map : maps) {
    std::size_t const n = map.size();
    array_of<B, T> const in(values<T>(n, 1), offset), under(values<T>(n, 2), offset);
    array_of<B, T> normal(values<T>(n, 3), offset), uniform(values<T>(n, 4), offset), dropped(n, offset),
        onto(n, offset), kept(n, offset);
    B::fill_normal(normal.data(), map, key, 0.5, 0.02);
    B::fill_uniform(uniform.data(), map, key, -1, 2);
    B::dropout(in.read(), nullptr, dropped.data(), map, key, 0.3);
    B::dropout(in.read(), under.read(), onto.data(), map, key, 0.3);
    B::dropout(in.read(), under.read(), kept.data(), map, key, 0);
    out.leave("fill_normal", normal);
    out.leave("fill_uniform", uniform);
    out.leave("dropout", dropped);
    out.leave("dropout onto", onto);
    out.leave("dropout of none", kept);
  }
}
template <class B, class T>
void optimized(outcome<T>& out, std::size_t offset) {
  adamw_coefficients const c{.learning_rate = 1e-2,
                             .weight_decay = 0.1,
                             .bias_correction1 = 0.1,
                             .bias_correction2 = 1e-3,
                             .gradient_scale = 0.5};
  for (std::size_t const n : {std::size_t{0}, std::size_t{1}, std::size_t{9001}}) {
    using A = wide<T>;
    std::vector<A> second = values<A>(n, 4);
    for (A& one : second) one *= one;
    array_of<B, T> const g(values<T>(n, 2), offset);
    array_of<B, A> w(values<A>(n, 1), offset), m(values<A>(n, 3), offset), v(second, offset);
    array_of<B, double> total(std::vector<double>{2});
    B::adamw(w.data(), g.read(), m.data(), v.data(), n, c);
    B::add_sum_of_squares(g.read(), n, total.data());
    if (n != 0) B::add_to_total(g.read(), total.data());
    out.leave("w", w, 4);
    out.leave("m", m, 4);
    out.leave("v", v, 4);
    out.arrays.push_back({"sums", {static_cast<A>(total.values()[0])}, 2});
  }
}
/// Three steps of a list: one that is clipped, one that is skipped, and one that is neither.
template <class B, class T>
void optimized_together(outcome<T>& out, std::size_t offset) {
  using A = wide<T>;
  using list_type = adamw::list<B, T, A, T>;
  std::vector<std::size_t> const sizes{1, 0, 20001, 40};
  std::vector<array_of<B, A>> w, m, v;
  std::vector<array_of<B, T>> g, copy;
  for (std::size_t const n : sizes) {
    std::vector<A> second = values<A>(n, 4 + n);
    for (A& one : second) one *= one;
    w.emplace_back(values<A>(n, 1 + n), offset);
    g.emplace_back(values<T>(n, 2 + n), offset);
    m.emplace_back(values<A>(n, 3 + n), offset);
    v.emplace_back(second, offset);
    copy.emplace_back(n, offset);
  }
  std::vector<typename list_type::parameter> all;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    all.push_back({w[k].data(),
                   g[k].read(),
                   {m[k].data(), v[k].data()},
                   k == 0 ? nullptr : copy[k].data(),
                   sizes[k],
                   k % 2 == 1});
  list_type list(all);
  typename B::memory::template mirror<step_numbers> const numbers(1);
  step_numbers now{};
  std::vector<A> told;
  for (std::size_t step = 0; step < 3; ++step) {
    double const infinity = std::numeric_limits<double>::infinity();
    now.squared_norm = step == 1 ? infinity : 64;
    now.loss = 3;
    now.count = 5;
    now.loss_scale = step == 0 ? 2 : 4;
    now.clip = 3;
    *numbers.host() = now;
    numbers.upload();
    list.begin_step(adamw::coefficients_of({.weight_decay = 0.1}, 0.1 / static_cast<double>(step + 1)));
    B::seed_step(numbers.data());
    B::decide_step(numbers.data());
    list.prepare(numbers.data());
    list.update(0, 2, numbers.data());
    list.update(2, sizes.size(), numbers.data());
    numbers.download();
    now = *numbers.host();
    CHECK(now.updates == (step == 2 ? 2 : 1));
    CHECK(now.skips == (step == 1 ? 1 : 0));
    CHECK(now.seed_gradient == now.loss_scale / 5);
    if (step != 1) CHECK(now.gradient_scale == (step == 0 ? 0.75 / 2 : 1.0 / 4));
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      out.leave("listed w", w[k], 4);
      out.leave("listed m", m[k], 4);
      out.leave("listed v", v[k], 4);
      out.leave("copy", copy[k], 4);
    }
  }
}

}  // namespace heddle::emulation
