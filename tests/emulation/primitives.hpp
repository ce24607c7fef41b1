// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/tensor/index_map.hpp>
#include <vector>
#include "both_backends.hpp"

/// Programs of primitives, for a backend and a type of number: what they come to on the device is what they come to on
/// the host.
namespace heddle::emulation {

template <std::size_t N, class B, class T>
void elements(outcome<T>& out, std::size_t offset) {
  array_of<B, T> const x(values<T>(N, 1, 3), offset), y(values<T>(N, 2, 3), offset);
  array_of<B, T> sum(N, offset), onto(values<T>(N, 3), offset), scaled(values<T>(N, 4), offset), filled(N, offset),
      copied(N, offset), cleared(values<T>(N, 5), offset);
  B::template add<N>(x.read(), y.read(), sum.data());
  B::template add_to<N>(x.read(), onto.data());
  B::template scale<N>(wide<T>(1.5), scaled.data());
  B::template fill<N>(T(7.0F), filled.data());
  B::template copy<N>(x.read(), copied.data());
  B::clear(cleared.data(), N);
  out.leave("add", sum);
  out.leave("add_to", onto);
  out.leave("scale", scaled);
  out.leave("fill", filled);
  out.leave("copy", copied);
  out.leave("clear", cleared);
}
template <activation_kind Kind, std::size_t Rows, std::size_t Width, class B, class T>
void activations(outcome<T>& out, std::size_t offset) {
  constexpr std::size_t n = Rows * Width;
  array_of<B, T> const x(values<T>(n, 1, 4), offset), dy(values<T>(n, 2), offset),
      gates(values<T>(2 * n, 3, 4), offset);
  array_of<B, T> y(n, offset), dx(n, offset), gated(n, offset), dgates(2 * n, offset);
  B::template activation<Kind, n>(x.read(), y.data());
  B::template activation_backward<Kind, n>(x.read(), dy.read(), dx.data());
  B::template gated<Kind, Rows, Width>(gates.read(), gated.data());
  B::template gated_backward<Kind, Rows, Width>(gates.read(), dy.read(), dgates.data());
  out.leave("activation", y, 8);
  out.leave("activation_backward", dx, 8);
  out.leave("gated", gated, 8);
  out.leave("gated_backward", dgates, 8);
}
template <std::size_t Rows, std::size_t Width, class B, class T>
void biases(outcome<T>& out, std::size_t offset) {
  constexpr std::size_t n = Rows * Width;
  array_of<B, T> const bias(values<T>(Width, 1), offset), x(values<T>(n, 2), offset), base(values<T>(n, 3), offset);
  array_of<B, T> alone(n, offset), one(n, offset), two(n, offset), gradient(values<T>(Width, 4), offset);
  array_of<B, wide<T>> const scratch(B::template bias_gradient_scratch<Rows, Width>());
  B::template biased_sum<Rows, Width>(bias.read(), alone.data());
  B::template biased_sum<Rows, Width>(bias.read(), one.data(), x.read());
  B::template biased_sum<Rows, Width>(bias.read(), two.data(), base.read(), x.read());
  B::template bias_gradient<Rows, Width>(x.read(), gradient.data(), scratch.data());
  out.leave("bias", alone);
  out.leave("bias + x", one);
  out.leave("bias + base + x", two);
  out.leave("bias_gradient", gradient, 8 + Rows);
}
template <std::size_t Rows, std::size_t Width, class B, class T>
void norms(outcome<T>& out, std::size_t offset) {
  constexpr std::size_t n = Rows * Width;
  array_of<B, T> const x(values<T>(n, 1), offset), gamma(values<T>(Width, 2), offset),
      beta(values<T>(Width, 3), offset), dy(values<T>(n, 4), offset), base(values<T>(n, 5), offset);
  array_of<B, T> y(n, offset), dx(n, offset), dgamma(values<T>(Width, 6), offset), dbeta(values<T>(Width, 7), offset);
  array_of<B, wide<T>> mean(Rows), rstd(Rows);
  array_of<B, wide<T>> const scratch(B::template layer_norm_backward_scratch<Rows, Width>()),
      rms_scratch(B::template rms_norm_backward_scratch<Rows, Width>());
  auto const epsilon = static_cast<wide<T>>(1e-5);
  T* const none = nullptr;
  wide<T>* const no_room = nullptr;
  T const* const no_base = nullptr;
  double const ulps = 16 + Rows;

  B::template layer_norm<Rows, Width>(x.read(), gamma.read(), beta.read(), epsilon, y.data(), mean.data(), rstd.data());
  B::template layer_norm_backward<Rows, Width>(x.read(), gamma.read(), mean.read(), rstd.read(), dy.read(), base.read(),
                                               dx.data(), dgamma.data(), dbeta.data(), scratch.data());
  // Of one column the gradient is the difference of two equal terms.
  double const terms = Width != 1 ? 0 : largest(dy.values()) * largest(gamma.values()) * largest(rstd.values());
  out.leave("layer_norm", y, 16);
  out.leave("mean", mean, 4);
  out.leave("rstd", rstd, 8);
  out.leave("dx", dx, 32, 0, terms);
  out.leave("dgamma", dgamma, ulps);
  out.leave("dbeta", dbeta, ulps);
  // Without a bias, a base, a gradient of the bias; and of frozen parameters.
  B::template layer_norm<Rows, Width>(x.read(), gamma.read(), no_base, epsilon, y.data(), mean.data(), rstd.data());
  B::template layer_norm_backward<Rows, Width>(x.read(), gamma.read(), mean.read(), rstd.read(), dy.read(), no_base,
                                               dx.data(), dgamma.data(), none, scratch.data());
  out.leave("layer_norm without beta", y, 16);
  out.leave("dx without base", dx, 32, 0, terms);
  out.leave("dgamma alone", dgamma, ulps, 1);
  B::template layer_norm_backward<Rows, Width>(x.read(), gamma.read(), mean.read(), rstd.read(), dy.read(), base.read(),
                                               dx.data(), none, none, no_room);
  out.leave("dx of frozen", dx, 32, 0, terms);

  B::template rms_norm<Rows, Width>(x.read(), gamma.read(), epsilon, y.data(), rstd.data());
  B::template rms_norm_backward<Rows, Width>(x.read(), gamma.read(), rstd.read(), dy.read(), base.read(), dx.data(),
                                             dgamma.data(), rms_scratch.data());
  double const rms_terms = Width != 1 ? 0 : largest(dy.values()) * largest(gamma.values()) * largest(rstd.values());
  out.leave("rms_norm", y, 16);
  out.leave("1/rms", rstd, 8);
  out.leave("rms dx", dx, 32, 0, rms_terms);
  out.leave("rms dgamma", dgamma, ulps, 2);
  B::template rms_norm_backward<Rows, Width>(x.read(), gamma.read(), rstd.read(), dy.read(), base.read(), dx.data(),
                                             none, no_room);
  out.leave("rms dx of frozen", dx, 32, 0, rms_terms);
}
template <std::size_t Rows, std::size_t Vocab, std::size_t Width, class B, class T>
void embedded(outcome<T>& out, std::size_t offset) {
  std::vector<std::int32_t> ids(Rows);
  for (std::size_t row = 0; row < Rows; ++row)
    ids[row] = static_cast<std::int32_t>(100 + (row * row + row / 3) % (Vocab + 3)) - 1;  // some are held elsewhere
  array_of<B, std::int32_t> const tokens(ids);
  array_of<B, T> const table(values<T>(Vocab * Width, 1), offset), dy(values<T>(Rows * Width, 2), offset);
  array_of<B, T> y(Rows * Width, offset), gradient(values<T>(Vocab * Width, 3), offset);
  B::template embedding<Rows, Vocab, Width>(tokens.read(), table.read(), 100, y.data());
  B::template embedding_backward<Rows, Vocab, Width>(tokens.read(), dy.read(), 100, gradient.data());
  out.leave("embedding", y);
  out.leave("embedding_backward", gradient);
}
template <std::size_t Rows, std::size_t Vocab, class B, class T>
void losses(outcome<T>& out, std::size_t offset) {
  constexpr std::size_t n = Rows * Vocab;
  std::vector<std::int32_t> ids(Rows);
  for (std::size_t row = 0; row < Rows; ++row)
    ids[row] = row % 5 == 3 ? -100 : 10 + static_cast<std::int32_t>(row % (Vocab + 2)) - 1;
  array_of<B, std::int32_t> const targets(ids);
  array_of<B, T> const logits(values<T>(n, 1, 5), offset);
  array_of<B, wide<T>> const scale(std::vector<wide<T>>{wide<T>(0.25)});
  array_of<B, wide<T>> highest(Rows), sum(Rows), logit(Rows), lse(Rows), loss(1);
  array_of<B, T> dlogits(n, offset);
  for (std::size_t const valid : {Vocab, Vocab - Vocab / 3}) {
    B::template cross_entropy_max<Rows, Vocab>(logits.read(), valid, highest.data());
    B::template cross_entropy_sum<Rows, Vocab>(logits.read(), valid, 10, targets.read(), highest.read(), sum.data(),
                                               logit.data());
    B::template cross_entropy_loss<Rows>(targets.read(), -100, highest.read(), sum.read(), logit.read(), lse.data(),
                                         loss.data());
    B::template cross_entropy_backward<Rows, Vocab>(logits.read(), valid, 10, targets.read(), -100, lse.read(),
                                                    scale.read(), dlogits.data());
    out.leave("highest", highest);
    out.leave("sum", sum, 8);
    out.leave("logit", logit);
    out.leave("log_sum_exp", lse, 8);
    out.leave("loss", loss, 8);
    out.leave("dlogits", dlogits, 16);
  }
}

}  // namespace heddle::emulation
