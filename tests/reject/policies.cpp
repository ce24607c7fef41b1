// SPDX-License-Identifier: Apache-2.0
#include <heddle/pipeline/gpipe.hpp>
#include <heddle/plan/plan.hpp>

using namespace heddle;

using tp_mesh = mesh<axis<tp, 2>>;
struct anything {};
struct without_update {
  static constexpr std::size_t slots = 0;
  struct options {};
};
struct without_values {
  static constexpr std::size_t slots = 0;
  struct options {
    double momentum = 0;
  };
  template <class Backend, class T>
  static void update(options const&, update_facts const&, T*, T const*, std::array<T*, slots> const&, std::size_t) {}
};
struct complete : without_values {
  static constexpr std::array<option_value, 1> values(options const& o) { return {{{"momentum", o.momentum}}}; }
};
struct without_options : without_values {
  struct options {};
  template <class Backend, class T>
  static void update(options const&, update_facts const&, T*, T const*, std::array<T*, slots> const&, std::size_t) {}
};

using dp_mesh = mesh<axis<dp, 4>>;

#if defined(REJECT_ZERO_STAGE)  // expect: 'Stage' must be 0, 1, 2 or 3
struct refused : plan<dp_mesh, zero<4>> {};
#elif defined(REJECT_ZERO_ALONE)              // expect: zero<1>
// expect: must_have_a_data_axis_to_split_over_in<heddle::mesh<heddle::axis<heddle::tp, 2>
// expect: add_an_axis_that_splits_the_batch, heddle::or_leave_zero_out
struct refused : plan<tp_mesh, zero<1>> {};
#elif defined(REJECT_ZERO_OVER_NO_DATA_AXIS)  // expect: zero<Stage, Axes...>: each axis must be a data axis of the mesh
// shows: heddle::tp
struct refused : plan<mesh<axis<dp, 2>, axis<tp, 2>>, zero<2, tp>> {};
#elif defined(REJECT_ZERO_OVER_MISSING_AXIS)  // expect: zero<Stage, Axes...>: each axis must be a data axis of the mesh
// shows: heddle::dp_replicate
struct refused : plan<dp_mesh, zero<3, dp, dp_replicate>> {};
#elif defined(REJECT_ZERO_OVER_NO_AXIS)       // expect: 'Axes' must be axis names
struct refused : plan<dp_mesh, zero<3, batch>> {};
#elif defined(REJECT_ZERO_TWICE_OVER_AN_AXIS)  // expect: each axis must be named once; drop the second
struct refused : plan<dp_mesh, zero<3, dp, dp>> {};
#elif defined(REJECT_NO_BUCKET)                // expect: 'Bytes' must be at least 1
struct refused : plan<dp_mesh, bucket<0>> {};
#elif defined(REJECT_FITS_NOTHING)             // expect: 'Bytes' must be at least 1
struct refused : plan<dp_mesh, fits<0>> {};
#elif defined(REJECT_TWO_ZEROS)                // expect: each policy must be given at most once
struct refused : plan<dp_mesh, zero<1>, zero<2, dp>> {};
#elif defined(REJECT_UNKNOWN)                  // expect: 'Policy' must be a policy (mesh, rules
// expect: remove it or wrap it in one of these
// shows: anything
struct refused : plan<tp_mesh, anything> {};
#elif defined(REJECT_BARE_SCHEDULE)            // expect: 'Policy' must be a policy (mesh, rules
// shows: one_f_one_b
struct refused : plan<tp_mesh, one_f_one_b> {};
#elif defined(REJECT_REPEATED)  // expect: each policy must be given at most once; keep one of the two named here
// shows: micro_batch<2>
// shows: micro_batch<4>
struct refused : plan<micro_batch<2>, tp_mesh, micro_batch<4>> {};
#elif defined(REJECT_RULES_AND_SEQUENCE)        // expect: 'rules' and 'sequence_parallel' contradict each other
// expect: with rules<...>, say it by adding or leaving out shard<sequence, tp>
struct refused : plan<tp_mesh, rules<shard<heads, tp>>, sequence_parallel<true>> {};
#elif defined(REJECT_MICRO_AND_GLOBAL)          // expect: 'micro_batch' and 'global_batch' contradict each other
// expect: give one, the other follows
struct refused : plan<micro_batch<2>, global_batch<8>> {};
#elif defined(REJECT_PIPELINE_WITHOUT_AXIS)     // expect: 'pipeline' and the mesh contradict each other
// expect: add axis<pp, N> to the mesh, or remove the pipeline policy
struct refused : plan<tp_mesh, pipeline<gpipe>> {};
#elif defined(REJECT_RULE_FOR_NO_AXIS)          // expect: a rule must be for an axis of the mesh
// expect: add the axis named here to the mesh (size 1 will do) or remove the rule
// shows: heddle::shard<heddle::batch, heddle::dp>
struct refused : plan<tp_mesh, rules<shard<heads, tp>, shard<batch, dp>>> {};
#elif defined(REJECT_AXIS_WITHOUT_RULE)         // expect: each axis of the mesh must be used by a rule
// expect: write rules<...> with a shard<dimension, axis> for the axis named here, or remove it
// shows: heddle::axis<heddle::ep, 2>
struct refused : plan<mesh<axis<tp, 2>, axis<ep, 2>>> {};
#elif defined(REJECT_NO_SEQUENCES)              // expect: micro_batch<Sequences>: 'Sequences' must be at least 1
struct refused : plan<micro_batch<0>> {};
#elif defined(REJECT_NO_GLOBAL_BATCH)           // expect: global_batch<Sequences>: 'Sequences' must be at least 1
struct refused : plan<global_batch<0>> {};
#elif defined(REJECT_NO_MICRO_BATCHES)          // expect: accumulate<MicroBatches>: 'MicroBatches' must be at least 1
struct refused : plan<accumulate<0>> {};
#elif defined(REJECT_NOT_A_SCHEDULE)            // expect: pipeline<Schedule>: 'Schedule' must be a Schedule
// shows: anything
struct refused : plan<mesh<axis<pp, 2>>, pipeline<anything>> {};
#elif defined(REJECT_NOT_AN_OPTIMIZER)          // expect: optimizer<Optimizer>: 'Optimizer' must be an Optimizer
// shows: anything
struct refused : plan<optimizer<anything>> {};
#elif defined(REJECT_OPTIMIZER_WITHOUT_UPDATE)  // expect: void update<Backend>(options, facts, w, g, state, n)
// shows: without_update
struct refused : plan<optimizer<without_update>> {};
#elif defined(REJECT_OPTIMIZER_WITHOUT_VALUES)  // expect: and, where options is not empty, values(options)
// shows: without_values
struct refused : plan<optimizer<without_values>> {};
#elif defined(REJECT_PADDED_AXIS)               // expect: pad<Name, Multiple>: 'Name' must be a dimension name
struct refused : plan<padding<pad<tp>>> {};
#elif defined(REJECT_PADDED_TWICE)              // expect: padding<Pads...>: each dimension must be given once
// shows: pad<heddle::vocab, 128
struct refused : plan<tp_mesh, padding<pad<heads>, pad<vocab, 128>, pad<vocab>>> {};
#else
struct any_order : plan<accumulate<2>, pipeline<gpipe>, mesh<axis<pp, 2>, axis<dp, 2>>, micro_batch<3>> {};
static_assert(Plan<any_order> && any_order::global_batch_size == 12);
struct by_rules : plan<rules<shard<heads, tp>, shard<batch, ep>>, mesh<axis<tp, 2>, axis<ep, 1>>> {};
static_assert(Plan<by_rules> && !Plan<anything>);
static_assert(Optimizer<adamw> && Optimizer<complete> && Optimizer<without_options> && !Optimizer<without_update>);
struct of_its_own : plan<optimizer<complete>, padding<pad<heads>, pad<vocab, 128>>> {};
static_assert(Plan<of_its_own> && !Optimizer<without_values>);
#endif
