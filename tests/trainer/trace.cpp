// SPDX-License-Identifier: Apache-2.0
// A schedule is what is executed: each stage does, and says that it did, the actions of its program, in their order.
#include <algorithm>
#include <heddle/pipeline/gpipe.hpp>
#include <heddle/pipeline/one_f_one_b.hpp>
#include <heddle/pipeline/schedule_table.hpp>
#include <string>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;
using schedules::action;
using schedules::action_kind;

namespace trace_test {
namespace {

/// What the layers of this rank were called for, in order. The micro-batch is the value that passes through them.
thread_local std::vector<action> computed;

struct probe : primitive {
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = true;
    template <class Context>
    static void forward(Context&, frame<T> const&, T const* x, T* y) {
      computed.push_back({action_kind::forward, static_cast<std::uint32_t>(*x)});
      std::copy_n(x, Place::input_size, y);
    }
    template <class Context>
    static void backward(Context&, frame<T> const&, T const* x, T const*, T const* dy, T* dx) {
      computed.push_back({action_kind::backward, static_cast<std::uint32_t>(*x)});
      std::copy_n(dy, Place::input_size, dx);
    }
  };
};

/// One layer for each stage. Row i of the table is i.
template <std::size_t Stages>
using model = model_of<1, named<"in", embedding<dim<ids, 8>, unit_dim>>, named<"h", repeat<dim<layers, Stages>, probe>>,
                       weighted_loss<>>;
template <class Schedule, std::size_t Stages, std::size_t MicroBatches, std::size_t DataRanks>
struct row
    : plan<mesh<axis<dp, DataRanks>, axis<pp, Stages>>, pipeline<Schedule>, accumulate<MicroBatches>, precision<fp64>> {
};
/// Parameters arrive and gradients leave between the actions, which stay what they are.
template <class Schedule, std::size_t Stages, std::size_t MicroBatches, std::size_t DataRanks>
struct sharded_row : plan<mesh<axis<dp, DataRanks>, axis<pp, Stages>>, pipeline<Schedule>, accumulate<MicroBatches>,
                          precision<fp64>, zero<3>, reduce_gradients<per_micro_batch>> {};

bool has_micro_batch(action_kind kind) {
  return schedules::is_compute(kind) || schedules::is_send(kind) || schedules::is_receive(kind);
}

template <class Schedule, std::size_t Stages, std::size_t MicroBatches, std::size_t DataRanks = 1,
          template <class, std::size_t, std::size_t, std::size_t> class Row = row>
void check_trace() {
  using table = schedules::schedule_table<Schedule, Stages, MicroBatches>;
  using plan = Row<Schedule, Stages, MicroBatches, DataRanks>;
  constexpr std::size_t steps = 2;
  std::vector<trace_recorder> recorder(DataRanks * Stages, trace_recorder(1000));
  std::vector<std::vector<action>> layers(DataRanks * Stages);
  run<plan>(threads, [&](auto& rank) {
    basic_trainer<model<Stages>, plan, host_backend> trainer(rank,
                                                             {.learning_rate = 0, .trace = &recorder[rank.rank()]});
    set_parameter<typename plan::mesh>(trainer, rank.at(), "in.weight",
                                       [](std::uint64_t i) { return static_cast<double>(i); });
    for (std::size_t s = 0; s < steps; ++s)
      step_on(trainer, s, [](std::size_t, std::size_t g, std::size_t) {
        return example{static_cast<std::int32_t>(g / DataRanks), 1};  // one sequence of each data rank: its number
      });
    layers[rank.rank()] = computed;
  });
  for (std::size_t r = 0; r < DataRanks * Stages; ++r) {
    CAPTURE(r);
    std::size_t const stage = r % Stages;
    std::vector<action> program, of_layers;
    for (std::size_t s = 0; s < steps; ++s)
      for (action const& a : table::actions(stage)) {
        program.push_back(a);
        if (schedules::is_compute(a.kind)) of_layers.push_back(a);
      }
    CHECK(layers[r] == of_layers);
    auto const events = recorder[r].events();
    CHECK(recorder[r].left_out() == 0);
    REQUIRE(events.size() == program.size());
    for (std::size_t i = 0; i < program.size(); ++i) {
      CAPTURE(i);
      CHECK(std::string(events[i].name) == schedules::name(program[i].kind));
      CHECK(events[i].number ==
            (has_micro_batch(program[i].kind) ? std::int64_t{program[i].micro_batch} : trace_event::no_number));
      CHECK(events[i].end >= events[i].begin);
      if (i > 0) CHECK(events[i].begin >= events[i - 1].end);
    }
  }
}

}  // namespace

TEST_CASE("the executed trace is the schedule: GPipe, two stages") { check_trace<gpipe, 2, 3>(); }
TEST_CASE("the executed trace is the schedule: GPipe, four stages") { check_trace<gpipe, 4, 6>(); }
TEST_CASE("the executed trace is the schedule: 1F1B, two stages") { check_trace<one_f_one_b, 2, 3>(); }
TEST_CASE("the executed trace is the schedule: 1F1B, four stages") { check_trace<one_f_one_b, 4, 6>(); }
TEST_CASE("the executed trace is the schedule: data ranks, with ZeRO-3 and gradients reduced per micro-batch") {
  check_trace<one_f_one_b, 2, 3, 2>();
  check_trace<one_f_one_b, 2, 3, 2, sharded_row>();
}

}  // namespace trace_test
