// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/op.hpp>

namespace heddle {

/// A probability as a template argument.
struct probability {
  double value = 0;
};

/// Inverted dropout (Srivastava et al., JMLR 15, 2014): y = x · mask / (1 − P) in training, y = x otherwise.
///
/// The mask depends on the seed, the step, the site (which dropout, in which layer) and the *global* element index, so
/// it is the same under every plan and need not be saved: backward draws it again. Works in place; saves nothing.
template <probability P>
struct dropout : primitive {
  static_assert(P.value >= 0 && P.value < 1,
                "dropout<P>: 'P' must be in [0, 1); it is the probability of dropping an element");
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;

  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool in_place = true;
    static constexpr bool identity_cotangent = P.value == 0;
    static constexpr bool identity = P.value == 0;
    static constexpr bool adds_forward = true;
    static constexpr bool adds_backward = true;
    static constexpr std::size_t sites = identity ? 0 : 1;

    template <class Context>
    static void forward(Context& c, frame<T> const& f, T const* x, T* y) {
      apply(c, f, nullptr, x, y);
    }
    template <class Context>
    static void forward_onto(Context& c, frame<T> const& f, T const* base, T const* x, T* y) {
      apply(c, f, base, x, y);
    }
    template <class Context>
    static void backward(Context& c, frame<T> const& f, T const*, T const*, T const* dy, T* dx) {
      apply(c, f, nullptr, dy, dx);
    }
    template <class Context>
    static void backward_onto(Context& c, frame<T> const& f, T const*, T const*, T const* dy, T const* base, T* dx) {
      apply(c, f, base, dy, dx);
    }

   private:
    // The mask is linear and diagonal: it is its own adjoint. A sum with `base`, unless that is null, is one pass.
    template <class Context>
    static void apply(Context& c, frame<T> const& f, T const* base, T const* x, T* y) {
      using B = typename Context::backend;
      if (P.value != 0 && c.training())
        B::dropout(x, base, y, c.index_map(Place::in, Place::input_layout), c.key(f.site, f.layer), P.value);
      else if (base != nullptr)
        B::template add<Place::input_size>(base, x, y);
      else
        B::template copy<Place::input_size>(x, y);
    }
  };
};

}  // namespace heddle
