// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/nn/op.hpp>
#include <heddle/nn/product_concepts.hpp>
#include <heddle/tensor/accumulation.hpp>
#include <type_traits>

namespace heddle {

/// Two neighbours of a chain as one: `Sum`, which can add to what stands in its output, and `Constant`, which adds
/// what does not depend on its input. The constant is written to the output and `Sum` adds to it, so that a bias costs
/// no pass of its own: it takes the place of the zeros that a product would begin with. Of a backend on which the sum
/// itself adds a row to each row, it is not even written.
///
/// A model of what `placed` is. The parameters of both are one unit (nn/parameter_unit.hpp).
template <class Sum, class Constant>
struct fused_step {
  using element = typename Sum::element;
  using input = typename Sum::input;
  using output = typename Constant::output;
  static constexpr layout input_layout = Sum::input_layout;
  static constexpr layout output_layout = Constant::output_layout;

  static constexpr std::size_t uses_of_sum = Sum::uses.size();
  static constexpr auto uses = [] {
    std::array<parameter_use, uses_of_sum + Constant::uses.size()> both{};
    for (std::size_t k = 0; k < both.size(); ++k)
      both[k] = k < uses_of_sum ? Sum::uses[k] : Constant::uses[k - uses_of_sum];
    return both;
  }();
  static constexpr auto units = [] {
    std::array<parameter_unit, uses.size() == 0 ? 0 : 1> one{};
    if constexpr (uses.size() != 0) one[0] = {0, uses.size(), 1, Constant::goes_back};
    return one;
  }();

  static constexpr bool needs_input = Sum::needs_input;
  static constexpr bool needs_output = false;
  static constexpr bool in_place = false;
  static constexpr bool identity_cotangent = false;
  static constexpr bool adds_forward = true;
  static constexpr bool adds_backward = Sum::adds_backward;
  static constexpr std::size_t independent_rows = Constant::splits_into_rows && Constant::stays_local &&
                                                          Sum::independent_rows == Constant::kernel::independent_rows &&
                                                          Constant::unread_gradients == 0
                                                      ? Sum::independent_rows
                                                      : 0;
  static constexpr bool rows_read_input = independent_rows != 0 && Sum::rows_read_input;
  static constexpr std::size_t rows_first_use = 0;
  static constexpr std::size_t sites = Sum::sites + Constant::sites;
  static constexpr std::size_t saved = Sum::saved;
  static constexpr std::size_t forward_scratch = Sum::forward_scratch;
  static constexpr std::size_t backward_scratch = detail::larger(Sum::backward_scratch, Constant::backward_scratch);
  static constexpr std::size_t rows_scratch = Sum::rows_scratch + Constant::backward_scratch;

  template <class Context, class X>
  static void forward(Context& c, frame<element> const& f, X const* x, element* y) {
    forward_onto(c, f, nullptr, x, y);
  }
  template <class Context, class X>
  static void forward_onto(Context& c, frame<element> const& f, element const* base, X const* x, element* y) {
    before_forward(c, f);
    if constexpr (detail::AddsRow<typename Sum::kernel, typename Constant::kernel>) {
      frame<element> own = of_sum(f);
      X const* const x_here = Sum::begin_forward(c, own, x);
      Sum::kernel::forward_with_row(c, own, f.parameter[uses_of_sum], base, x_here, y);
    } else {
      Constant::kernel::constant_onto(c, of_constant(f), base, y);
      Sum::forward_onto(c, of_sum(f), y, x, y);
    }
  }
  template <class Context, class X>
  static void backward(Context& c, frame<element> const& f, X const* x, element const* y, element const* dy,
                       element* dx) {
    before_backward(c, f);
    if constexpr (detail::SumsRow<Sum, Constant>)
      if (backward_together(c, f, x, y, dy, nullptr, dx)) return after_backward(c, f);
    backward_constant(c, f, dy);
    Sum::backward(c, of_sum(f), x, y, dy, dx);
    after_backward(c, f);
  }
  template <class Context, class X>
  static void backward_onto(Context& c, frame<element> const& f, X const* x, element const* y, element const* dy,
                            element const* base, element* dx) {
    before_backward(c, f);
    if constexpr (detail::SumsRow<Sum, Constant>)
      if (backward_together(c, f, x, y, dy, base, dx)) return after_backward(c, f);
    backward_constant(c, f, dy);
    Sum::backward_onto(c, of_sum(f), x, y, dy, base, dx);
    after_backward(c, f);
  }

  // As of `placed`: the constant's rows, and the product's added to them.
  template <class Context, class X, class F>
  static void forward_rows(Context& c, frame<element> const& f, X const* x, F use) {
    before_forward(c, f);
    Sum::forward_rows(c, of_sum(f), x, [&](auto get) { use(with_constant(c, f, get)); });
  }
  template <class Context, class X, class F>
  static void backward_rows(Context& c, frame<element> const& f, X const* x, element* dx, F use) {
    before_backward(c, f);
    Constant::clear_fresh(c, of_constant(f));
    Sum::backward_rows(c, of_sum(f), x, dx, [&](auto get, auto put) {
      use(with_constant(c, f, get),
          [&]<std::size_t Rows>(std::integral_constant<std::size_t, Rows> size, std::size_t first, element const* dy) {
            // Behind the product's scratch, where dx may stand until it is complete.
            frame<element> own = of_constant(f);
            own.scratch += Sum::rows_scratch;
            own.fresh = nullptr;
            Constant::template kernel_of_rows<Rows>::backward(c, own, dy, dy, dy, const_cast<element*>(dy));
            put(size, first, dy);
          });
    });
    after_backward(c, f);
  }

  static constexpr void count_forward(traffic_table& t, coordinates const& at) {
    Sum::count_forward(t, at);
    Constant::count_forward(t, at);
  }
  static constexpr void count_backward(traffic_table& t, coordinates const& at) {
    Constant::count_backward(t, at);
    Sum::count_backward(t, at);
  }

 private:
  static frame<element> of_sum(frame<element> f) {
    f.asked = true;
    return f;
  }
  static frame<element> of_constant(frame<element> f) {
    f.asked = true;
    f.parameter += uses_of_sum;
    f.gradient += uses_of_sum;
    f.use += uses_of_sum;
    f.site += Sum::sites;
    return f;
  }
  /// Backward with the constant's gradient in the pass of the sum's, which replaces what stands in both. False where
  /// that may not be, and nothing was done. `base` may be null.
  template <class Context, class X>
  static bool backward_together(Context& c, frame<element> const& f, X const* x, element const* y, element const* dy,
                                element const* base, element* dx) {
    if (!f.is_fresh(0) || !f.is_fresh(uses_of_sum)) return false;
    frame<element> own = of_sum(f);
    // The constant's scratch begins where the sum's does, and is free again before dx is written.
    auto* const row_scratch = reinterpret_cast<accumulation_t<element>*>(f.scratch);
    Sum::backward_by(c, own, x, y, dy, dx, [&](X const* x_here, element const*, element const* dy_here, element* to) {
      Sum::kernel::backward_with_row(c, own, f.gradient[uses_of_sum], row_scratch, x_here, dy_here, base, to);
    });
    return true;
  }
  /// Its cotangent is the identity: dx is dy, where it stands, and is not written.
  template <class Context>
  static void backward_constant(Context& c, frame<element> const& f, element const* dy) {
    Constant::backward(c, of_constant(f), dy, dy, dy, const_cast<element*>(dy));
  }
  template <class Context, class Get>
  static auto with_constant(Context& c, frame<element> const& f, Get get) {
    return
        [&c, &f, get]<std::size_t Rows>(std::integral_constant<std::size_t, Rows> size, std::size_t first, element* y) {
          element const* const no_base = nullptr;
          Constant::template kernel_of_rows<Rows>::constant_onto(c, of_constant(f), no_base, y);
          get(size, first, y, true);
        };
  }
  // The parameters of both, if there are any, are asked for together.
  template <class Context>
  static void before_forward([[maybe_unused]] Context& c, [[maybe_unused]] frame<element> const& f) {
    if constexpr (uses.size() != 0)
      if (!f.asked) c.before_forward(f.use, 0);
  }
  template <class Context>
  static void before_backward([[maybe_unused]] Context& c, [[maybe_unused]] frame<element> const& f) {
    if constexpr (uses.size() != 0)
      if (!f.asked) c.before_backward(f.use, 0);
  }
  template <class Context>
  static void after_backward([[maybe_unused]] Context& c, [[maybe_unused]] frame<element> const& f) {
    if constexpr (uses.size() != 0)
      if (!f.asked) c.after_backward(f.use, 0);
  }
};

namespace detail {
template <class Sum, class Constant>
inline constexpr bool goes_back<fused_step<Sum, Constant>> = goes_back<Constant>;
}  // namespace detail

}  // namespace heddle
