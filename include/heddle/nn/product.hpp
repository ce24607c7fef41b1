// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/dims_algebra.hpp>
#include <heddle/nn/op.hpp>
#include <heddle/nn/product_concepts.hpp>
#include <heddle/tensor/accumulation.hpp>

namespace heddle {

/// y[…, Out] = x[…, In] · weightᵀ with `weight` [Out, In]: the contraction over the dimensions of `In`.
///
/// **Layouts.** By the contraction rule: where an axis splits a dimension of `Out` (a column-parallel linear) the
/// cotangent of x comes out partial over it; where it splits one of `In` (row-parallel) y does; where it splits a
/// leading dimension (data parallelism) the weight's gradient does. **Saves** x;
/// within `frozen` nothing.
template <class In, class Out, initializer Init, fixed_string Tie = "">
struct product : primitive {
  using parameters = parameter_list<parameter<"weight", detail::concatenation_t<Out, In>, Init, true, Tie>>;
  template <class Input>
  using output = detail::replaced_t<product, Input, In, Out>;

  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = Place::trains;
    static constexpr bool rows_from_input = true;
    static constexpr bool skips_gradients = true;
    using replaces_gradients = kernel;
    static constexpr bool adds_forward = true;
    static constexpr bool adds_backward = true;
    static constexpr std::size_t k = detail::local_product_v<Place, In>;
    static constexpr std::size_t n = detail::local_product_v<Place, Out>;
    static constexpr std::size_t m = Place::input_size / k;

    /// How long a row that forward adds to each row at no cost is; 0 where it costs a pass.
    static constexpr std::size_t added_row = detail::AddsRowToProduct<typename Place::plan::backend, T> ? n : 0;
    /// How long the row is that is the sum of the cotangent's rows, where it comes with the weight's gradient; or 0.
    static constexpr std::size_t summed_row = detail::SumsWithProduct<typename Place::plan::backend, T> ? n : 0;

    static constexpr std::size_t independent_rows = m;
    static constexpr std::size_t forward_scratch = Place::plan::backend::template product_scratch<m, n, k>();
    static constexpr std::size_t backward_scratch =
        detail::larger(Place::trains ? Place::plan::backend::template product_scratch<n, k, m>() : 0,
                       Place::plan::backend::template product_scratch<m, k, n>());

    template <class Context>
    static void forward(Context&, frame<T> const& f, T const* x, T* y) {
      Context::backend::template product<m, n, k, false, true>(x, f.parameter[0], y, f.scratch);
    }
    template <class Context>
    static void forward_onto(Context&, frame<T> const& f, T const* base, T const* x, T* y) {
      Context::backend::template copy<m * n>(base, y);
      Context::backend::template product_accumulate<m, n, k, false, true>(x, f.parameter[0], y, f.scratch);
    }
    /// With a row [n] added to each row, and `base` unless it is null; base may be y.
    template <class Context>
    static void forward_with_row(Context&, frame<T> const& f, T const* row, T const* base, T const* x, T* y) {
      Context::backend::template product_biased<m, n, k, false, true>(x, f.parameter[0], row, base, y, f.scratch);
    }
    template <class Context>
    static void backward(Context&, frame<T> const& f, T const* x, T const*, T const* dy, T* dx) {
      weight_gradient<Context>(f, x, dy);
      Context::backend::template product<m, k, n, false, false>(dy, f.parameter[0], dx, f.scratch);
    }
    template <class Context>
    static void backward_onto(Context&, frame<T> const& f, T const* x, T const*, T const* dy, T const* base, T* dx) {
      weight_gradient<Context>(f, x, dy);
      Context::backend::template copy<m * k>(base, dx);
      Context::backend::template product_accumulate<m, k, n, false, false>(dy, f.parameter[0], dx, f.scratch);
    }
    /// Where the weight's gradient is fresh: and the sum of dy's rows to `row`. `base` may be null.
    template <class Context>
    static void backward_with_row(Context&, frame<T> const& f, T* row, accumulation_t<T>* row_scratch, T const* x,
                                  T const* dy, T const* base, T* dx) {
      Context::backend::template product_summed<n, k, m>(dy, x, f.gradient[0], row, f.scratch, row_scratch);
      if (base == nullptr) {
        Context::backend::template product<m, k, n, false, false>(dy, f.parameter[0], dx, f.scratch);
      } else {
        Context::backend::template copy<m * k>(base, dx);
        Context::backend::template product_accumulate<m, k, n, false, false>(dy, f.parameter[0], dx, f.scratch);
      }
    }

   private:
    template <class Context>
    static void weight_gradient([[maybe_unused]] frame<T> const& f, [[maybe_unused]] T const* x,
                                [[maybe_unused]] T const* dy) {
      if constexpr (Place::trains) {
        if (f.is_fresh(0))
          Context::backend::template product<n, k, m, true, false>(dy, x, f.gradient[0], f.scratch);
        else
          Context::backend::template product_accumulate<n, k, m, true, false>(dy, x, f.gradient[0], f.scratch);
      }
    }
  };
};

}  // namespace heddle
