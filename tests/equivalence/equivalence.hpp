// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <heddle/heddle.hpp>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Parallel equals serial: a plan and the one-rank plan of the same model train the same steps; losses, gradients and
/// parameters must agree in fp64 to 1e-10, relative to the largest element of each. Ranks do what the schedule's table
/// says, and take and send what the ledger says.
///
/// Why 1e-10: the two runs differ only in the order of sums. Fifty roundings in a row of 1e-16 give 1e-14 after one
/// step; each AdamW step may enlarge the relative difference of a small gradient by at most lr/ε-like factors, which
/// five steps keep well below 1e-11 (seen: 1e-13). A wrong divisor, mask or missing sum shows at 1e-3.
namespace equivalence {

constexpr std::size_t steps = 5;
constexpr double bound = 1e-10;
constexpr std::size_t rows_per_micro_batch = 2;
constexpr double clip = 0.1;  // of the global norm; each row checks that it binds

using gpt2_tied = heddle::gpt2<heddle::gpt2_config{
    .vocabulary = 20, .context = 8, .layers = 4, .heads = 4, .width = 16, .tied = true, .dropout = 0.1}>;
/// A vocabulary that no number of ranks here divides, so it is padded.
using gpt2_untied = heddle::gpt2<heddle::gpt2_config{.vocabulary = 13,
                                                     .context = 8,
                                                     .layers = 4,
                                                     .heads = 4,
                                                     .width = 16,
                                                     .biased = false,
                                                     .tied = false,
                                                     .dropout = 0.1}>;
/// Four key/value heads with two query heads each.
using llama_grouped = heddle::llama<heddle::llama_config{
    .vocabulary = 20, .context = 8, .layers = 4, .heads = 8, .kv_heads = 4, .width = 16, .mlp = 24, .dropout = 0.1}>;

template <class Mesh, bool Sequence, class Schedule, std::size_t MicroBatches, class... Others>
struct row : heddle::plan<Mesh, heddle::sequence_parallel<Sequence>, heddle::pipeline<Schedule>,
                          heddle::accumulate<MicroBatches>, heddle::micro_batch<rows_per_micro_batch>,
                          heddle::precision<heddle::fp64>, Others...> {};

/// A parameter of the serial run: whole, after training, with its last gradient; a frozen one has none.
struct whole_parameter {
  std::vector<double> value, gradient;
};
struct serial_run {
  std::vector<double> loss, norm;
  std::map<std::string, whole_parameter> parameter;
};

/// Token t of sequence g of step s: anything, but the same everywhere. Some targets do not count.
inline std::int32_t token(std::size_t s, std::size_t g, std::size_t t, std::size_t vocabulary) {
  std::size_t const h = (s * 977 + g * 131 + t * 29 + g * t * 7) * 2654435761U;
  return static_cast<std::int32_t>(h / 65536 % vocabulary);
}
inline bool ignored(std::size_t s, std::size_t g, std::size_t t) { return (s + 3 * g + 5 * t) % 7 == 0; }

template <class Trainer>
void train(Trainer& trainer, std::size_t vocabulary, std::vector<double>& loss, std::vector<double>& norm) {
  std::vector<std::int32_t> tokens(Trainer::local_tokens), targets(Trainer::local_tokens);
  for (std::size_t s = 0; s < steps; ++s) {
    for (std::size_t i = 0; i < Trainer::local_sequences; ++i)
      for (std::size_t t = 0; t < Trainer::context; ++t) {
        std::size_t const g = trainer.global_sequence(i);
        tokens[i * Trainer::context + t] = token(s, g, t, vocabulary);
        targets[i * Trainer::context + t] = ignored(s, g, t) ? heddle::ignored_target : token(s, g, t + 1, vocabulary);
      }
    auto const result = trainer.step(tokens, targets);
    loss.push_back(result.loss.mean());
    norm.push_back(result.gradient_norm);
  }
}

template <class Trainer>
typename Trainer::options options() {
  // The rate is high, so that a wrong update shows.
  return {.seed = 7,
          .learning_rate = 1e-2,
          .clip = clip,
          .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1}};
}

/// The serial run of that many micro-batches, made at the first call. serial.hpp has it; for the table's models, a
/// library that all programs of the table share.
template <class Model, std::size_t MicroBatches>
serial_run const& serial_reference();

/// The largest difference of this rank's elements from the whole's, relative to the whole's largest element.
inline double difference(double const* local, heddle::index_map const& map, std::vector<double> const& whole) {
  double largest = 0, worst = 0;
  for (double x : whole) largest = std::fmax(largest, std::fabs(x));
  heddle::for_each_run(map, [&](std::size_t begin, std::size_t count, std::uint64_t global) {
    for (std::size_t i = 0; i < count; ++i) {
      double const d = std::fabs(local[begin + i] - whole[global + i]);
      worst = std::isfinite(d) ? std::fmax(worst, d) : HUGE_VAL;
    }
  });
  return largest > 0 ? worst / largest : worst;
}

/// Padding holds zeros, before and after.
inline bool padding_is_zero(double const* local, heddle::index_map const& map) {
  std::vector<bool> real(map.size(), false);
  heddle::for_each_run(map, [&](std::size_t begin, std::size_t count, std::uint64_t) {
    for (std::size_t i = 0; i < count; ++i) real[begin + i] = true;
  });
  for (std::size_t i = 0; i < real.size(); ++i)
    if (!real[i] && local[i] != 0) return false;
  return true;
}

/// What a rank did in all steps is its stage's program, in its order.
inline void check_executed(heddle::trace_recorder const& recorder, std::span<heddle::schedules::action const> program) {
  CHECK(recorder.left_out() == 0);
  REQUIRE(recorder.events().size() == steps * program.size());
  for (std::size_t i = 0; i < recorder.events().size(); ++i) {
    heddle::trace_event const& event = recorder.events()[i];
    heddle::schedules::action const& action = program[i % program.size()];
    CAPTURE(i);
    CHECK(event.name == std::string_view(heddle::schedules::name(action.kind)));
    bool const numbered = heddle::schedules::is_compute(action.kind) || heddle::schedules::is_send(action.kind) ||
                          heddle::schedules::is_receive(action.kind);
    CHECK(event.number == (numbered ? std::int64_t{action.micro_batch} : heddle::trace_event::no_number));
  }
}

/// Losses and gradient norms of all steps.
inline void check_losses(serial_run const& reference, std::span<double const> loss, std::span<double const> norm) {
  for (std::size_t s = 0; s < steps; ++s) {
    CAPTURE(s);
    CHECK(reference.norm[s] > clip);
    CHECK(std::fabs(loss[s] - reference.loss[s]) <= bound * std::fabs(reference.loss[s]));
    CHECK(std::fabs(norm[s] - reference.norm[s]) <= bound * std::fabs(reference.norm[s]));
  }
}

/// A rank's part of a parameter and of its gradient; what it owns is counted by name.
using part_of_parameter = heddle::parameter_view<heddle::element_types<double, double, double, double>>;
inline void check_parameter(serial_run const& reference, part_of_parameter const& p, heddle::mesh_value const& mesh,
                            heddle::coordinates const& at, std::map<std::string, std::size_t>& elements) {
  auto const map = heddle::local_index_map(mesh, p.entry->dims, p.entry->rest, at);
  auto const gradient_map = heddle::local_index_map(mesh, p.entry->dims, p.entry->gradient_rest, at);
  std::string const name(p.entry->name.view());
  auto const whole = reference.parameter.find(name);
  // The second copy of a tied parameter is named after its own use.
  auto const& expected = whole != reference.parameter.end() ? whole->second : reference.parameter.at("wte.weight");
  CAPTURE(name);
  CHECK(difference(p.value, map, expected.value) <= bound);
  CHECK(padding_is_zero(p.value, map));
  REQUIRE((p.gradient == nullptr) == expected.gradient.empty());
  if (p.gradient != nullptr) {
    CHECK(difference(p.gradient, gradient_map, expected.gradient) <= bound);
    CHECK(padding_is_zero(p.gradient, gradient_map));
  }
  if (p.owned)
    heddle::for_each_run(map, [&](std::size_t, std::size_t count, std::uint64_t) { elements[name] += count; });
}

/// Predicted bytes are the bytes taken, and the rows of the ledger add up to them.
inline void check_memory(heddle::memory_table const& allocated, heddle::memory_table const& predicted,
                         std::span<heddle::memory_row const> rows) {
  CHECK(allocated == predicted);
  heddle::memory_table by_row{};
  for (heddle::memory_row const& row : rows) by_row.bytes[static_cast<std::size_t>(row.category)] += row.total();
  CHECK(by_row == predicted);
}

/// The bytes and calls of all steps are the ledger's.
inline void check_traffic(heddle::traffic_table const& before, heddle::traffic_table const& after,
                          heddle::traffic_table const& of_step) {
  heddle::traffic_table predicted = before;
  predicted.add(of_step, steps);
  CHECK(after == predicted);
}

/// Nothing was left out: all ranks together hold each parameter a whole number of times.
inline void check_all_held(serial_run const& reference, std::map<std::string, std::size_t> const& elements) {
  for (auto const& p : reference.parameter) {
    CAPTURE(p.first);
    auto const held = elements.find(p.first);
    REQUIRE(held != elements.end());
    CHECK(held->second % p.second.value.size() == 0);
    CHECK(held->second >= p.second.value.size());
  }
}

template <class Model, class Plan>
void compare_with_serial() {
  using trainer_type = heddle::trainer<Model, Plan>;
  using ledger = heddle::ledger<Model, Plan>;
  using resolved = heddle::resolved<Model, Plan, heddle::host_backend>;
  serial_run const& reference = serial_reference<Model, trainer_type::global_batch_size / rows_per_micro_batch>();
  std::mutex one_at_a_time;  // doctest's assertions, and the tally below
  std::map<std::string, std::size_t> elements;
  heddle::run<Plan>(heddle::threads, [&](auto& rank) {
    std::size_t const stage = heddle::stage_partition<resolved>::stage_of(rank.at());
    auto const program = heddle::schedule_of<resolved>::actions(stage);
    heddle::trace_recorder recorder(steps * program.size());
    auto chosen = options<trainer_type>();
    chosen.trace = &recorder;
    trainer_type trainer(rank, chosen);
    auto const before = trainer.sent();
    std::vector<double> loss, norm;
    train(trainer, Model::vocabulary, loss, norm);
    auto const after = trainer.sent();

    std::lock_guard const lock(one_at_a_time);
    CAPTURE(rank.rank());
    check_losses(reference, loss, norm);
    for (std::size_t n = 0; n < trainer.parameter_count(); ++n)
      check_parameter(reference, trainer.parameter(n), Plan::mesh::value, rank.at(), elements);
    check_executed(recorder, program);
    auto const rows = ledger::rows(stage);
    check_memory(trainer.allocated(), ledger::memory(stage), rows);
    check_traffic(before, after, ledger::traffic(rank.at()));
  });
  check_all_held(reference, elements);
}

}  // namespace equivalence
