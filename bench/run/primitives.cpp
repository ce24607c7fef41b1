// SPDX-License-Identifier: Apache-2.0
// Rate of each host primitive, one thread, float, at the shapes of a small character model and of GPT-2 124M; beside
// them what the machine gives at most: multiply-adds in registers, and a copy of memory. Arithmetic-bound primitives
// count operations, the others the bytes that they must read and write.
#include <cstdint>
#include <cstring>
#include <heddle/backend/host.hpp>
#include <string>

#include "peak.hpp"
#include "rates.hpp"

namespace {

using bench::rate, bench::unit, bench::values;
using host = heddle::host_backend;
using heddle::activation_kind;
using zeros = std::vector<float>;

std::string shape(std::size_t rows, std::size_t width) { return std::to_string(rows) + "x" + std::to_string(width); }

/// A linear layer with weights [Out, In]: forward, gradient of the input, gradient of the weights.
template <std::size_t Rows, std::size_t Out, std::size_t In>
void linear() {
  std::string const at = "/" + shape(Rows, Out) + "x" + std::to_string(In);
  double const flops = 2.0 * Rows * Out * In;
  rate("product forward" + at, flops, unit::flop, [] {
    return [x = values(Rows * In), w = values(Out * In), y = zeros(Rows * Out)]() mutable {
      host::product<Rows, Out, In, false, true>(x.data(), w.data(), y.data());
    };
  });
  rate("product dx" + at, flops, unit::flop, [] {
    return [dy = values(Rows * Out), w = values(Out * In), dx = zeros(Rows * In)]() mutable {
      host::product<Rows, In, Out, false, false>(dy.data(), w.data(), dx.data());
    };
  });
  rate("product dw +=" + at, flops, unit::flop, [] {
    return [dy = values(Rows * Out), x = values(Rows * In), dw = zeros(Out * In)]() mutable {
      host::product_accumulate<Out, In, Rows, true, false>(dy.data(), x.data(), dw.data());
    };
  });
}

template <activation_kind Kind, std::size_t N>
void activation(std::string const& name, std::string const& at) {
  rate(name + at, 8.0 * N, unit::byte,
       [] { return [x = values(N), y = zeros(N)]() mutable { host::activation<Kind, N>(x.data(), y.data()); }; });
  rate(name + " backward" + at, 12.0 * N, unit::byte, [] {
    return [x = values(N), dy = values(N), dx = zeros(N)]() mutable {
      host::activation_backward<Kind, N>(x.data(), dy.data(), dx.data());
    };
  });
}

template <std::size_t Rows, std::size_t Width>
void norms() {
  constexpr std::size_t m = Rows * Width;
  std::string const at = "/" + shape(Rows, Width);
  struct buffers {
    std::vector<float> x = values(m), dy = values(m), gamma = values(Width), beta = values(Width), y = zeros(m),
                       mean = zeros(Rows), rstd = std::vector<float>(Rows, 1), dgamma = zeros(Width),
                       dbeta = zeros(Width);
  };
  rate("layer norm" + at, 8.0 * m, unit::byte, [] {
    return [b = buffers()]() mutable {
      host::layer_norm<Rows, Width>(b.x.data(), b.gamma.data(), b.beta.data(), 1e-5F, b.y.data(), b.mean.data(),
                                    b.rstd.data());
    };
  });
  rate("layer norm backward" + at, 12.0 * m, unit::byte, [] {
    return [b = buffers()]() mutable {
      host::layer_norm_backward<Rows, Width>(b.x.data(), b.gamma.data(), b.mean.data(), b.rstd.data(), b.dy.data(),
                                             nullptr, b.y.data(), b.dgamma.data(), b.dbeta.data());
    };
  });
  rate("rms norm" + at, 8.0 * m, unit::byte, [] {
    return [b = buffers()]() mutable {
      host::rms_norm<Rows, Width>(b.x.data(), b.gamma.data(), 1e-5F, b.y.data(), b.rstd.data());
    };
  });
  rate("rms norm backward" + at, 12.0 * m, unit::byte, [] {
    return [b = buffers()]() mutable {
      host::rms_norm_backward<Rows, Width>(b.x.data(), b.gamma.data(), b.rstd.data(), b.dy.data(), nullptr, b.y.data(),
                                           b.dgamma.data());
    };
  });
  rate("add to" + at, 12.0 * m, unit::byte,
       [] { return [x = values(m), y = zeros(m)]() mutable { host::add_to<m>(x.data(), y.data()); }; });
}

template <std::size_t Rows, std::size_t Width, std::size_t Vocab>
void ends() {
  constexpr std::size_t m = Rows * Width, n = Rows * Vocab;
  std::vector<std::int32_t> tokens(Rows);
  for (std::size_t i = 0; i < Rows; ++i) tokens[i] = static_cast<std::int32_t>(i * 7919 % Vocab);
  std::string at = "/" + shape(Rows, Width) + " of " + std::to_string(Vocab);
  rate("embedding" + at, 8.0 * m, unit::byte, [tokens] {
    return [tokens, table = values(Vocab * Width), y = zeros(m)]() mutable {
      host::embedding<Rows, Vocab, Width>(tokens.data(), table.data(), 0, y.data());
    };
  });
  rate("embedding backward" + at, 12.0 * m, unit::byte, [tokens] {
    return [tokens, dy = values(m), table = zeros(Vocab * Width)]() mutable {
      host::embedding_backward<Rows, Vocab, Width>(tokens.data(), dy.data(), 0, table.data());
    };
  });
  struct buffers {
    std::vector<float> logits = values(n), dlogits = zeros(n), highest = zeros(Rows), sum = zeros(Rows),
                       target = zeros(Rows), log_sum_exp = std::vector<float>(Rows, 20), scale = {0.1F};
  };
  at = "/" + shape(Rows, Vocab);
  rate("cross-entropy max" + at, 4.0 * n, unit::byte, [] {
    return
        [b = buffers()]() mutable { host::cross_entropy_max<Rows, Vocab>(b.logits.data(), Vocab, b.highest.data()); };
  });
  rate("cross-entropy sum" + at, 4.0 * n, unit::byte, [tokens] {
    return [tokens, b = buffers()]() mutable {
      host::cross_entropy_sum<Rows, Vocab>(b.logits.data(), Vocab, 0, tokens.data(), b.highest.data(), b.sum.data(),
                                           b.target.data());
    };
  });
  rate("cross-entropy backward" + at, 8.0 * n, unit::byte, [tokens] {
    return [tokens, b = buffers()]() mutable {
      host::cross_entropy_backward<Rows, Vocab>(b.logits.data(), Vocab, 0, tokens.data(), -100, b.log_sum_exp.data(),
                                                b.scale.data(), b.dlogits.data());
    };
  });
}

template <std::size_t Rows, std::size_t Width, std::size_t Mlp, std::size_t Vocab>
void model() {
  linear<Rows, 3 * Width, Width>();
  linear<Rows, Width, Width>();
  linear<Rows, Mlp, Width>();
  linear<Rows, Width, Mlp>();
  linear<Rows, Vocab, Width>();
  constexpr std::size_t n = Rows * Mlp;
  std::string const at = "/" + shape(Rows, Mlp);
  activation<activation_kind::gelu_tanh, n>("gelu tanh", at);
  activation<activation_kind::gelu_erf, n>("gelu erf", at);
  rate("silu gated" + at, 12.0 * n, unit::byte, [] {
    return [x = values(2 * n), y = zeros(n)]() mutable {
      host::gated<activation_kind::silu, Rows, Mlp>(x.data(), y.data());
    };
  });
  rate("silu gated backward" + at, 20.0 * n, unit::byte, [] {
    return [x = values(2 * n), dy = values(n), dx = zeros(2 * n)]() mutable {
      host::gated_backward<activation_kind::silu, Rows, Mlp>(x.data(), dy.data(), dx.data());
    };
  });
  rate("add bias" + at, 8.0 * n, unit::byte, [] {
    return [b = values(Mlp), y = zeros(n)]() mutable { host::biased_sum<Rows, Mlp>(b.data(), y.data(), y.data()); };
  });
  rate("bias gradient" + at, 4.0 * n, unit::byte, [] {
    return [dy = values(n), db = zeros(Mlp)]() mutable { host::bias_gradient<Rows, Mlp>(dy.data(), db.data()); };
  });
  norms<Rows, Width>();
  ends<Rows, Width, Vocab>();
}

void optimizer(std::size_t n) {
  std::string const at = "/" + std::to_string(n);
  double const size = static_cast<double>(n);
  rate("limit: copy" + at, 8.0 * size, unit::byte, [n] {
    return [x = values(n), y = zeros(n)]() mutable { std::memcpy(y.data(), x.data(), y.size() * sizeof(float)); };
  });
  rate("adamw" + at, 28.0 * size, unit::byte, [n] {
    heddle::adamw_coefficients const c{.bias_correction1 = 0.1, .bias_correction2 = 0.001};
    return [c, w = values(n), g = values(n), m = zeros(n), v = zeros(n)]() mutable {
      host::adamw(w.data(), g.data(), m.data(), v.data(), w.size(), c);
    };
  });
  rate("sum of squares" + at, 4.0 * size, unit::byte, [n] {
    return [g = values(n)]() mutable { benchmark::DoNotOptimize(host::sum_of_squares(g.data(), g.size())); };
  });
}

}  // namespace

int main(int argc, char** argv) {
  rate("limit: multiply-adds", bench::multiply_adds::flop, unit::flop, [] { return bench::multiply_adds{}; });
  model<768, 128, 512, 65>();      // small: 12 sequences of 64, vocabulary 65
  model<256, 768, 3072, 50257>();  // GPT-2 124M: 4 sequences of 64
  optimizer(800'000);
  optimizer(20'000'000);
  return bench::run(argc, argv);
}
