// SPDX-License-Identifier: Apache-2.0
// How often ranks meet for parameters: once for each unit that is brought, and once for all that were updated where
// they rest. Counters count parts, so only the calls tell.
#include <heddle/comm/recording.hpp>
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace meetings_test {
namespace {
using model = gpt2<gpt2_config{.vocabulary = 13, .context = 8, .layers = 3, .heads = 4, .width = 16}>;
using two = mesh<axis<dp, 2>>;
struct gathered : plan<two, accumulate<2>, zero<3>, reduce_gradients<per_step>, bucket<4 * KiB>> {};
struct replicated : plan<two, accumulate<2>, bucket<4 * KiB>> {};
struct returned : plan<two, zero<1>> {};
struct beside_tensors : plan<mesh<axis<dp, 2>, axis<tp, 2>>, zero<3>> {};
struct replicated_beside_tensors : plan<mesh<axis<dp, 2>, axis<tp, 2>>, bucket<4 * KiB>> {};

/// A bucket of 16 elements, as many as each norm and bias that tp sums too; these are scattered over dp, others are
/// not.
struct small_buckets : plan<mesh<axis<dp, 2>, axis<tp, 2>>, bucket<64>> {};

/// A layer on each stage.
using two_layers = gpt2<gpt2_config{.vocabulary = 13, .context = 8, .layers = 2, .heads = 4, .width = 16}>;
struct staged : plan<mesh<axis<dp, 2>, axis<pp, 2>>, zero<3>, bucket<64 * KiB>> {};

/// What a rank calls in a step.
template <class Plan, class Model = model>
std::vector<comm::recorded_call> calls_of_step(std::size_t of = 0) {
  using recorder = comm::recording<comm::thread_communicator>;
  std::vector<comm::recorded_call> calls;
  comm::run_threads(Plan::mesh::size, [&](comm::thread_communicator& world) {
    recorder record(world.split(0, world.rank(), "world"));
    mesh_communicator<typename Plan::mesh, recorder> rank(record);
    trainer<Model, Plan> trainer(rank, {.seed = 5, .learning_rate = 1e-2});
    std::vector<std::int32_t> const tokens(trainer.local_tokens, 1);
    record.clear();
    trainer.step(tokens, tokens);
    if (rank.rank() == of) calls = record.calls();
  });
  return calls;
}

/// Its order: `g` for a unit's parameters over dp, `r` for a bucket that leaves over dp, `.` for an op's own transfer
/// over tp, `>` and `<` for what goes to another stage and comes from it.
template <class Plan, class Model = model>
std::string order_of_step(std::size_t of = 0) {
  std::string order;
  for (comm::recorded_call const& one : calls_of_step<Plan, Model>(of)) {
    if (one.op == comm::operation::send) order += '>';
    if (one.op == comm::operation::receive) order += '<';
    bool const over_tp = one.group.find("tp") != std::string::npos;
    bool const moves = one.op == comm::operation::all_gather || one.op == comm::operation::reduce_scatter;
    if (over_tp && moves) order += '.';
    if (!over_tp && one.op == comm::operation::all_gather && !one.joins) order += 'g';
    bool const reduces = one.op == comm::operation::reduce_scatter || one.op == comm::operation::all_reduce;
    if (!over_tp && reduces && one.asynchronous) order += 'r';
  }
  return order;
}

template <class Plan>
using parameters_of = stage_parameters<resolved<model, Plan, host_backend>, stage_kind::whole>;

struct gathers {
  std::size_t parts = 0, calls = 0, blocking = 0;
};
/// Those of one operation.
template <class Plan>
gathers of_step(comm::operation op = comm::operation::all_gather) {
  gathers found;
  for (comm::recorded_call const& one : calls_of_step<Plan>()) {
    if (one.op != op) continue;
    ++found.parts;
    found.calls += !one.joins;
    found.blocking += !one.asynchronous;
  }
  return found;
}
}  // namespace

TEST_CASE("a unit's parameters arrive by one call, before forward and before backward of each micro-batch") {
  gathers const found = of_step<gathered>();
  std::size_t parts = 0;
  for (std::size_t n : parameters_of<gathered>::of_use) parts += parameters_of<gathered>::entry[n].copies;
  constexpr std::size_t visits =
      gathered_parameters<resolved<model, gathered, host_backend>, stage_kind::whole>::table.visits();
  static_assert(visits == 7);  // two tables, three layers, the last norm, the head
  CHECK(found.parts == 2 * 2 * parts);
  CHECK(found.calls == 2 * 2 * visits);
  CHECK(found.blocking == 0);
}
TEST_CASE("the next unit's parameters are on their way before a unit's ops begin") {
  // Tables, three layers of four transfers each, the last norm and the head. The first unit is waited for; when a
  // unit's turn comes, the one after it is asked for before the unit's own transfers. Backward is forward's mirror; its
  // gradients fill two buckets: of what tp sums too (norms and biases, the last of them in the first layer), and
  // others.
  CHECK(order_of_step<beside_tensors>() ==
        "gg.gg....g....g....g."
        "gg.gg....g....g....rg.r");
}
TEST_CASE("a stage that waits for another has its first unit's parameters on their way meanwhile") {
  // Tables and a layer, then a layer, the last norm and the head. What arrives from the other stage is waited for.
  CHECK(order_of_step<staged, two_layers>(0) ==
        "ggg>"
        "g<ggr");
  CHECK(order_of_step<staged, two_layers>(1) ==
        "g<gg"
        "gggr>");
}
TEST_CASE("gradients leave in buckets beside backward: reduced, or reduced into parts") {
  gathers const parts = of_step<gathered>(comm::operation::reduce_scatter);
  CHECK(parts.calls > 1);
  CHECK(parts.blocking == 0);
  gathers const whole = of_step<replicated>(comm::operation::all_reduce);
  CHECK(whole.calls > whole.blocking + 1);
  CHECK(whole.blocking == 2);  // at the end: the loss, and what the step says of itself
}
TEST_CASE("a bucket leaves as soon as backward has filled it: of the last layers first") {
  // Buckets of 512 elements a rank; in the last backward a rank's parts come to none for the head, whose table is
  // complete with its look-up, 16 for the norm, 1640 for each layer, 64 and 104 for the tables.
  std::string const pass = "ggggggg";
  CHECK(order_of_step<gathered>() == pass + pass + pass +
                                         "gggg"
                                         "rrrg"  // 1656
                                         "rrrg"  // 3296
                                         "rrrg"  // 4936
                                         "r");   // 5104
  // Buckets of 1024 elements: 1592 of each layer's, 64 and 112 of the tables. Norms and biases, which tp sums too, fill
  // one of their own with the first layer's; it is scattered over dp, and gathered at the end.
  CHECK(order_of_step<replicated_beside_tensors>() ==
        ".............."
        "."
        "....r"
        "....rr"
        "....rr"
        ".r"
        "g");
}
TEST_CASE("DDP-003: buckets are filled in the reverse of the order in which parameters are declared") {
  // `s` for one norm's or bias' bucket, `w` for those of what stands between two of them, however many they are.
  std::string order;
  for (comm::recorded_call const& one : calls_of_step<small_buckets>()) {
    if (!one.asynchronous || one.group.find("tp") != std::string::npos) continue;
    if (one.op == comm::operation::reduce_scatter) order += 's';
    if (one.op == comm::operation::all_reduce && (order.empty() || order.back() != 'w')) order += 'w';
  }
  // The last norm; of each layer the bias behind the feed-forward, its weights, the norm before it and attention's
  // bias, attention's weights, the norm before it; the tables, of which the head is one.
  std::string const layer = "swssswss";
  CHECK(order == "ss" + layer + layer + layer + "w");
}
TEST_CASE("what is updated where it rests returns by one call; what is padded, or cut along columns, by its own") {
  using parameters = parameters_of<returned>;
  std::size_t in_place = 0, others = 0;
  for (parameter_entry const& e : parameters::entry) (e.updates_in_place(two::value) ? in_place : others) += e.copies;
  CHECK(others == 1);  // the table of 13 rows, which is cut along its columns
  CHECK(in_place > 20);
  gathers const found = of_step<returned>();
  CHECK(found.parts == in_place + others);
  CHECK(found.calls == 1 + others);
}

}  // namespace meetings_test
