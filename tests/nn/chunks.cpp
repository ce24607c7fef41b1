// SPDX-License-Identifier: Apache-2.0
// The loss with its logits in chunks of tokens: the same numbers as with the logits whole, under any placement, and
// their memory.
#include <heddle/nn/cross_entropy.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/nn/norm.hpp>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace chunks_test {
namespace {
constexpr initializer start = normal(1);
using head = product<dims<embed_dim>, dims<vocab_dim>, start>;
using biased_head = linear<embed_dim, vocab_dim, biased::yes, start>;
using inner = dim<mlp, 14>;
using loss = cross_entropy<vocab_dim>;

/// A bigram model: the logits of a token are a row of a table.
struct looked_up : primitive {
  using reads_tokens = void;
  using ids = dim<embed, 13>;
  using parameters = parameter_list<parameter<"table", dims<ids, vocab_dim>, start, true>>;
  template <class Input>
  using output = activations<vocab_dim>;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool keeps_input = true;
    static constexpr std::size_t columns = Place::template extent<vocab>;
    static constexpr std::size_t rows = Place::output_size / columns;
    static constexpr std::size_t independent_rows = rows;
    template <class Context>
    static void forward(Context&, frame<double> const& f, std::int32_t const* x, double* y) {
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < columns; ++i)
          y[r * columns + i] = f.parameter[0][static_cast<std::size_t>(x[r]) * columns + i];
    }
    template <class Context>
    static void backward(Context&, frame<double> const& f, std::int32_t const* x, double const*, double const* dy,
                         double*) {
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < columns; ++i)
          f.gradient[0][static_cast<std::size_t>(x[r]) * columns + i] += dy[r * columns + i];
    }
  };
};

/// What of an op stands in the way of giving rows in backward.
enum class obstacle { none, in_place, no_input, reads_output, random, sum };

/// y = x + noise of the row's place: a constant that only the whole can give.
struct noise : primitive {
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool in_place = true;
    static constexpr bool identity_cotangent = true;
    static constexpr bool adds_constant = true;
    static constexpr std::size_t sites = 1;
    static constexpr std::size_t independent_rows = Place::input_size / Place::template extent<vocab>;
    template <class Context>
    static void forward(Context& c, frame<double> const& f, double const* x, double* y) {
      constant_onto(c, f, x, y);
    }
    template <class Context>
    static void constant_onto(Context& c, frame<double> const&, double const* base, double* y) {
      auto const map = c.index_map(Place::in, Place::input_layout);
      for_each_run(map, [&](std::size_t begin, std::size_t count, std::uint64_t global) {
        for (std::size_t i = 0; i < count; ++i)
          y[begin + i] = (base != nullptr ? base[begin + i] : 0) + static_cast<double>((global + i) % 7);
      });
    }
    template <class Context>
    static void backward(Context&, frame<double> const&, double const*, double const*, double const* dy, double* dx) {
      for (std::size_t i = 0; i < Place::input_size; ++i) dx[i] = dy[i];
    }
  };
};

/// y = 2x, by way of scratch, row by row.
template <obstacle Obstacle = obstacle::none>
struct doubled : primitive {
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool keeps_input = Obstacle != obstacle::no_input;
    static constexpr bool keeps_output = Obstacle == obstacle::reads_output;
    static constexpr bool in_place = Obstacle == obstacle::in_place;
    static constexpr std::size_t sites = Obstacle == obstacle::random ? 1 : 0;
    static constexpr std::size_t independent_rows = Place::input_size / Place::template extent<vocab>;
    static constexpr unsigned axes = Place::template axes_of<vocab>();
    static constexpr std::size_t forward_scratch = Place::input_size;
    template <class Context>
    static void forward(Context& c, frame<double> const& f, double const* x, double* y) {
      if constexpr (Obstacle == obstacle::sum) {
        double nothing = 0;
        c.sum_over(axes, std::span<double>(&nothing, 1));
      }
      for (std::size_t i = 0; i < Place::input_size; ++i) f.scratch[i] = 2 * x[i];
      for (std::size_t i = 0; i < Place::input_size; ++i) y[i] = f.scratch[i];
    }
    template <class Context>
    static void backward(Context&, frame<double> const&, double const*, double const*, double const* dy, double* dx) {
      for (std::size_t i = 0; i < Place::input_size; ++i) dx[i] = 2 * dy[i];
    }
    static constexpr void count_forward(traffic_table& t, coordinates const& at) {
      if (Obstacle == obstacle::sum) count_reduction<double>(t, Place::mesh, at, axes, 1);
    }
  };
};

/// A loss of a user's: the sum of squares, with a term for each row that its target has chosen.
struct squares : primitive {
  using is_loss = void;
  using parameters = parameter_list<>;
  static constexpr dimension_list reduced = dims<vocab_dim>::value;
  template <class Input>
  using output = dims<>;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool keeps_input = true;
    static constexpr std::size_t columns = Place::template extent<vocab>;
    static constexpr std::size_t rows = Place::input_size / columns;
    static constexpr std::size_t independent_rows = rows;
    static constexpr unsigned axes = Place::template axes_of<vocab>();
    static constexpr std::size_t forward_scratch = rows + target_slots<Place, rows>;
    static constexpr std::size_t backward_scratch = target_slots<Place, rows>;
    static double weight(std::int32_t target) { return 1 + 0.25 * static_cast<double>(target); }
    template <class Context>
    static void forward(Context& c, frame<double> const& f, double const* x, double* y) {
      std::int32_t const* const targets = local_targets<Place, rows>(c, f.scratch + rows);
      std::size_t const valid = Place::template block<vocab>(c.at()).valid;
      for (std::size_t r = 0; r < rows; ++r) {
        f.scratch[r] = 0;
        for (std::size_t i = 0; i < valid; ++i) f.scratch[r] += x[r * columns + i] * x[r * columns + i];
      }
      c.sum_over(axes, std::span<double>(f.scratch, rows));
      *y = 0;
      for (std::size_t r = 0; r < rows; ++r) *y += weight(targets[r]) * f.scratch[r];
    }
    template <class Context>
    static void backward(Context& c, frame<double> const& f, double const* x, double const*, double const* dy,
                         double* dx) {
      std::int32_t const* const targets = local_targets<Place, rows>(c, f.scratch);
      std::size_t const valid = Place::template block<vocab>(c.at()).valid;
      // Not in place: dx is zero before x is read.
      for (std::size_t i = 0; i < rows * columns; ++i) dx[i] = 0;
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < valid; ++i)
          dx[r * columns + i] += 2 * *dy * weight(targets[r]) * x[r * columns + i];
    }
    static constexpr void count_forward(traffic_table& t, coordinates const& at) {
      count_redistribution<std::int32_t>(t, Place::mesh, at, Place::token_path);
      count_reduction<double>(t, Place::mesh, at, axes, rows);
    }
    static constexpr void count_backward(traffic_table& t, coordinates const& at) {
      count_redistribution<std::int32_t>(t, Place::mesh, at, Place::token_path);
    }
  };
};

/// A loss of a classifier of sequences: its rows are sequences, and each reads the targets of all its tokens.
struct sequence_loss : primitive {
  using is_loss = void;
  using parameters = parameter_list<>;
  template <class Input>
  using output = dims<>;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool keeps_input = true;
    static constexpr std::size_t columns = vocab_dim::size;
    static constexpr std::size_t rows = Place::input_size / columns;
    static constexpr std::size_t independent_rows = rows;
    static double weight(std::int32_t const* targets, std::size_t row) {
      double sum = 0;
      for (std::size_t t = 0; t < sequence_dim::size; ++t) sum += targets[row * sequence_dim::size + t] % 3;
      return sum;
    }
    template <class Context>
    static void forward(Context& c, frame<double> const&, double const* x, double* y) {
      *y = 0;
      for (std::size_t i = 0; i < Place::input_size; ++i) *y += weight(c.targets(), i / columns) * x[i] * x[i];
    }
    template <class Context>
    static void backward(Context& c, frame<double> const&, double const* x, double const*, double const* dy,
                         double* dx) {
      for (std::size_t i = 0; i < Place::input_size; ++i) dx[i] = 2 * *dy * weight(c.targets(), i / columns) * x[i];
    }
  };
};
/// A function of a loss, which reads it in forward.
struct squared : primitive {
  using is_loss = void;
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool keeps_input = true;
    template <class Context>
    static void forward(Context&, frame<double> const&, double const* x, double* y) {
      *y = *x * *x;
    }
    template <class Context>
    static void backward(Context&, frame<double> const&, double const* x, double const*, double const* dy, double* dx) {
      *dx = 2 * *x * *dy;
    }
  };
};

/// How many rows of logits `sequential<…>` has at a time, of at most `Bytes`; 0 where they are whole.
template <class Module, std::size_t Bytes, class Mesh = mesh<>, class Input = activations<embed_dim>,
          class Rules = megatron_rules>
constexpr std::size_t rows_of =
    placed<Module, module_plan<Mesh, Rules, double, padding<pad<vocab>>, tokens, host_backend, Bytes>,
           Input>::logit_rows;

/// In chunks of at most `Bytes`: gradients by differences, and equal to the whole logits on one rank, there and under
/// dp2 tp2 with the sequence rule.
template <class Module, std::size_t Bytes>
void check_chunks() {
  using input = activations<embed_dim>;
  using two = mesh<axis<dp, 2>, axis<tp, 2>>;
  subject const& whole = subject_of<Module, input, mesh<>, megatron_rules, tokens>();
  subject const& one = subject_of<Module, input, mesh<>, megatron_rules, tokens, Bytes>();
  check_gradients(one);
  check_same(whole, one, "one rank");
  check_same(whole, subject_of<Module, input, two, megatron_sequence_rules, tokens, Bytes>(), "dp2 tp2, sequence rule");
}
/// Under other placements, too.
template <class Module, std::size_t Bytes>
void check_placements() {
  using input = activations<embed_dim>;
  using two = mesh<axis<dp, 2>, axis<tp, 2>>;
  subject const& whole = subject_of<Module, input, mesh<>, megatron_rules, tokens>();
  check_same(whole, subject_of<Module, input, two, megatron_rules, tokens, Bytes>(), "dp2 tp2");
  // Two columns to each rank but the last, which has one real and one of padding.
  check_same(whole, subject_of<Module, input, mesh<axis<tp, 7>>, megatron_rules, tokens, Bytes / 8>(), "tp7");
  // The loss reads a slice of the sequence, and more of the batch than the rank was given: its targets are fetched.
  check_same(whole,
             subject_of<Module, input, two, rules<shard<vocab, dp>, shard<batch, dp>, shard<sequence, tp>>, tokens,
                        Bytes / 4>(),
             "the vocabulary takes dp from the batch, the sequence over tp");
}

constexpr std::size_t row = vocab_dim::size * sizeof(double), all_rows = batch_dim::size * sequence_dim::size;
}  // namespace

TEST_CASE("chunks are alike where that takes less than twice as many, and have a row at least") {
  using detail::rows_of_chunk;
  static_assert(rows_of_chunk(1024, 100, 0) == 0 && rows_of_chunk(1024, 100, 102400) == 1024);
  static_assert(rows_of_chunk(1024, 100, 102399) == 512);
  static_assert(rows_of_chunk(1024, 100, 33300) == 256);  // 333 would do, and leave 25
  static_assert(rows_of_chunk(1024, 100, 1) == 1);
  static_assert(rows_of_chunk(1021, 100, 51100) == 511);  // a prime: 511 and 510
  static_assert(rows_of_chunk(16, 104, 5 * 104) == 4);
  static_assert(rows_of_chunk(1000003, 400, 800) == 2);  // not tried for ever
  static_assert(rows_of_chunk(7, 104, 3 * 104) == 3);    // 3, 3 and 1
}
TEST_CASE("chunks that divide the rows, that do not, and of one row") {
  static_assert(rows_of<sequential<head, loss>, 5 * row> == 4);
  check_chunks<sequential<head, loss>, 5 * row>();
  check_placements<sequential<head, loss>, 5 * row>();
  check_chunks<sequential<head, loss>, row>();
  using seven = dims<dim<batch, 2>, dim<sequence, 7>>;
  using input = dims<dim<batch, 2>, dim<sequence, 7>, embed_dim>;
  using head_and_loss = sequential<head, loss>;
  static_assert(placed<head_and_loss,
                       module_plan<mesh<>, megatron_rules, double, padding<pad<vocab>>, seven, host_backend, 5 * row>,
                       input>::logit_rows == 5);
  subject const& one = subject_of<head_and_loss, input, mesh<>, megatron_rules, seven, 5 * row>();
  check_gradients(one);
  check_same(subject_of<head_and_loss, input, mesh<>, megatron_rules, seven>(), one, "5, 5 and 4");
}
TEST_CASE("a head with a bias, and one that ends a chain of its own") {
  check_chunks<sequential<named<"head", biased_head>, loss>, 5 * row>();
  check_chunks<sequential<sequential<rms_norm<embed_dim>, product<dims<embed_dim>, dims<inner>, start>,
                                     product<dims<inner>, dims<vocab_dim>, start>>,
                          loss>,
               3 * row>();
}
TEST_CASE("a loss of one's own") {
  check_chunks<sequential<biased_head, squares>, 5 * row>();
  check_placements<sequential<biased_head, squares>, 5 * row>();
}
TEST_CASE("a loss whose rows are not tokens, or that is read before backward, has its logits whole") {
  using classifier = sequential<product<dims<sequence_dim, embed_dim>, dims<vocab_dim>, start>, sequence_loss>;
  static_assert(rows_of<classifier, row> == 0);
  check_gradients(subject_of<classifier, activations<embed_dim>, mesh<>, megatron_rules, tokens, row>());
  using read_again = sequential<head, loss, squared>;
  static_assert(rows_of<read_again, row> == 0);
  subject const& chunked = subject_of<read_again, activations<embed_dim>, mesh<>, megatron_rules, tokens, row>();
  check_gradients(chunked);
  check_same(subject_of<read_again, activations<embed_dim>, mesh<>, megatron_rules, tokens>(), chunked, "one rank");
}
TEST_CASE("where nothing gives rows, the logits stay whole: after a second bias, or a sum over ranks") {
  check_chunks<sequential<biased_head, named<"second", bias<dims<vocab_dim>>>, loss>, 5 * row>();
  using row_parallel = sequential<product<dims<inner>, dims<vocab_dim>, start>, bias<dims<vocab_dim>>, loss>;
  using two = mesh<axis<tp, 2>>;
  static_assert(rows_of<sequential<biased_head, named<"second", bias<dims<vocab_dim>>>, loss>, row> == 0);
  static_assert(rows_of<row_parallel, row, two, activations<inner>> == 0);
  static_assert(rows_of<row_parallel, row, mesh<>, activations<inner>> == 1);
  check_same(subject_of<row_parallel, activations<inner>, mesh<>, megatron_rules, tokens>(),
             subject_of<row_parallel, activations<inner>, two, megatron_rules, tokens, row>(), "tp2");
}
TEST_CASE("a table that tokens are looked up in gives rows, and has no input to send a gradient to") {
  using bigram = sequential<looked_up, loss>;
  subject const& whole = subject_of<bigram, tokens, mesh<>, megatron_rules, tokens>();
  subject const& parts = subject_of<bigram, tokens, mesh<>, megatron_rules, tokens, 4 * row>();
  CHECK(whole.saved > parts.saved);
  check_gradients(parts);
  check_same(whole, parts, "one rank");
}
TEST_CASE("an op that uses scratch gives rows, at the end of a chain of its own too; there not in place") {
  using in_place = doubled<obstacle::in_place>;
  check_chunks<sequential<head, doubled<>, loss>, 4 * row>();
  check_chunks<sequential<head, in_place, loss>, 4 * row>();
  check_chunks<sequential<sequential<head, doubled<>>, loss>, 4 * row>();
  check_chunks<sequential<sequential<head, in_place>, loss>, 4 * row>();
  static_assert(rows_of<sequential<sequential<head, doubled<>>, loss>, 4 * row> == 4);
  static_assert(rows_of<sequential<sequential<head, in_place>, loss>, 4 * row> == 0);
}
TEST_CASE("an op that keeps no input, reads its output, draws random numbers or moves something gives no rows") {
  using two = mesh<axis<tp, 2>>;
  static_assert(rows_of<sequential<head, doubled<obstacle::no_input>, loss>, row> == 0);
  static_assert(rows_of<sequential<head, doubled<obstacle::reads_output>, loss>, row> == 0);
  static_assert(rows_of<sequential<head, doubled<obstacle::random>, loss>, row> == 0);
  static_assert(rows_of<sequential<head, doubled<obstacle::sum>, loss>, row, two> == 0);
  check_chunks<sequential<head, doubled<obstacle::no_input>, loss>, 4 * row>();
  check_chunks<sequential<head, doubled<obstacle::sum>, loss>, 4 * row>();
  static_assert(rows_of<sequential<head, noise, loss>, row> == 0);
}
TEST_CASE("the logits do not stand whole, and but once where a chunk holds all") {
  using input = activations<embed_dim>;
  auto const check = []<class Module>(std::type_identity<Module>) {
    subject const& whole = subject_of<Module, input, mesh<>, megatron_rules, tokens>();
    subject const& parts = subject_of<Module, input, mesh<>, megatron_rules, tokens, 2 * row>();
    subject const& one = subject_of<Module, input, mesh<>, megatron_rules, tokens, all_rows * row>();
    // Nothing is saved but the head's input: no logits, and no sum for each row.
    CHECK(whole.saved - parts.saved == slot<double>(all_rows * 13) + slot<double>(all_rows));
    // Whole, the logits' gradient stands in scratch; in chunks of two rows they, and it, are a chunk.
    CHECK(whole.backward_scratch >= slot<double>(all_rows * 13));
    CHECK(parts.backward_scratch < slot<double>(all_rows * 13));
    CHECK(one.saved == parts.saved);
    CHECK(one.backward_scratch >= slot<double>(all_rows * 13));
    CHECK(one.backward_scratch < 2 * slot<double>(all_rows * 13));
    check_same(whole, one, "one chunk");
  };
  check(std::type_identity<sequential<named<"norm", rms_norm<embed_dim>>, head, loss>>{});
  check(std::type_identity<sequential<named<"norm", rms_norm<embed_dim>>, named<"head", biased_head>, loss>>{});
}

}  // namespace chunks_test
