// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/dims_algebra.hpp>
#include <heddle/nn/op.hpp>
#include <heddle/tensor/accumulation.hpp>

namespace heddle {

/// The ε of a norm, as a template argument.
struct epsilon {
  double value = 1e-5;
};

namespace detail {
template <class Width, bool Biased>
struct norm_parameters {
  using type =
      parameter_list<parameter<"weight", dims<Width>, ones, false>, parameter<"bias", dims<Width>, zeros, false>>;
};
template <class Width>
struct norm_parameters<Width, false> {
  using type = parameter_list<parameter<"weight", dims<Width>, ones, false>>;
};
}  // namespace detail

/// Layer normalisation over `Width`, with gain `weight` and, if `Biased`, `bias` (Ba et al., arXiv 1607.06450).
///
/// **Layouts.** `Width` is whole and nothing is partial; the gains' gradients are sums over every other dimension, so
/// they come out partial over the axes that split those (over tp under sequence parallelism). **Saves** x, mean, 1/σ.
template <class Width, bool Biased = true, epsilon Epsilon = epsilon{}>
struct layer_norm : primitive {
  using parameters = typename detail::norm_parameters<Width, Biased>::type;
  static constexpr dimension_list whole = dims<Width>::value;
  template <class Input>
  using output = detail::replaced_t<layer_norm, Input, dims<Width>, dims<Width>>;

  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = true;
    static constexpr bool adds_backward = true;
    static constexpr bool skips_gradients = true;
    static constexpr std::size_t width = Place::template extent<typename Width::name>;
    static constexpr std::size_t rows = Place::input_size / width;
    using A = accumulation_t<T>;
    static constexpr std::size_t saved = room_for<T, A>(2 * rows);
    static constexpr std::size_t backward_scratch =
        Place::trains ? room_for<T, A>(Place::plan::backend::template layer_norm_backward_scratch<rows, width>()) : 0;

    template <class Context>
    static void forward(Context&, frame<T> const& f, T const* x, T* y) {
      Context::backend::template layer_norm<rows, width>(x, f.parameter[0], bias_of(f), A(Epsilon.value), y, mean_of(f),
                                                         mean_of(f) + rows);
    }
    template <class Context>
    static void backward(Context& c, frame<T> const& f, T const* x, T const* y, T const* dy, T* dx) {
      backward_onto(c, f, x, y, dy, nullptr, dx);
    }
    template <class Context>
    static void backward_onto(Context&, frame<T> const& f, T const* x, T const*, T const* dy, T const* base, T* dx) {
      Context::backend::template layer_norm_backward<rows, width>(x, f.parameter[0], mean_of(f), mean_of(f) + rows, dy,
                                                                  base, dx, Place::trains ? f.gradient[0] : nullptr,
                                                                  bias_gradient(f), reinterpret_cast<A*>(f.scratch));
    }

   private:
    static A* mean_of(frame<T> const& f) { return reinterpret_cast<A*>(f.saved); }
    static T const* bias_of(frame<T> const& f) { return Biased ? f.parameter[1] : nullptr; }
    static T* bias_gradient(frame<T> const& f) { return Biased && Place::trains ? f.gradient[1] : nullptr; }
  };
};

/// Root-mean-square normalisation over `Width`, with gain `weight` (Zhang and Sennrich, arXiv 1910.07467). Layouts as
/// `layer_norm`. **Saves** x and 1/rms.
template <class Width, epsilon Epsilon = epsilon{}>
struct rms_norm : primitive {
  using parameters = typename detail::norm_parameters<Width, false>::type;
  static constexpr dimension_list whole = dims<Width>::value;
  template <class Input>
  using output = detail::replaced_t<rms_norm, Input, dims<Width>, dims<Width>>;

  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = true;
    static constexpr bool adds_backward = true;
    static constexpr bool skips_gradients = true;
    static constexpr std::size_t width = Place::template extent<typename Width::name>;
    static constexpr std::size_t rows = Place::input_size / width;
    using A = accumulation_t<T>;
    static constexpr std::size_t saved = room_for<T, A>(rows);
    static constexpr std::size_t backward_scratch =
        Place::trains ? room_for<T, A>(Place::plan::backend::template rms_norm_backward_scratch<rows, width>()) : 0;

    template <class Context>
    static void forward(Context&, frame<T> const& f, T const* x, T* y) {
      Context::backend::template rms_norm<rows, width>(x, f.parameter[0], A(Epsilon.value), y, inverse_of(f));
    }
    template <class Context>
    static void backward(Context& c, frame<T> const& f, T const* x, T const* y, T const* dy, T* dx) {
      backward_onto(c, f, x, y, dy, nullptr, dx);
    }
    template <class Context>
    static void backward_onto(Context&, frame<T> const& f, T const* x, T const*, T const* dy, T const* base, T* dx) {
      Context::backend::template rms_norm_backward<rows, width>(x, f.parameter[0], inverse_of(f), dy, base, dx,
                                                                Place::trains ? f.gradient[0] : nullptr,
                                                                reinterpret_cast<A*>(f.scratch));
    }

   private:
    static A* inverse_of(frame<T> const& f) { return reinterpret_cast<A*>(f.saved); }
  };
};

}  // namespace heddle
