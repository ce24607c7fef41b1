// SPDX-License-Identifier: Apache-2.0
// The host backend's primitives on raw pointers: no model, no plan. A two-layer network that learns a parity.
#include <array>
#include <cmath>
#include <cstdio>
#include <heddle/backend/host.hpp>
#include <heddle/optim/adamw.hpp>
#include <vector>

namespace hd = heddle;
using backend = hd::host_backend;

// [network]
constexpr std::size_t rows = 64, inputs = 6, hidden = 32, classes = 2;

struct parameters {
  std::vector<float> first = std::vector<float>(hidden * inputs), second = std::vector<float>(classes * hidden);
};

/// The loss, a sum over the rows, and its gradients: += as every primitive does.
float forward_backward(float const* x, std::int32_t const* targets, parameters const& w, parameters& g) {
  constexpr auto relu = hd::activation_kind::relu;
  static std::array<float, rows * hidden> h, a, da, dh;
  static std::array<float, rows * classes> logits;
  static std::array<float, rows> max, sum, target_logit, log_sum_exp;
  backend::product<rows, hidden, inputs, false, true>(x, w.first.data(), h.data());
  backend::activation<relu, rows * hidden>(h.data(), a.data());
  backend::product<rows, classes, hidden, false, true>(a.data(), w.second.data(), logits.data());
  backend::cross_entropy_max<rows, classes>(logits.data(), classes, max.data());
  backend::cross_entropy_sum<rows, classes>(logits.data(), classes, 0, targets, max.data(), sum.data(),
                                            target_logit.data());
  float loss = 0, cotangent = 1;
  backend::cross_entropy_loss<rows>(targets, -100, max.data(), sum.data(), target_logit.data(), log_sum_exp.data(),
                                    &loss);
  backend::cross_entropy_backward<rows, classes>(logits.data(), classes, 0, targets, -100, log_sum_exp.data(),
                                                 &cotangent, logits.data());
  backend::product_accumulate<classes, hidden, rows, true, false>(logits.data(), a.data(), g.second.data());
  backend::product<rows, hidden, classes, false, false>(logits.data(), w.second.data(), da.data());
  backend::activation_backward<relu, rows * hidden>(h.data(), da.data(), dh.data());
  backend::product_accumulate<hidden, inputs, rows, true, false>(dh.data(), x, g.first.data());
  return loss;
}
// [/network]

int main() {
  std::array<float, rows * inputs> x{};
  std::array<std::int32_t, rows> targets{};
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < inputs; ++i) {
      bool const bit = (r >> i & 1U) != 0;
      x[r * inputs + i] = bit ? 1.0f : -1.0f;
      targets[r] ^= bit ? 1 : 0;
    }
  // [train]
  parameters w, g, m, v;
  // Element i of the first weight is normal number i of (seed, step, site), whoever asks for it.
  hd::random_stream const first({.seed = 1, .step = 0, .site = 1}), second({.seed = 1, .step = 0, .site = 2});
  for (std::size_t i = 0; i < w.first.size(); ++i)
    w.first[i] = 0.5f * float(hd::normal(first.word(i), first.word(i, 1)));
  for (std::size_t i = 0; i < w.second.size(); ++i)
    w.second[i] = 0.2f * float(hd::normal(second.word(i), second.word(i, 1)));
  double loss = 0;
  for (std::size_t step = 1; step <= 400; ++step) {
    g = {};
    loss = forward_backward(x.data(), targets.data(), w, g) / rows;
    if (step % 100 == 1) std::printf("step %3zu  loss %.4f\n", step, loss);
    hd::update_facts const facts{.step = step, .learning_rate = 1e-2, .gradient_scale = 1.0 / rows};
    hd::adamw::update<backend>({}, facts, w.first.data(), g.first.data(), {m.first.data(), v.first.data()},
                               w.first.size());
    hd::adamw::update<backend>({}, facts, w.second.data(), g.second.data(), {m.second.data(), v.second.data()},
                               w.second.size());
  }
  // [/train]
  std::printf("last      loss %.4f; log 2 is what a guess costs, %.4f\n", loss, std::log(2.0));
  return loss < 0.1 ? 0 : 1;
}
