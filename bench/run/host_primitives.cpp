// SPDX-License-Identifier: Apache-2.0
// Time and rate of each host primitive, one thread, float, at the shapes of a small character model and of GPT-2 124M.
// Arithmetic-bound primitives are given in GFLOP/s, the others in GB/s of what they must read and write. Shown are the
// median of the runs and the fastest, which other work on the machine disturbs least; the rate is the fastest's.
#include <heddle/backend/host.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

using host = heddle::host_backend;
using heddle::activation_kind;

struct duration {
  double median, fastest;
};

template <class Work>
duration seconds(Work work) {
  using clock = std::chrono::steady_clock;
  std::vector<double> runs;
  auto const begin = clock::now();
  work();
  do {
    auto const before = clock::now();
    work();
    runs.push_back(std::chrono::duration<double>(clock::now() - before).count());
  } while (runs.size() < 5 || (clock::now() - begin < std::chrono::milliseconds(200) && runs.size() < 2000));
  std::sort(runs.begin(), runs.end());
  return {runs[runs.size() / 2], runs.front()};
}

template <class Work>
void report(char const* name, char const* shape, double amount, char const* unit, Work work) {
  duration const time = seconds(work);
  std::printf("  %-24s %-16s %10.1f us %10.1f us %8.1f %s\n", name, shape, time.median * 1e6, time.fastest * 1e6,
              amount / time.fastest * 1e-9, unit);
}

std::vector<float> values(std::size_t n) {
  std::vector<float> out(n);
  std::uint32_t state = 1;
  for (float& value : out) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-23f - 1;
  }
  return out;
}

/// A linear layer with weights [Out,In]: forward, gradient of the input, gradient of the weights.
template <std::size_t Rows, std::size_t Out, std::size_t In>
void linear() {
  auto const x = values(Rows * In), w = values(Out * In), dy = values(Rows * Out);
  std::vector<float> y(Rows * Out), dx(Rows * In), dw(Out * In);
  char shape[64];
  std::snprintf(shape, sizeof shape, "%zux%zux%zu", Rows, Out, In);
  double const flops = 2.0 * Rows * Out * In;
  report("product forward", shape, flops, "GFLOP/s",
         [&] { host::product<Rows, Out, In, false, true>(x.data(), w.data(), y.data()); });
  report("product dx", shape, flops, "GFLOP/s",
         [&] { host::product<Rows, In, Out, false, false>(dy.data(), w.data(), dx.data()); });
  report("product dw +=", shape, flops, "GFLOP/s",
         [&] { host::product_accumulate<Out, In, Rows, true, false>(dy.data(), x.data(), dw.data()); });
}

template <std::size_t Rows, std::size_t Width, std::size_t Mlp, std::size_t Vocab>
void model(char const* title) {
  std::printf("%s\n", title);
  linear<Rows, 3 * Width, Width>();
  linear<Rows, Width, Width>();
  linear<Rows, Mlp, Width>();
  linear<Rows, Width, Mlp>();
  linear<Rows, Vocab, Width>();

  constexpr std::size_t n = Rows * Mlp, m = Rows * Width;
  auto const x = values(2 * n), dy = values(n), gamma = values(Width), beta = values(Width);
  std::vector<float> y(2 * n), mean(Rows), rstd(Rows), dgamma(Width), dbeta(Width), dbias(Mlp);
  char shape[64];
  std::snprintf(shape, sizeof shape, "%zux%zu", Rows, Mlp);
  auto const activations = [&](auto kind, char const* forward, char const* backward) {
    constexpr activation_kind k = decltype(kind)::value;
    report(forward, shape, 8.0 * n, "GB/s", [&] { host::activation<k, n>(x.data(), y.data()); });
    report(backward, shape, 12.0 * n, "GB/s", [&] { host::activation_backward<k, n>(x.data(), dy.data(), y.data()); });
  };
  activations(std::integral_constant<activation_kind, activation_kind::gelu_tanh>{}, "gelu tanh", "gelu tanh backward");
  activations(std::integral_constant<activation_kind, activation_kind::gelu_erf>{}, "gelu erf", "gelu erf backward");
  report("silu gated", shape, 12.0 * n, "GB/s",
         [&] { host::gated<activation_kind::silu, Rows, Mlp>(x.data(), y.data()); });
  report("silu gated backward", shape, 20.0 * n, "GB/s",
         [&] { host::gated_backward<activation_kind::silu, Rows, Mlp>(x.data(), dy.data(), y.data()); });
  report("add bias", shape, 8.0 * n, "GB/s", [&] { host::add_bias<Rows, Mlp>(dbias.data(), y.data()); });
  report("bias gradient", shape, 4.0 * n, "GB/s", [&] { host::bias_gradient<Rows, Mlp>(dy.data(), dbias.data()); });

  std::snprintf(shape, sizeof shape, "%zux%zu", Rows, Width);
  report("add to", shape, 12.0 * m, "GB/s", [&] { host::add_to<m>(x.data(), y.data()); });
  report("layer norm", shape, 8.0 * m, "GB/s", [&] {
    host::layer_norm<Rows, Width>(x.data(), gamma.data(), beta.data(), 1e-5f, y.data(), mean.data(), rstd.data());
  });
  report("layer norm backward", shape, 12.0 * m, "GB/s", [&] {
    host::layer_norm_backward<Rows, Width>(x.data(), gamma.data(), mean.data(), rstd.data(), dy.data(), y.data(),
                                           dgamma.data(), dbeta.data());
  });
  report("rms norm", shape, 8.0 * m, "GB/s",
         [&] { host::rms_norm<Rows, Width>(x.data(), gamma.data(), 1e-5f, y.data(), rstd.data()); });
  report("rms norm backward", shape, 12.0 * m, "GB/s", [&] {
    host::rms_norm_backward<Rows, Width>(x.data(), gamma.data(), rstd.data(), dy.data(), y.data(), dgamma.data());
  });

  std::vector<std::int32_t> tokens(Rows);
  for (std::size_t i = 0; i < Rows; ++i) tokens[i] = static_cast<std::int32_t>(i * 7919 % Vocab);
  auto table = values(Vocab * Width);
  report("embedding", shape, 8.0 * m, "GB/s",
         [&] { host::embedding<Rows, Vocab, Width>(tokens.data(), table.data(), 0, y.data()); });
  report("embedding backward", shape, 12.0 * m, "GB/s",
         [&] { host::embedding_backward<Rows, Vocab, Width>(tokens.data(), dy.data(), 0, table.data()); });

  std::snprintf(shape, sizeof shape, "%zux%zu", Rows, Vocab);
  auto logits = values(Rows * Vocab);
  std::vector<float> dlogits(Rows * Vocab), highest(Rows), sum(Rows), target(Rows), log_sum_exp(Rows);
  report("cross-entropy max", shape, 4.0 * Rows * Vocab, "GB/s",
         [&] { host::cross_entropy_max<Rows, Vocab>(logits.data(), Vocab, highest.data()); });
  report("cross-entropy sum", shape, 4.0 * Rows * Vocab, "GB/s", [&] {
    host::cross_entropy_sum<Rows, Vocab>(logits.data(), Vocab, 0, tokens.data(), highest.data(), sum.data(),
                                         target.data());
  });
  host::cross_entropy_loss<Rows>(tokens.data(), -100, highest.data(), sum.data(), target.data(), log_sum_exp.data());
  report("cross-entropy backward", shape, 8.0 * Rows * Vocab, "GB/s", [&] {
    host::cross_entropy_backward<Rows, Vocab>(logits.data(), Vocab, 0, tokens.data(), -100, log_sum_exp.data(), 0.1f,
                                              dlogits.data());
  });
}

void optimizer(std::size_t n) {
  auto w = values(n);
  auto const g = values(n);
  std::vector<float> m(n), v(n);
  char shape[64];
  std::snprintf(shape, sizeof shape, "%zu", n);
  heddle::adamw_coefficients const c{.bias_correction1 = 0.1, .bias_correction2 = 0.001};
  report("adamw", shape, 28.0 * static_cast<double>(n), "GB/s",
         [&] { host::adamw(w.data(), g.data(), m.data(), v.data(), n, c); });
  double total = 0;
  report("sum of squares", shape, 4.0 * static_cast<double>(n), "GB/s",
         [&] { total += host::sum_of_squares(g.data(), n); });
  if (total < 0) std::puts("");
}

}  // namespace

int main() {
  model<768, 128, 512, 65>("small: 12 sequences of 64, width 128, vocabulary 65");
  model<256, 768, 3072, 50257>("GPT-2 124M: 4 sequences of 64");
  std::puts("optimizer");
  optimizer(800'000);
  optimizer(20'000'000);
}
