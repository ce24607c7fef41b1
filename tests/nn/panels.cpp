// SPDX-License-Identifier: Apache-2.0
// The loss with its logits in panels: the same numbers as with the logits whole, under any placement, and their memory.
#include <heddle/nn/cross_entropy.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/nn/norm.hpp>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace panels_test {
namespace {
constexpr initializer start = normal(1);
using head = product<dims<embed_dim>, dims<vocab_dim>, start>;
using biased_head = linear<embed_dim, vocab_dim, biased::yes, start>;
using inner = dim<mlp, 14>;
using loss = cross_entropy<vocab_dim>;

/// An op of a user's that takes columns, and is no loss: the sum of each row's.
struct row_sum : primitive {
  using parameters = parameter_list<>;
  static constexpr dimension_list reduced = dims<vocab_dim>::value;
  template <class Input>
  using output = tokens;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool takes_columns = true;
    static constexpr std::size_t columns = Place::template extent<vocab>;
    static constexpr std::size_t rows = Place::input_size / columns;
    static constexpr unsigned axes = Place::template axes_of<vocab>();
    template <class Context>
    static void forward(Context& c, frame<double> const& f, double const* x, double* y) {
      forward_by_columns(c, f, y, [&](auto take) { take(std::integral_constant<std::size_t, columns>{}, 0, x); });
    }
    template <class Context>
    static void backward(Context& c, frame<double> const& f, double const*, double const*, double const* dy,
                         double* dx) {
      backward_by_columns(c, f, dy, [&](auto to) { to(std::integral_constant<std::size_t, columns>{}, 0, dx); });
    }
    template <class Context, class Give>
    static void forward_by_columns(Context& c, frame<double> const&, double* y, Give give) {
      std::size_t const valid = Place::template block<vocab>(c.at()).valid;
      for (std::size_t r = 0; r < rows; ++r) y[r] = 0;
      give([&]<std::size_t Width>(std::integral_constant<std::size_t, Width>, std::size_t first, double const* panel) {
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t i = 0; i < Width && first + i < valid; ++i) y[r] += panel[r * Width + i];
      });
      c.sum_over(axes, std::span<double>(y, rows));
    }
    template <class Context, class Give>
    static void backward_by_columns(Context& c, frame<double> const&, double const* dy, Give give) {
      std::size_t const valid = Place::template block<vocab>(c.at()).valid;
      give([&]<std::size_t Width>(std::integral_constant<std::size_t, Width>, std::size_t first, double* panel) {
        for (std::size_t r = 0; r < rows; ++r)
          for (std::size_t i = 0; i < Width; ++i) panel[r * Width + i] = first + i < valid ? dy[r] : 0;
      });
    }
    static constexpr void count_forward(traffic_table& t, coordinates const& at) {
      count_reduction<double>(t, Place::mesh, at, axes, rows);
    }
  };
};

/// A bigram model: the logits of a token are a row of a table.
struct looked_up : primitive {
  using reads_tokens = void;
  using ids = dim<embed, 13>;
  using parameters = parameter_list<parameter<"table", dims<ids, vocab_dim>, start, true>>;
  template <class Input>
  using output = activations<vocab_dim>;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool gives_columns = true;
    static constexpr bool keeps_input = true;
    static constexpr std::size_t columns = Place::template extent<vocab>;
    static constexpr std::size_t rows = Place::output_size / columns;
    template <class Context>
    static void forward(Context& c, frame<double> const& f, std::int32_t const* x, double* y) {
      forward_columns<columns>(c, f, x, 0, false, y);
    }
    template <class Context>
    static void backward(Context& c, frame<double> const& f, std::int32_t const* x, double const*, double const* dy,
                         double* dx) {
      backward_columns<columns>(c, f, x, 0, dy, dx);
    }
    template <std::size_t Width, class Context>
    static void forward_columns(Context&, frame<double> const& f, std::int32_t const* x, std::size_t first, bool onto,
                                double* y) {
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < Width; ++i)
          y[r * Width + i] =
              (onto ? y[r * Width + i] : 0) + f.parameter[0][static_cast<std::size_t>(x[r]) * columns + first + i];
    }
    template <std::size_t Width, class Context>
    static void backward_columns(Context&, frame<double> const& f, std::int32_t const* x, std::size_t first,
                                 double const* dy, double*) {
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < Width; ++i)
          f.gradient[0][static_cast<std::size_t>(x[r]) * columns + first + i] += dy[r * Width + i];
    }
  };
};

/// y = 2x, by way of scratch. It gives columns, and may have them in place.
template <bool InPlace>
struct doubled : primitive {
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool gives_columns = true;
    static constexpr bool keeps_input = true;
    static constexpr bool in_place = InPlace;
    static constexpr std::size_t columns = Place::template extent<vocab>;
    static constexpr std::size_t rows = Place::input_size / columns;
    static constexpr std::size_t forward_scratch = Place::input_size;
    template <class Context>
    static void forward(Context& c, frame<double> const& f, double const* x, double* y) {
      forward_columns<columns>(c, f, x, 0, false, y);
    }
    template <class Context>
    static void backward(Context&, frame<double> const&, double const*, double const*, double const* dy, double* dx) {
      for (std::size_t i = 0; i < Place::input_size; ++i) dx[i] = 2 * dy[i];
    }
    template <std::size_t Width, class Context>
    static void forward_columns(Context&, frame<double> const& f, double const* x, std::size_t first, bool onto,
                                double* y) {
      for (std::size_t i = 0; i < Place::input_size; ++i) f.scratch[i] = 2 * x[i];
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < Width; ++i)
          y[r * Width + i] = (onto ? y[r * Width + i] : 0) + f.scratch[r * columns + first + i];
    }
    template <std::size_t Width, class Context>
    static void backward_columns(Context&, frame<double> const&, double const*, std::size_t first, double const* dy,
                                 double* dx) {
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < Width; ++i) dx[r * columns + first + i] += 2 * dy[r * Width + i];
    }
  };
};

/// How `sequential<…>` has its logits under panels of `Columns`: the width of a panel, 0 where they are whole.
template <class Module, std::size_t Columns, class Mesh = mesh<>, class Input = activations<embed_dim>,
          class Rules = megatron_rules>
constexpr std::size_t panel_of =
    placed<Module, module_plan<Mesh, Rules, double, padding<pad<vocab>>, tokens, host_backend, Columns>,
           Input>::logit_panel;

/// With panels of `Columns`: gradients by differences, and equal to the whole logits on one rank under each placement.
template <class Module, std::size_t Columns>
void check_panels() {
  using input = activations<embed_dim>;
  using two = mesh<axis<dp, 2>, axis<tp, 2>>;
  subject const& whole = subject_of<Module, input, mesh<>, megatron_rules, tokens>();
  subject const& one = subject_of<Module, input, mesh<>, megatron_rules, tokens, Columns>();
  check_gradients(one);
  check_same(whole, one, "one rank");
  check_same(whole, subject_of<Module, input, two, megatron_rules, tokens, Columns>(), "dp2 tp2");
  check_same(whole, subject_of<Module, input, two, megatron_sequence_rules, tokens, Columns>(),
             "dp2 tp2, sequence rule");
  // Two columns to each rank but the last, which has one real and one of padding.
  check_same(whole, subject_of<Module, input, mesh<axis<tp, 7>>, megatron_rules, tokens, 1>(), "tp7");
}
}  // namespace

TEST_CASE("panels that divide the columns, that do not, and of one column") {
  check_panels<sequential<head, loss>, 4>();
  check_panels<sequential<head, loss>, 6>();
  check_panels<sequential<head, loss>, 1>();
}
TEST_CASE("a head with a bias, and one that ends a chain of its own") {
  check_panels<sequential<named<"head", biased_head>, loss>, 5>();
  check_panels<sequential<sequential<rms_norm<embed_dim>, product<dims<embed_dim>, dims<inner>, start>,
                                     product<dims<inner>, dims<vocab_dim>, start>>,
                          loss>,
               5>();
}
TEST_CASE("where no product gives the columns, the logits stay whole: after a second bias, or a sum over ranks") {
  check_panels<sequential<biased_head, named<"second", bias<dims<vocab_dim>>>, loss>, 5>();
  using row_parallel = sequential<product<dims<inner>, dims<vocab_dim>, start>, bias<dims<vocab_dim>>, loss>;
  using two = mesh<axis<tp, 2>>;
  static_assert(panel_of<sequential<biased_head, named<"second", bias<dims<vocab_dim>>>, loss>, 5> == 0);
  static_assert(panel_of<row_parallel, 2, two, activations<inner>> == 0);
  static_assert(panel_of<row_parallel, 2, mesh<>, activations<inner>> == 2);
  check_same(subject_of<row_parallel, activations<inner>, mesh<>, megatron_rules, tokens>(),
             subject_of<row_parallel, activations<inner>, two, megatron_rules, tokens, 2>(), "tp2");
}
TEST_CASE("an op whose output is cut on the way, and which takes columns, takes them whole") {
  // Its rows' sums over the vocabulary are a value of the sequence, which the sequence rule splits.
  using row_sums = sequential<head, row_sum>;
  using two = mesh<axis<tp, 2>>;
  using input = activations<embed_dim>;
  static_assert(panel_of<row_sums, 3, two> == 3);
  static_assert(panel_of<row_sums, 3, two, input, megatron_sequence_rules> == 0);
  subject const& whole = subject_of<row_sums, input, mesh<>, megatron_rules, tokens>();
  check_same(whole, subject_of<row_sums, input, two, megatron_rules, tokens, 3>(), "tp2");
  check_same(whole, subject_of<row_sums, input, two, megatron_sequence_rules, tokens, 3>(), "tp2, sequence rule");
}
TEST_CASE("a table that tokens are looked up in gives columns, and has no input to send a gradient to") {
  using bigram = sequential<looked_up, loss>;
  subject const& whole = subject_of<bigram, tokens, mesh<>, megatron_rules, tokens>();
  subject const& parts = subject_of<bigram, tokens, mesh<>, megatron_rules, tokens, 4>();
  CHECK(whole.saved > parts.saved);
  check_gradients(parts);
  check_same(whole, parts, "one rank");
}
TEST_CASE("an op that uses scratch gives columns, at the end of a chain of its own too; there not in place") {
  check_panels<sequential<head, doubled<false>, loss>, 4>();
  check_panels<sequential<head, doubled<true>, loss>, 4>();
  check_panels<sequential<sequential<head, doubled<false>>, loss>, 4>();
  check_panels<sequential<sequential<head, doubled<true>>, loss>, 4>();
  static_assert(panel_of<sequential<sequential<head, doubled<false>>, loss>, 4> == 4);
  static_assert(panel_of<sequential<sequential<head, doubled<true>>, loss>, 4> == 0);
}
TEST_CASE("the logits do not stand whole, and stay whole where a panel holds them") {
  using input = activations<embed_dim>;
  auto const check = []<class Module>(std::type_identity<Module>) {
    subject const& whole = subject_of<Module, input, mesh<>, megatron_rules, tokens>();
    subject const& parts = subject_of<Module, input, mesh<>, megatron_rules, tokens, 2>();
    subject const& same = subject_of<Module, input, mesh<>, megatron_rules, tokens, 13>();
    constexpr std::size_t rows = batch_dim::size * sequence_dim::size;
    CHECK(whole.saved - parts.saved == slot<double>(rows * 13));
    // Whole, the logits' gradient stands in scratch; in panels of two they, and it, are a panel.
    CHECK(whole.backward_scratch >= slot<double>(rows * 13));
    CHECK(parts.backward_scratch < slot<double>(rows * 13));
    CHECK(same.saved == whole.saved);
    CHECK(same.backward_scratch == whole.backward_scratch);
  };
  check(std::type_identity<sequential<named<"norm", rms_norm<embed_dim>>, head, loss>>{});
  check(std::type_identity<sequential<named<"norm", rms_norm<embed_dim>>, named<"head", biased_head>, loss>>{});
}

}  // namespace panels_test
