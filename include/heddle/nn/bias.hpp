// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/dims_algebra.hpp>
#include <heddle/nn/op.hpp>
#include <heddle/tensor/accumulation.hpp>

namespace heddle {

/// y = x + parameter, where `Parameter` (a `parameter<…>`) has the last dimensions of x. Works in place; saves nothing.
/// After a module that can add to what stands in its output, the parameter is written there first (`fused_step`).
template <class Parameter>
struct added : primitive {
  using parameters = parameter_list<Parameter>;
  using added_dims = typename Parameter::dims_type;
  template <class Input>
  using output = detail::replaced_t<added, Input, added_dims, added_dims>;

  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool in_place = true;
    static constexpr bool identity_cotangent = true;
    static constexpr bool adds_forward = true;
    static constexpr bool adds_constant = true;
    static constexpr bool skips_gradients = true;
    static constexpr std::size_t width = detail::local_product_v<Place, added_dims>;
    static constexpr std::size_t rows = Place::input_size / width;
    static constexpr std::size_t independent_rows = rows;
    static constexpr std::size_t added_row = width;  ///< the constant is the parameter, in each row of so many
    using A = accumulation_t<T>;
    static constexpr std::size_t backward_scratch =
        Place::trains ? room_for<T, A>(Place::plan::backend::template bias_gradient_scratch<rows, width>()) : 0;

    template <class Context>
    static void forward(Context&, frame<T> const& f, T const* x, T* y) {
      Context::backend::template biased_sum<rows, width>(f.parameter[0], y, x);
    }
    template <class Context>
    static void forward_onto(Context&, frame<T> const& f, T const* base, T const* x, T* y) {
      Context::backend::template biased_sum<rows, width>(f.parameter[0], y, base, x);
    }
    template <class Context>
    static void constant_onto(Context&, frame<T> const& f, T const* base, T* y) {
      if (base != nullptr)
        Context::backend::template biased_sum<rows, width>(f.parameter[0], y, base);
      else
        Context::backend::template biased_sum<rows, width>(f.parameter[0], y);
    }
    template <class Context>
    static void backward(Context&, [[maybe_unused]] frame<T> const& f, T const*, T const*, T const* dy, T* dx) {
      if constexpr (Place::trains)
        Context::backend::template bias_gradient<rows, width>(dy, f.gradient[0], reinterpret_cast<A*>(f.scratch));
      if (dx != dy) Context::backend::template copy<Place::input_size>(dy, dx);
    }
  };
};

/// A bias over the dimensions `Out`: starts at zero, does not decay.
template <class Out>
using bias = added<parameter<"bias", Out, zeros, false>>;

/// Learned positions: `weight` [Positions, Embed] is added to […, Positions, Embed].
template <class Positions, class Embed, initializer Init = normal(0.02)>
using position_embedding = added<parameter<"weight", dims<Positions, Embed>, Init, true>>;

}  // namespace heddle
