// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/names.hpp>
#include <heddle/nn/dims_algebra.hpp>
#include <heddle/nn/op.hpp>
#include <heddle/tensor/activation_kind.hpp>

namespace heddle {

/// y = f(x), pointwise and non-linear: the layout stays, nothing may be partial. **Saves** x.
template <activation_kind Kind>
struct activation : primitive {
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;

  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = true;
    template <class Context>
    static void forward(Context&, frame<T> const&, T const* x, T* y) {
      Context::backend::template activation<Kind, Place::input_size>(x, y);
    }
    template <class Context>
    static void backward(Context&, frame<T> const&, T const* x, T const*, T const* dy, T* dx) {
      Context::backend::template activation_backward<Kind, Place::input_size>(x, dy, dx);
    }
  };
};

/// GPT-2's GELU and its exact form.
using gelu = activation<activation_kind::gelu_tanh>;
using gelu_erf = activation<activation_kind::gelu_erf>;
/// x · sigmoid(x).
using silu = activation<activation_kind::silu>;

/// The two halves of a gated feed-forward network: a dimension of size 2, the gate first.
using gate_up_dim = dim<gate_up, 2>;

/// y[…, Width] = f(x[…, 0, Width]) · x[…, 1, Width] for an input […, gate_up, Width] (Shazeer, arXiv 2002.05202; with
/// silu: SwiGLU). The two halves are a dimension of their own, so that a split of `Width` gives every rank equal parts
/// of both. **Saves** x.
template <activation_kind Kind, class Width>
struct gated_activation : primitive {
  using parameters = parameter_list<>;
  static constexpr dimension_list whole = dims<gate_up_dim>::value;
  template <class Input>
  using output = detail::replaced_t<gated_activation, Input, dims<gate_up_dim, Width>, dims<Width>>;

  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = true;
    static constexpr std::size_t width = Place::template extent<typename Width::name>;
    static constexpr std::size_t rows = Place::output_size / width;
    template <class Context>
    static void forward(Context&, frame<T> const&, T const* x, T* y) {
      Context::backend::template gated<Kind, rows, width>(x, y);
    }
    template <class Context>
    static void backward(Context&, frame<T> const&, T const* x, T const*, T const* dy, T* dx) {
      Context::backend::template gated_backward<Kind, rows, width>(x, dy, dx);
    }
  };
};

/// silu(gate) · up (Shazeer, arXiv 2002.05202): Llama's.
template <class Width>
using swiglu = gated_activation<activation_kind::silu, Width>;

}  // namespace heddle
