// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/op.hpp>
#include <type_traits>

namespace heddle {

/// The product to the vocabulary and its loss as one, so that the logits never stand whole: a panel of
/// `Plan::panel_columns` of them is computed, reduced to one sum a row, and overwritten by the next; backward computes
/// each again, turns it into its gradient, and adds that to the gradients of weight and input. Where [tokens,
/// vocabulary] would stand twice, [tokens, panel] stands once, and the product is done four times instead of three.
///
/// A model of what `placed` is. `Source` gives columns, `Loss` takes them.
template <class Source, class Loss>
struct panelled_step {
  using element = typename Source::element;
  using input = typename Source::input;
  using output = typename Loss::output;
  using of_loss = typename Loss::kernel;
  static constexpr layout input_layout = Source::input_layout;
  static constexpr layout output_layout = Loss::output_layout;
  static constexpr auto uses = Source::uses;
  static constexpr auto units = Source::units;

  static constexpr std::size_t width = Loss::panel_columns;
  static constexpr std::size_t whole_panels = of_loss::columns / width;
  static constexpr std::size_t rest = of_loss::columns % width;
  static constexpr std::size_t logit_panel = width;
  static constexpr std::size_t panel = slot<element>(of_loss::rows * width);

  static constexpr bool needs_input = Source::needs_input;
  static constexpr bool needs_output = false;
  static constexpr bool in_place = false;
  static constexpr bool identity_cotangent = false;
  static constexpr std::size_t sites = Source::sites + Loss::sites;
  static constexpr std::size_t saved = Source::saved + Loss::saved;
  static constexpr std::size_t forward_scratch =
      Source::forward_scratch + panel + slot<element>(of_loss::columns_forward_scratch);
  static constexpr std::size_t backward_scratch =
      Source::backward_scratch + panel + slot<element>(of_loss::backward_scratch);

  template <class Context, class X>
  static void forward(Context& c, frame<element> const& f, X const* x, element* y) {
    element* const logits = f.scratch + Source::forward_scratch;
    Source::forward_columns(c, f, x, [&](auto get) {
      of_loss::forward_by_columns(c, frame_of_loss(f, logits + panel), y, [&](auto take) {
        for_each_panel([&](auto w, std::size_t first) {
          get(w, first, logits);
          take(w, first, logits);
        });
      });
    });
  }
  template <class Context, class X>
  static void backward(Context& c, frame<element> const& f, X const* x, element const*, element const* dy,
                       element* dx) {
    element* const logits = f.scratch + Source::backward_scratch;
    Source::backward_columns(c, f, x, dx, [&](auto get, auto put) {
      of_loss::backward_by_columns(c, frame_of_loss(f, logits + panel), dy, [&](auto to_gradient) {
        for_each_panel([&](auto w, std::size_t first) {
          get(w, first, logits);
          to_gradient(w, first, logits);
          put(w, first, logits);
        });
      });
    });
  }

  static constexpr void count_forward(traffic_table& t, coordinates const& at) {
    Source::count_forward(t, at);
    Loss::count_forward(t, at);
  }
  static constexpr void count_backward(traffic_table& t, coordinates const& at) {
    Loss::count_backward(t, at);
    Source::count_backward(t, at);
  }

 private:
  static frame<element> frame_of_loss(frame<element> f, element* scratch) {
    f.parameter += uses.size();
    f.gradient += uses.size();
    f.use += uses.size();
    f.saved += Source::saved;
    f.scratch = scratch;
    f.site += Source::sites;
    return f;
  }
  template <class F>
  static void for_each_panel(F f) {
    for (std::size_t p = 0; p < whole_panels; ++p) f(std::integral_constant<std::size_t, width>{}, p * width);
    if constexpr (rest != 0) f(std::integral_constant<std::size_t, rest>{}, whole_panels * width);
  }
};

}  // namespace heddle
