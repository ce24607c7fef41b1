// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <type_traits>

namespace heddle {

// The vocabulary of a plan's faults. A model and a plan that do not fit together are reported once, at the top, as a
// use of an incomplete `plan_error<…>` whose arguments say what is wrong and what would do:
//   plan_error<size_of<heads, 52>, must_be_a_multiple_of<8>, use_a_size_of<48, 56>, …>

/// A dimension and its size.
template <class Name, std::size_t Size>
struct size_of;
/// The rule it breaks: the ranks that would share it.
template <std::size_t Ways>
struct must_be_a_multiple_of;
/// The nearest sizes that work.
template <std::size_t... Sizes>
struct use_a_size_of;
/// The other remedy.
template <class Name>
struct or_pad_or_shard_another_dimension_than;
/// The other remedy where padding would show in a result.
template <class Name>
struct or_shard_another_dimension_than;
/// The rule it breaks: padding would show in a result.
template <std::size_t Stored>
struct must_not_be_padded_to;
/// The other remedy.
template <class Name>
struct or_take_it_out_of_padding;
/// The rule it breaks: an axis that splits a repeated block's layers splits nothing else.
template <class Layers>
struct must_not_share_its_axis_with;
/// The remedy.
template <class Axis>
struct bind_one_of_the_two_to_another_axis_than;
/// The rule it breaks: ranks along an axis that splits nothing all do the same work.
struct must_split_a_dimension_of_the_model;
/// The remedy.
struct write_a_rule_for_one_that_it_has;
/// The other remedy.
struct or_take_the_axis_out_of_the_mesh;
/// What the number of ranks in the rule is made of.
template <std::size_t DataRanks, std::size_t MicroBatches>
struct data_ranks_times_micro_batches;
/// The rule it breaks, and why.
template <std::size_t Bytes>
struct must_be_at_least;
template <std::size_t Ranks>
struct one_element_for_each_of_the_ranks_that_share_it;
/// The rule it breaks: there are no replicas to share the state.
template <class Mesh>
struct must_have_a_data_axis_to_split_over_in;
/// The remedy.
struct add_an_axis_that_splits_the_batch;
/// The other remedy.
struct or_leave_zero_out;
/// The rule it breaks: a bound on memory. What the rank that needs most needs, where it is, and of what: all categories
/// of the ledger, so that they add up.
template <std::size_t Bytes>
struct must_not_be_less_than_the_bytes_of_a_rank;
template <std::size_t Stage>
struct on_pipeline_stage;
template <std::size_t Bytes>
struct for_parameters;
template <std::size_t Bytes>
struct for_gathered_parameters;
template <std::size_t Bytes>
struct for_gradients;
template <std::size_t Bytes>
struct for_optimizer_state;
template <std::size_t Bytes>
struct for_buckets;
template <std::size_t Bytes>
struct for_activations;
template <std::size_t Bytes>
struct for_scratch;
template <std::size_t Bytes>
struct for_tokens;
/// The remedy.
struct split_more_or_accumulate_smaller_micro_batches;
/// Never defined.
template <class... What>
struct plan_error;

namespace detail {

/// The first sizes below and above that divide.
template <std::size_t Size, std::size_t Ways>
using nearest_sizes =
    std::conditional_t<(Size < Ways), use_a_size_of<Ways>, use_a_size_of<Size / Ways * Ways, (Size / Ways + 1) * Ways>>;

template <class First, class Second>
using first_fault = std::conditional_t<std::is_void_v<First>, Second, First>;

/// Refuses to be instantiated with a fault. `value` is true all the same, so that the fault is all there is to read.
template <class Fault>
struct without_fault {
  static_assert(sizeof(Fault) > 0);
  static constexpr bool value = true;
};
template <>
struct without_fault<void> {
  static constexpr bool value = true;
};

}  // namespace detail

}  // namespace heddle
