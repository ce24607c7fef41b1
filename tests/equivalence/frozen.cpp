// SPDX-License-Identifier: Apache-2.0
// Models of which a part is frozen (nn/frozen.hpp), under plans that split everything: equal to one rank, to the model
// without `frozen` where something is trained, and to the start elsewhere.
#include <cstring>

#include "serial.hpp"

using namespace heddle;
using equivalence::row;

namespace {

using words = dim<vocab, 20>;
using positions = dim<sequence, 8>;
using width = dim<embed, 16>;
using hidden = dim<mlp, 24>;
using head_count = dim<heads, 4>;
using head_width = dim<head_dim, 4>;
using attend = causal_attention<positions, head_count, 1, head_width>;
using qkv_dims = dims<head_count, attend::qkv_dim, head_width>;
using of_heads = dims<head_count, attend::group_dim, head_width>;
using norm = layer_norm<width>;
using drop = dropout<probability{0.1}>;
constexpr initializer start = normal(0.2);

/// A module that was written without knowing of frozen parameters: it adds to its gradient whatever happens.
struct unaware : primitive {
  using parameters = parameter_list<parameter<"scale", dims<width>, ones, true>>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = true;
    static constexpr std::size_t columns = Place::template extent<embed>;
    template <class Context>
    static void forward(Context&, frame<T> const& f, T const* x, T* y) {
      for (std::size_t i = 0; i < Place::input_size; ++i) y[i] = x[i] * (1 + x[i]) * f.parameter[0][i % columns];
    }
    template <class Context>
    static void backward(Context&, frame<T> const& f, T const* x, T const*, T const* dy, T* dx) {
      for (std::size_t i = 0; i < Place::input_size; ++i) {
        f.gradient[0][i % columns] += dy[i] * x[i] * (1 + x[i]);
        dx[i] = dy[i] * f.parameter[0][i % columns] * (1 + 2 * x[i]);
      }
    }
  };
};

/// The module, or the frozen module.
template <bool Frozen, class Module>
using frozen_if = std::conditional_t<Frozen, frozen<Module>, Module>;

template <bool F>
using attention_branch =
    sequential<named<"ln_1", frozen_if<F, norm>>,
               named<"attn", sequential<named<"qkv", frozen_if<F, linear<width, qkv_dims, biased::yes, start>>>, attend,
                                        named<"proj", linear<of_heads, width, biased::yes, start>>>>,
               drop>;

// What is tuned: positions and an adapter. Frozen: the table, tied to the head, and all layers. The cotangent passes
// through the layers to the positions; a stage in the middle trains nothing.
template <bool F>
struct adapted {
  static constexpr std::size_t context = positions::size, vocabulary = words::size;
  using mlp_branch = sequential<named<"ln_2", norm>,
                                named<"mlp", sequential<named<"fc", linear<width, hidden, biased::yes, start>>, gelu,
                                                        named<"proj", linear<hidden, width, biased::yes, start>>>>>;
  using adapter =
      residual<sequential<named<"norm", rms_norm<width>>, named<"down", linear<width, hidden, biased::yes, start>>,
                          silu, named<"up", linear<hidden, width, biased::no, start>>>>;
  using module = sequential<
      named<"wte", frozen_if<F, embedding<words, width, start, "table">>>,
      named<"wpe", position_embedding<positions, width, start>>, drop,
      frozen_if<
          F, named<"h", repeat<dim<layers, 4>, sequential<residual<attention_branch<false>>, residual<mlp_branch>>>>>,
      named<"adapter", adapter>, named<"ln_f", frozen_if<F, norm>>,
      named<"lm_head", frozen_if<F, linear<width, words, biased::no, start, "table">>>, cross_entropy<words>>;
};

// Frozen parts within a layer: a fused product and its bias, a product whose bias is trained, a norm, a module that
// knows of none; and trained ends, tied, with what is frozen between.
template <bool F>
struct mixed {
  static constexpr std::size_t context = positions::size, vocabulary = words::size;
  using up = sequential<frozen_if<F, product<dims<width>, dims<hidden>, start>>, bias<dims<hidden>>>;
  using mlp_branch = sequential<named<"ln_2", frozen_if<F, rms_norm<width>>>, named<"unaware", frozen_if<F, unaware>>,
                                named<"up", up>, gelu, named<"down", linear<hidden, width, biased::no, start>>, drop>;
  using module =
      sequential<named<"wte", embedding<words, width, start, "table">>,
                 named<"wpe", frozen_if<F, position_embedding<positions, width, start>>>,
                 named<"h", repeat<dim<layers, 4>, sequential<residual<attention_branch<F>>, residual<mlp_branch>>>>,
                 named<"ln_f", norm>, named<"lm_head", linear<width, words, biased::no, start, "table">>,
                 cross_entropy<words>>;
};

// A head of its own, with a bias, frozen and alone behind the layers: it gives rows that it does not keep.
struct frozen_head {
  static constexpr std::size_t context = positions::size, vocabulary = words::size;
  using module = sequential<named<"wte", frozen<embedding<words, width, start>>>, drop,
                            named<"h", repeat<dim<layers, 4>, residual<attention_branch<true>>>>,
                            named<"lm_head", frozen<linear<width, words, biased::yes, start>>>, cross_entropy<words>>;
};

// Everything before the adapter is frozen: no backward reaches it. The last of it is a product, fused with
// the first that is trained, its bias.
template <bool F>
struct prefixed {
  static constexpr std::size_t context = positions::size, vocabulary = words::size;
  using module =
      sequential<named<"wte", frozen_if<F, embedding<words, width, start, "table">>>,
                 named<"wpe", frozen_if<F, position_embedding<positions, width, start>>>, drop,
                 frozen_if<F, named<"h", repeat<dim<layers, 4>, residual<attention_branch<false>>>>>,
                 named<"mid", frozen_if<F, product<dims<width>, dims<hidden>, start>>>,
                 named<"mid", bias<dims<hidden>>>, gelu, named<"back", linear<hidden, width, biased::yes, start>>,
                 named<"lm_head", frozen_if<F, linear<width, words, biased::no, start, "table">>>,
                 cross_entropy<words>>;
};

template <std::size_t Data, std::size_t Stages, std::size_t Tensor>
using three = mesh<axis<dp, Data>, axis<pp, Stages>, axis<tp, Tensor>>;
using small_bucket = bucket<1000>;
using small_chunk = logit_chunk<300>;
struct data_3 : row<three<2, 1, 1>, true, one_f_one_b, 2, zero<3>, small_bucket, small_chunk> {};
struct tensor : row<three<1, 1, 2>, true, one_f_one_b, 1, small_chunk> {};
struct stages : row<three<1, 4, 1>, true, one_f_one_b, 4> {};
struct all_2 : row<three<2, 2, 2>, true, one_f_one_b, 2, zero<2>, small_bucket, small_chunk> {};
struct all_3 : row<three<2, 2, 2>, true, gpipe, 2, zero<3>, small_bucket, reduce_gradients<per_step>> {};
struct plain_1 : row<three<2, 1, 2>, false, one_f_one_b, 2, zero<1>, small_chunk> {};

/// What one step on one rank leaves, by name: the start, the parameter, and the gradient of what is trained.
struct one_step {
  struct parameter {
    std::vector<double> before, after, gradient;
  };
  std::map<std::string, parameter> of;
  double norm = 0;
};
template <class Model>
one_step step_on_one_rank() {
  one_step found;
  using plan = equivalence::serial<2>;
  heddle::run<plan>(threads, [&](auto& rank) {
    using trainer_type = trainer<Model, plan>;
    trainer_type t(rank, equivalence::options<trainer_type>());
    for (std::size_t n = 0; n < t.parameter_count(); ++n) {
      auto const p = t.parameter(n);
      found.of[std::string(p.entry->name.view())].before.assign(p.value, p.value + p.entry->size);
    }
    std::vector<std::int32_t> tokens, targets;
    for (std::size_t i = 0; i < trainer_type::local_tokens; ++i) {
      tokens.push_back(equivalence::token(0, i / 8, i % 8, words::size));
      targets.push_back(equivalence::token(0, i / 8, i % 8 + 1, words::size));
    }
    found.norm = t.step(tokens, targets).gradient_norm;
    for (std::size_t n = 0; n < t.parameter_count(); ++n) {
      auto const p = t.parameter(n);
      auto& here = found.of[std::string(p.entry->name.view())];
      here.after.assign(p.value, p.value + p.entry->size);
      CHECK((p.gradient == nullptr) == !p.entry->trainable);
      if (p.gradient != nullptr) here.gradient.assign(p.gradient, p.gradient + p.entry->size);
    }
  });
  return found;
}

/// The law of `frozen`: gradients are those of the model without it, and what is frozen stays as it started.
template <template <bool> class Model>
void check_law() {
  one_step const whole = step_on_one_rank<Model<false>>(), part = step_on_one_rank<Model<true>>();
  REQUIRE(whole.of.size() == part.of.size());
  double squares = 0;
  std::size_t frozen_ones = 0;
  for (auto const& named_parameter : part.of) {
    auto const& p = named_parameter.second;
    CAPTURE(named_parameter.first);
    auto const& w = whole.of.at(named_parameter.first);
    CHECK(p.before == w.before);
    if (p.gradient.empty()) {
      ++frozen_ones;
      CHECK(p.after == p.before);  // bit by bit, though weight decay and AdamW would have changed it
      CHECK(w.after != w.before);
      continue;
    }
    CHECK(p.after != p.before);
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < w.gradient.size(); ++i) {
      largest = std::fmax(largest, std::fabs(w.gradient[i]));
      worst = std::fmax(worst, std::fabs(w.gradient[i] - p.gradient[i]));
      squares += w.gradient[i] * w.gradient[i];
    }
    CHECK(largest > 1e-6);
    CHECK(worst <= 1e-14 * largest);
  }
  CHECK(frozen_ones != 0);
  CHECK(frozen_ones != part.of.size());
  CHECK(std::fabs(part.norm - std::sqrt(squares)) <= 1e-12 * part.norm);
  CHECK(part.norm < whole.norm);
}

/// Frozen parts at rest stay bitwise what they were, on every rank.
template <class Model, class Plan>
void check_unchanged() {
  std::mutex one_at_a_time;
  heddle::run<Plan>(threads, [&](auto& rank) {
    using trainer_type = trainer<Model, Plan>;
    trainer_type t(rank, equivalence::options<trainer_type>());
    std::vector<std::vector<double>> before;
    for (std::size_t n = 0; n < t.parameter_count(); ++n) {
      auto const p = t.parameter(n);
      before.emplace_back(p.value, p.value + p.entry->size);
    }
    std::vector<double> loss, gradient_norm;
    equivalence::train(t, Model::vocabulary, loss, gradient_norm);
    std::lock_guard const lock(one_at_a_time);
    for (std::size_t n = 0; n < t.parameter_count(); ++n) {
      auto const p = t.parameter(n);
      CAPTURE(p.entry->name.view());
      bool const same = std::memcmp(p.value, before[n].data(), before[n].size() * sizeof(double)) == 0;
      CHECK(same == !p.entry->trainable);
    }
  });
}

/// An evaluation of a model of which everything is frozen gives the loss of the same model.
template <class Model, class Plan>
double evaluated() {
  double mean = 0;
  heddle::run<Plan>(threads, [&](auto& rank) {
    using trainer_type = trainer<Model, Plan>;
    trainer_type t(rank, equivalence::options<trainer_type>());
    std::vector<std::int32_t> tokens, targets;
    for (std::size_t i = 0; i < trainer_type::local_sequences; ++i)
      for (std::size_t k = 0; k < positions::size; ++k) {
        tokens.push_back(equivalence::token(0, t.global_sequence(i), k, words::size));
        targets.push_back(equivalence::token(0, t.global_sequence(i), k + 1, words::size));
      }
    double const here = t.evaluate(tokens, targets).mean();
    if (rank.rank() == 0) mean = here;
    CHECK(t.allocated() ==
          ledger<Model, Plan>::memory(stage_partition<resolved<Model, Plan, host_backend>>::stage_of(rank.at())));
  });
  return mean;
}
using whole_model = gpt2<gpt2_config{.vocabulary = 20, .context = 8, .layers = 4, .heads = 4, .width = 16}>;
using nothing_trained = with_frozen<whole_model, "wte", "wpe", "h", "ln_f", "lm_head">;

// Of the ledger: nothing but parameters, at rest and gathered, where nothing is trained.
using in_the_middle = stage_memory<resolved<adapted<true>, stages, host_backend>, stage_kind::middle>;
constexpr memory_table middle = in_the_middle::table(1, 1);
static_assert(middle.of(memory_category::parameters) > 0 && middle.of(memory_category::gradients) == 0 &&
              middle.of(memory_category::optimizer_state) == 0 && middle.of(memory_category::buckets) == 0);
// Four layers of which everything is frozen save less: not the normalised inputs, nor what enters the last product.
template <class Model>
constexpr std::size_t saved = stage_memory<resolved<Model, tensor, host_backend>, stage_kind::whole>::stage::saved;
static_assert(saved<adapted<true>> < saved<adapted<false>>);
// Where no backward reaches, nothing is saved, and backward computes nothing: here of everything but the end.
static_assert(stage_memory<resolved<prefixed<true>, stages, host_backend>, stage_kind::middle>::stage::saved == 0);
constexpr forward_flops of_end = flops_per_sequence<prefixed<true>>;
static_assert(training_flops(of_end) == of_end.layers.total() + 2 * positions::size * width::size * hidden::size +
                                            3 * 2 * positions::size * hidden::size * width::size +
                                            2 * 2 * positions::size * width::size * words::size);
// The logits of a frozen head are in chunks too.
template <class Model>
constexpr std::size_t logit_rows =
    stage_memory<resolved<Model, tensor, host_backend>, stage_kind::whole>::stage::logit_rows;
static_assert(logit_rows<adapted<true>> != 0 && logit_rows<frozen_head> != 0 && logit_rows<mixed<true>> != 0);
static_assert(logit_rows<frozen_head> < tensor::micro_batch_size * positions::size);
// A frozen product costs two products and not three.
constexpr flop_count layers_of = flops_per_sequence<adapted<true>>.layers;
static_assert(layers_of.spared == layers_of.products && layers_of.spared != 0);
static_assert(training_flops(flops_per_sequence<adapted<true>>) == training_flops(flops_per_sequence<adapted<false>>) -
                                                                       layers_of.products -
                                                                       2 * positions::size * width::size * words::size);
static_assert(ledger<adapted<true>, data_3>::parameters == ledger<adapted<false>, data_3>::parameters &&
              ledger<adapted<false>, data_3>::trained_parameters == ledger<adapted<false>, data_3>::parameters &&
              ledger<adapted<true>, data_3>::trained_parameters ==
                  positions::size * width::size + width::size + 2 * hidden::size * width::size + hidden::size);

}  // namespace

TEST_CASE("frozen layers, table and head: gradients of the rest, and values, on one rank") { check_law<adapted>(); }
TEST_CASE("frozen parts within layers: gradients of the rest, and values, on one rank") { check_law<mixed>(); }

TEST_CASE("all frozen but the end: gradients of the rest, and values, on one rank") { check_law<prefixed>(); }

TEST_CASE("all frozen but the end under data parallelism and ZeRO-3, and under everything") {
  equivalence::compare_with_serial<prefixed<true>, data_3>();
  check_unchanged<prefixed<true>, data_3>();
  equivalence::compare_with_serial<prefixed<true>, all_3>();
}
TEST_CASE("frozen layers under data parallelism and ZeRO-3") {
  equivalence::compare_with_serial<adapted<true>, data_3>();
  check_unchanged<adapted<true>, data_3>();
}
TEST_CASE("what is frozen as a whole can be evaluated, and takes the memory of parameters alone") {
  double const expected = evaluated<whole_model, equivalence::serial<4>>();
  CHECK(std::fabs(evaluated<nothing_trained, equivalence::serial<4>>() - expected) <= 1e-14 * expected);
  CHECK(std::fabs(evaluated<nothing_trained, all_3>() - expected) <= 1e-12 * expected);
  static_assert(ledger<nothing_trained, all_3>::memory(0).of(memory_category::gradients) == 0 &&
                ledger<nothing_trained, all_3>::memory(1).of(memory_category::optimizer_state) == 0);
}
TEST_CASE("frozen layers under tensor parallelism and the sequence rule") {
  equivalence::compare_with_serial<adapted<true>, tensor>();
}
TEST_CASE("frozen layers on four stages, of which two train nothing, with a frozen tie between the ends") {
  equivalence::compare_with_serial<adapted<true>, stages>();
}
TEST_CASE("frozen layers under everything and ZeRO-2") {
  equivalence::compare_with_serial<adapted<true>, all_2>();
  check_unchanged<adapted<true>, all_2>();
}
TEST_CASE("frozen parts within layers under data and tensor parallelism and ZeRO-1") {
  equivalence::compare_with_serial<mixed<true>, plain_1>();
}
TEST_CASE("frozen parts within layers under everything and ZeRO-3") {
  equivalence::compare_with_serial<mixed<true>, all_3>();
  check_unchanged<mixed<true>, all_3>();
}
TEST_CASE("a frozen head with a bias under tensor parallelism and the sequence rule") {
  equivalence::compare_with_serial<frozen_head, tensor>();
}
