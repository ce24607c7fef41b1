// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/mesh.hpp>
#include <heddle/layout/names.hpp>
#include <heddle/layout/rules.hpp>
#include <heddle/optim/optimizer_concepts.hpp>
#include <heddle/pipeline/schedule_concepts.hpp>
#include <heddle/precision/precision.hpp>
#include <heddle/precision/precision_rules.hpp>
#include <initializer_list>

namespace heddle {

namespace detail {
constexpr bool all_differ(std::initializer_list<name_id> names) {
  for (name_id const* i = names.begin(); i != names.end(); ++i)
    for (name_id const* j = names.begin(); j != i; ++j)
      if (*i == *j) return false;
  return true;
}
}  // namespace detail

/// The policies a plan can be made of, beside `mesh<…>` and `rules<…>`. Each has a kind; a plan takes at most one of
/// each.
enum class policy_kind : unsigned char {
  none,  ///< not a policy
  mesh,
  rules,
  sequence_parallel,
  micro_batch,
  global_batch,
  accumulate,
  pipeline,
  precision,
  optimizer,
  padding,
  zero,
  bucket,
  reduce_gradients,
  logit_chunk,
  fits
};

/// Sequences per micro-batch and data rank. Default 1.
template <std::size_t Sequences>
struct micro_batch {
  static_assert(Sequences > 0, "micro_batch<Sequences>: 'Sequences' must be at least 1; leave the policy out for 1");
  static constexpr std::size_t value = Sequences;
};

/// Sequences per step over all data ranks and micro-batches; the micro-batch is derived. Instead of `micro_batch`.
template <std::size_t Sequences>
struct global_batch {
  static_assert(Sequences > 0, "global_batch<Sequences>: 'Sequences' must be at least 1; a step needs data");
  static constexpr std::size_t value = Sequences;
};

/// Micro-batches per step. When their gradients are reduced is `reduce_gradients`. Default 1.
template <std::size_t MicroBatches>
struct accumulate {
  static_assert(MicroBatches > 0, "accumulate<MicroBatches>: 'MicroBatches' must be at least 1; leave it out for 1");
  static constexpr std::size_t value = MicroBatches;
};

/// The order in which pipeline stages work through the micro-batches. Default `one_f_one_b`.
template <class ScheduleType>
struct pipeline {
  static_assert(Schedule<ScheduleType>,
                "pipeline<Schedule>: 'Schedule' must be a Schedule; write gpipe, one_f_one_b or a type of "
                "your own with order()");
  using schedule = ScheduleType;
};

/// Number formats: `fp32`, `fp64`, `tf32`, `bf16_mixed`, `fp16_mixed`, or a `precision_policy` of one's own. Default
/// `fp32`.
template <precision_policy Policy>
struct precision {
  static_assert(detail::precision_rules<Policy>::hold);
  static constexpr precision_policy value = Policy;
};

/// The optimizer. Default `adamw`.
template <class OptimizerType>
struct optimizer {
  static_assert(Optimizer<OptimizerType>,
                "optimizer<Optimizer>: 'Optimizer' must be an Optimizer; write adamw or a type of your own with slots, "
                "options, void update<Backend>(options, facts, w, g, state, n) and, where options is not empty, "
                "values(options)");
  using type = OptimizerType;
};

/// Whether the default rules end with Megatron's sequence rule, `shard<sequence, tp>` (arXiv 2205.05198 §4.2.2).
/// Default yes. With `rules<…>` the rules say it.
template <bool On>
struct sequence_parallel {
  static constexpr bool value = On;
};

/// In `padding`: dimension `Name` is stored with a size that the ranks which may share it divide into multiples of
/// `Multiple` each.
template <class Name, std::size_t Multiple = 1>
struct pad {
  static_assert(DimName<Name>, "pad<Name, Multiple>: 'Name' must be a dimension name; write pad<vocab>");
  static_assert(Multiple > 0, "pad<Name, Multiple>: 'Multiple' must be at least 1; leave it out for 1");
  static constexpr name_id name = id_v<Name>;
  static constexpr std::size_t multiple = Multiple;
};

/// Dimensions that may be stored padded where their size does not divide. Padding never enters a result or a file.
/// Default `padding<pad<vocab>>`; `padding<>` pads nothing.
template <class... Pads>
struct padding {
  static_assert((true && ... && (Pads::multiple > 0)));  // the sentences of each pad
  /// The padded size of `d` when `ways` ranks may share it; `d.size` if it is not to be padded.
  static constexpr std::size_t stored(dimension const& d, [[maybe_unused]] std::size_t ways) {
    std::size_t result = d.size;
    ((result = Pads::name == d.name ? padded_size(d.size, ways, Pads::multiple) : result), ...);
    return result;
  }
  static_assert(detail::all_differ({Pads::name...}),
                "padding<Pads...>: each dimension must be given once; keep one of its two pads");
};

/// What of the training state is split over the data ranks instead of replicated, with padding where sizes do not
/// divide: nothing (0, the default), optimizer state and the reduced gradients that it reads (1), all gradients (2),
/// parameters too (3). See `zero_rest`. Stages 2 and 3 reduce gradients after every micro-batch, since accumulated ones
/// are whole; `reduce_gradients<per_step>` has it so, for memory against traffic.
///
/// `Axes` are the data axes to split over; none means all that the rules bind to `batch`. Naming some of them leaves
/// replicas over the others: hybrid sharding (Zhang et al., MiCS, arXiv 2205.00119 §3).
template <std::size_t Stage, class... Axes>
struct zero {
  static_assert(Stage <= 3, "zero<Stage, Axes...>: 'Stage' must be 0, 1, 2 or 3; 3 splits everything there is");
  static_assert((AxisName<Axes> && ...),
                "zero<Stage, Axes...>: 'Axes' must be axis names; name data axes of the mesh, or none for all of them");
  static_assert(detail::all_differ({id_v<Axes>...}),
                "zero<Stage, Axes...>: each axis must be named once; drop the second");
  static constexpr std::size_t stage = Stage;
};

/// The most bytes of a gradient bucket: gradients are reduced together, in the order in which backward completes them,
/// while it goes on (Li et al., PyTorch Distributed, arXiv 2006.15704 §3.2.3). A parameter that is larger is reduced in
/// parts. The first bucket of a step has at most 1 MiB, so that communication begins early. Default 25 MiB.
template <std::size_t Bytes>
struct bucket {
  static_assert(Bytes > 0, "bucket<Bytes>: 'Bytes' must be at least 1; write bucket<25 * MiB>, the default");
  static constexpr std::size_t value = Bytes;
};

/// When gradients are summed over the data ranks.
enum class gradient_reduction : unsigned char {
  per_step,        ///< once, after the last micro-batch: least traffic; every rank accumulates whole gradients
  per_micro_batch  ///< after each, a tied parameter's for each use: at least as many times the traffic as there are
                   ///< micro-batches; only the gradients of the unit that is being computed stand unreduced, which
                   ///< saves where `zero` splits the reduced ones
};
inline constexpr gradient_reduction per_step = gradient_reduction::per_step;
inline constexpr gradient_reduction per_micro_batch = gradient_reduction::per_micro_batch;

/// Default `per_micro_batch` where `zero` splits gradients (stages 2 and 3, over more than one rank), so that they are
/// split; else `per_step`.
template <gradient_reduction When>
struct reduce_gradients {
  static constexpr gradient_reduction value = When;
};

/// The most bytes of logits that a rank holds at once, but at least those of one token. A step has them from backward,
/// which computes logits, loss and gradient of one chunk of tokens after the other (`chunked_loss`). Default 64 MiB.
template <std::size_t Bytes>
struct logit_chunk {
  static_assert(Bytes > 0,
                "logit_chunk<Bytes>: 'Bytes' must be at least 1, which is a token at a time; write logit_chunk<64 * "
                "MiB>, the default");
  static constexpr std::size_t value = Bytes;
};

/// A bound for the memory of every rank, in bytes: a plan that needs more does not compile. Default none.
template <std::size_t Bytes>
struct fits {
  static_assert(Bytes > 0,
                "fits<Bytes>: 'Bytes' must be at least 1; write fits<80 * GiB>, or leave it out for no bound");
  static constexpr std::size_t value = Bytes;
};

namespace detail {
template <class>
inline constexpr policy_kind kind_of = policy_kind::none;
template <class... A>
inline constexpr policy_kind kind_of<mesh<A...>> = policy_kind::mesh;
template <class... S>
inline constexpr policy_kind kind_of<rules<S...>> = policy_kind::rules;
template <bool On>
inline constexpr policy_kind kind_of<sequence_parallel<On>> = policy_kind::sequence_parallel;
template <std::size_t N>
inline constexpr policy_kind kind_of<micro_batch<N>> = policy_kind::micro_batch;
template <std::size_t N>
inline constexpr policy_kind kind_of<global_batch<N>> = policy_kind::global_batch;
template <std::size_t N>
inline constexpr policy_kind kind_of<accumulate<N>> = policy_kind::accumulate;
template <class S>
inline constexpr policy_kind kind_of<pipeline<S>> = policy_kind::pipeline;
template <precision_policy P>
inline constexpr policy_kind kind_of<precision<P>> = policy_kind::precision;
template <class O>
inline constexpr policy_kind kind_of<optimizer<O>> = policy_kind::optimizer;
template <class... P>
inline constexpr policy_kind kind_of<padding<P...>> = policy_kind::padding;
template <std::size_t S, class... A>
inline constexpr policy_kind kind_of<zero<S, A...>> = policy_kind::zero;
template <std::size_t B>
inline constexpr policy_kind kind_of<bucket<B>> = policy_kind::bucket;
template <gradient_reduction W>
inline constexpr policy_kind kind_of<reduce_gradients<W>> = policy_kind::reduce_gradients;
template <std::size_t B>
inline constexpr policy_kind kind_of<logit_chunk<B>> = policy_kind::logit_chunk;
template <std::size_t B>
inline constexpr policy_kind kind_of<fits<B>> = policy_kind::fits;
}  // namespace detail

}  // namespace heddle
