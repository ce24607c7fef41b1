// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/bytes.hpp>
#include <heddle/optim/adamw.hpp>
#include <heddle/pipeline/one_f_one_b.hpp>
#include <heddle/plan/plan_error.hpp>
#include <heddle/plan/policies.hpp>
#include <heddle/plan/rest_layouts.hpp>
#include <heddle/plan/zero.hpp>
#include <type_traits>

namespace heddle {

/// Megatron's placement (arXiv 1909.08053, 2104.04473): heads, feed-forward width and vocabulary over tp, the batch
/// over dp_replicate and dp, layers over pp; and with the sequence rule (arXiv 2205.05198), the sequence over tp
/// wherever nothing has a stronger claim on it. Rules for axes that a mesh lacks do nothing.
using megatron_rules = rules<shard<heads, tp>, shard<mlp, tp>, shard<vocab, tp>, shard<batch, dp_replicate>,
                             shard<batch, dp>, shard<layers, pp>>;
using megatron_sequence_rules = rules<shard<heads, tp>, shard<mlp, tp>, shard<vocab, tp>, shard<batch, dp_replicate>,
                                      shard<batch, dp>, shard<layers, pp>, shard<sequence, tp>>;

namespace detail {

template <class Policy>
struct known_policy {
  static_assert(
      kind_of<Policy> != policy_kind::none,
      "plan<Policies...>: 'Policy' must be a policy (mesh, rules, sequence_parallel, micro_batch, global_batch, "
      "accumulate, pipeline, precision, optimizer, padding, zero, bucket, reduce_gradients, logit_chunk, fits); "
      "remove it or wrap it in one of these");
  static_assert(sizeof(Policy) > 0);  // a policy's own sentences, even where nothing reads its value
  static constexpr bool value = kind_of<Policy> != policy_kind::none;
};

template <policy_kind Kind, class... Policies>
inline constexpr std::size_t times_given = (std::size_t{0} + ... + (kind_of<Policies> == Kind ? 1 : 0));

template <class First, class Second>
struct repeated_policy {
  static_assert(kind_of<First> != kind_of<Second>,
                "plan<Policies...>: each policy must be given at most once; keep one of the two named here");
  static constexpr bool value = kind_of<First> == kind_of<Second>;
};

/// Instantiates the sentence only for a pair that repeats a kind.
template <class... Policies>
struct no_repetition {
  static constexpr bool value = true;
};
template <class First, class... Rest>
struct no_repetition<First, Rest...> {
  template <class Other>
  static constexpr bool differs() {
    if constexpr (kind_of<First> != policy_kind::none && kind_of<First> == kind_of<Other>)
      return !repeated_policy<First, Other>::value;
    else
      return true;
  }
  static constexpr bool value = (differs<Rest>() && ...) && no_repetition<Rest...>::value;
};

template <policy_kind Kind, class Default, class... Policies>
struct chosen {
  using type = Default;
};
template <policy_kind Kind, class Default, class First, class... Rest>
struct chosen<Kind, Default, First, Rest...> {
  using type = typename std::conditional_t<kind_of<First> == Kind, std::type_identity<First>,
                                           chosen<Kind, Default, Rest...>>::type;
};
template <policy_kind Kind, class Default, class... Policies>
using chosen_t = typename chosen<Kind, Default, Policies...>::type;

/// A rule that the user wrote for an axis that the mesh does not have would silently do nothing.
template <class Rule, class Mesh>
struct rule_on_mesh {
  static_assert(
      Mesh::template has<typename Rule::axis>,
      "plan<Policies...>: a rule must be for an axis of the mesh; add the axis named here to the mesh (size 1 "
      "will do) or remove the rule");
  static constexpr bool value = Mesh::template has<typename Rule::axis>;
};
template <class Rules, class Mesh>
struct rules_on_mesh;
template <class... Shards, class Mesh>
struct rules_on_mesh<rules<Shards...>, Mesh> {
  static constexpr bool value = (true && ... && rule_on_mesh<Shards, Mesh>::value);
};

constexpr std::size_t ways_for(mesh_value const& mesh, rule_list const& rules, name_id dim) {
  std::size_t ways = 1;
  for (std::size_t r = 0; r < rules.count; ++r) {
    std::size_t const a = mesh.index_of(rules.rule[r].axis);
    if (rules.rule[r].dim == dim && a != mesh.axes) ways *= mesh.axis[a].size;
  }
  return ways;
}

/// An axis that no rule uses would only repeat the same work.
template <class Axis, class Rules>
struct axis_in_rules {
  static constexpr bool value = [] {
    for (std::size_t r = 0; r < Rules::value.count; ++r)
      if (Rules::value.rule[r].axis == id_v<typename Axis::name>) return true;
    return Axis::size == 1;
  }();
  static_assert(
      value,
      "plan<Policies...>: each axis of the mesh must be used by a rule; write rules<...> with a shard<dimension, "
      "axis> for the axis named here, or remove it from the mesh");
};
template <class Mesh, class Rules>
struct axes_in_rules;
template <class... Axes, class Rules>
struct axes_in_rules<mesh<Axes...>, Rules> {
  static constexpr bool value = (true && ... && axis_in_rules<Axes, Rules>::value);
};

/// Whether some rule binds `layers` to an axis that the mesh has.
template <class Rules, class Mesh>
inline constexpr bool binds_layers = [] {
  for (std::size_t r = 0; r < Rules::value.count; ++r)
    if (Rules::value.rule[r].dim == id_v<layers> && Mesh::value.index_of(Rules::value.rule[r].axis) != Mesh::value.axes)
      return true;
  return false;
}();

/// The axes of the mesh that the rules bind to `batch`, as a bit set.
constexpr unsigned data_axes(mesh_value const& mesh, rule_list const& rules) {
  unsigned set = 0;
  for (std::size_t r = 0; r < rules.count; ++r) {
    std::size_t const a = mesh.index_of(rules.rule[r].axis);
    if (rules.rule[r].dim == id_v<batch> && a != mesh.axes) set |= 1U << a;
  }
  return set;
}

/// What is wrong with ZeRO on a mesh, or void.
template <class Zero, class Mesh, bool HasReplicas>
using zero_fault = std::conditional_t<HasReplicas, void,
                                      plan_error<Zero, must_have_a_data_axis_to_split_over_in<Mesh>,
                                                 add_an_axis_that_splits_the_batch, or_leave_zero_out>>;

/// The axes that ZeRO splits over. An axis that does not split the batch has no replicas to share the state.
template <class Zero, class Mesh, class Rules>
struct zero_axes;
template <std::size_t Stage, class Axis, class Mesh, class Rules>
struct zero_axis {
  static constexpr std::size_t index = Mesh::value.index_of(id_v<Axis>);
  static constexpr bool value = index != Mesh::value.axes && (data_axes(Mesh::value, Rules::value) >> index & 1U) != 0;
  static_assert(
      value,
      "zero<Stage, Axes...>: each axis must be a data axis of the mesh; bind batch to the axis named here with "
      "shard<batch, axis>, or name another");
};
template <std::size_t Stage, class... Axes, class Mesh, class Rules>
struct zero_axes<zero<Stage, Axes...>, Mesh, Rules> {
  static constexpr unsigned all = data_axes(Mesh::value, Rules::value);
  static_assert(without_fault<zero_fault<zero<Stage, Axes...>, Mesh, Stage == 0 || all != 0>>::value);
  static_assert((true && ... && zero_axis<Stage, Axes, Mesh, Rules>::value));
  static constexpr unsigned value = sizeof...(Axes) == 0 ? all : (0U | ... | (1U << Mesh::value.index_of(id_v<Axes>)));
};
/// When gradients are reduced if the plan does not say.
template <class Zero, class Mesh, class Rules>
using default_reduction = reduce_gradients<
    (Zero::stage >= 2 && Mesh::value.size_along(zero_axes<Zero, Mesh, Rules>::value) > 1) ? per_micro_batch : per_step>;
template <class Zero, class Mesh, class Rules>
using rest_of_zero =
    std::conditional_t<Zero::stage == 0, rest_as_computed, zero_rest<Zero::stage, zero_axes<Zero, Mesh, Rules>::value>>;

struct no_limit {
  static constexpr std::size_t value = 0;
};

/// What is wrong with a global batch, or void.
template <std::size_t GlobalBatch, std::size_t DataRanks, std::size_t MicroBatches>
using batch_fault =
    std::conditional_t<GlobalBatch % (DataRanks * MicroBatches) == 0, void,
                       plan_error<global_batch<GlobalBatch>, must_be_a_multiple_of<DataRanks * MicroBatches>,
                                  nearest_sizes<GlobalBatch, DataRanks * MicroBatches>,
                                  data_ranks_times_micro_batches<DataRanks, MicroBatches>>>;

}  // namespace detail

/// How a model is trained, as a type: policies in any order, each at most once; what is left out has the default that
/// its declaration states, and the mesh defaults to one rank. Derive a named type from it, `struct mine : plan<…> {};`,
/// so that messages and symbols stay short.
template <class... Policies>
struct plan {
  static_assert((true && ... && detail::known_policy<Policies>::value) && detail::no_repetition<Policies...>::value);

  using mesh = detail::chosen_t<policy_kind::mesh, heddle::mesh<>, Policies...>;
  static constexpr bool gives_rules = detail::times_given<policy_kind::rules, Policies...> > 0;
  static constexpr bool gives_sequence = detail::times_given<policy_kind::sequence_parallel, Policies...> > 0;
  static_assert(
      !(gives_rules && gives_sequence),
      "plan<Policies...>: 'rules' and 'sequence_parallel' contradict each other; with rules<...>, say it by adding "
      "or leaving out shard<sequence, tp>");
  using sequence_choice = detail::chosen_t<policy_kind::sequence_parallel, sequence_parallel<true>, Policies...>;
  using rules = detail::chosen_t<policy_kind::rules,
                                 std::conditional_t<sequence_choice::value, megatron_sequence_rules, megatron_rules>,
                                 Policies...>;
  static_assert(std::conditional_t<gives_rules, detail::rules_on_mesh<rules, mesh>, std::true_type>::value);

  static_assert(detail::axes_in_rules<mesh, rules>::value);

  static constexpr std::size_t micro_batches =
      detail::chosen_t<policy_kind::accumulate, accumulate<1>, Policies...>::value;
  using schedule =
      typename detail::chosen_t<policy_kind::pipeline, heddle::pipeline<one_f_one_b>, Policies...>::schedule;
  static constexpr bool gives_pipeline = detail::times_given<policy_kind::pipeline, Policies...> > 0;
  static_assert(
      !gives_pipeline || detail::binds_layers<rules, mesh>,
      "plan<Policies...>: 'pipeline' and the mesh contradict each other: no rule binds 'layers' to an axis of the "
      "mesh; add axis<pp, N> to the mesh, or remove the pipeline policy");
  static constexpr precision_policy precision_value =
      detail::chosen_t<policy_kind::precision, precision<fp32>, Policies...>::value;
  /// The format of gradients that are kept: a sum over micro-batches is one of many.
  static constexpr dtype gradient_format = micro_batches > 1 ? precision_value.accumulation : precision_value.gradient;
  using optimizer_type = typename detail::chosen_t<policy_kind::optimizer, optimizer<adamw>, Policies...>::type;
  using zero_choice = detail::chosen_t<policy_kind::zero, zero<0>, Policies...>;
  /// Rest layouts of parameters, gradients and optimizer state; a derived plan may declare its own.
  using rest_policy = detail::rest_of_zero<zero_choice, mesh, rules>;
  static constexpr gradient_reduction reduction =
      detail::chosen_t<policy_kind::reduce_gradients, detail::default_reduction<zero_choice, mesh, rules>,
                       Policies...>::value;
  static constexpr bool gives_reduction = detail::times_given<policy_kind::reduce_gradients, Policies...> > 0;
  static constexpr bool gives_bucket = detail::times_given<policy_kind::bucket, Policies...> > 0;
  /// The most bytes of a gradient bucket.
  static constexpr std::size_t bucket_bytes =
      detail::chosen_t<policy_kind::bucket, bucket<25 * MiB>, Policies...>::value;
  /// The most bytes of the logits at a time.
  static constexpr std::size_t logit_bytes =
      detail::chosen_t<policy_kind::logit_chunk, logit_chunk<64 * MiB>, Policies...>::value;
  /// The most bytes that a rank may need; 0 for no bound.
  static constexpr std::size_t memory_limit = detail::chosen_t<policy_kind::fits, detail::no_limit, Policies...>::value;
  using pads = detail::chosen_t<policy_kind::padding, padding<pad<vocab>>, Policies...>;

  static constexpr bool gives_micro_batch = detail::times_given<policy_kind::micro_batch, Policies...> > 0;
  static constexpr bool gives_global_batch = detail::times_given<policy_kind::global_batch, Policies...> > 0;
  static_assert(
      !(gives_micro_batch && gives_global_batch),
      "plan<Policies...>: 'micro_batch' and 'global_batch' contradict each other; give one, the other follows");
  /// Ranks that share the batch.
  static constexpr std::size_t data_ways = detail::ways_for(mesh::value, rules::value, id_v<batch>);
  static constexpr std::size_t given_global_batch =
      detail::chosen_t<policy_kind::global_batch, global_batch<1>, Policies...>::value;
  static_assert(
      std::conditional_t<gives_global_batch,
                         detail::without_fault<detail::batch_fault<given_global_batch, data_ways, micro_batches>>,
                         std::true_type>::value);
  /// Sequences per micro-batch and data rank, given or derived from the global batch.
  static constexpr std::size_t micro_batch_size =
      gives_global_batch ? given_global_batch / (data_ways * micro_batches)
                         : detail::chosen_t<policy_kind::micro_batch, micro_batch<1>, Policies...>::value;
  /// Sequences per step.
  static constexpr std::size_t global_batch_size = micro_batch_size * data_ways * micro_batches;
};

namespace detail {
template <class... Policies>
std::true_type derives_from_plan(plan<Policies...> const*);
std::false_type derives_from_plan(void const*);
}  // namespace detail

/// A plan: a type derived from `plan<Policies...>`.
template <class P>
concept Plan = decltype(detail::derives_from_plan(static_cast<P const*>(nullptr)))::value;

}  // namespace heddle
