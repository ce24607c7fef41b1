// SPDX-License-Identifier: Apache-2.0
// Parallel equals serial in mixed precision. Plans that round at the same points give the same bits; of the others the
// difference is bounded by the roundings that differ.
#include <cstring>

#include "equivalence.hpp"

namespace equivalence {
namespace {

using namespace heddle;

constexpr double learning_rate = 1e-2;

/// Plain descent, so that a difference of gradients is one of parameters of the same kind. (AdamW's first updates are
/// the rate times a gradient's sign, of which a rounding may make the other.)
struct descent {
  static constexpr std::size_t slots = 0;
  struct options {};
  template <class Backend, class T>
  static void update(options const&, update_facts const& facts, T* w, T const* g, std::array<T*, slots> const&,
                     std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) w[i] -= static_cast<T>(facts.learning_rate * facts.gradient_scale) * g[i];
  }
};

struct run_of_plan {
  std::vector<double> loss, norm;
  std::map<std::string, whole_parameter> parameter;
  bool masters_agree = true;
};

template <class T>
void join(T const* from, index_map const& map, std::size_t size, std::vector<double>& to) {
  to.resize(size);
  for_each_run(map, [&](std::size_t begin, std::size_t count, std::uint64_t global) {
    for (std::size_t i = 0; i < count; ++i) to[global + i] = static_cast<double>(from[begin + i]);
  });
}

/// Trains on all ranks, puts parameters and gradients together, and holds bytes and calls to the ledger's.
template <class Model, class Plan>
run_of_plan run_all(std::size_t count) {
  using trainer_type = trainer<Model, Plan>;
  using constants = ledger<Model, Plan>;
  using master_type = typename trainer_type::elements::master;
  run_of_plan result;
  std::mutex one_at_a_time;
  run<Plan>(threads, [&](auto& rank) {
    trainer_type t(rank, {.seed = 7, .learning_rate = learning_rate});
    auto const before = t.sent();
    std::vector<double> loss, norm;
    std::vector<std::int32_t> tokens(trainer_type::local_tokens), targets(trainer_type::local_tokens);
    for (std::size_t s = 0; s < count; ++s) {
      for (std::size_t i = 0; i < trainer_type::local_sequences; ++i)
        for (std::size_t k = 0; k < Model::context; ++k) {
          std::size_t const g = t.global_sequence(i);
          tokens[i * Model::context + k] = token(s, g, k, Model::vocabulary);
          targets[i * Model::context + k] = ignored(s, g, k) ? ignored_target : token(s, g, k + 1, Model::vocabulary);
        }
      auto const step = t.step(tokens, targets);
      CHECK(!step.skipped);
      loss.push_back(step.loss.mean());
      norm.push_back(step.gradient_norm);
    }
    auto const after = t.sent();
    std::lock_guard const lock(one_at_a_time);
    CAPTURE(rank.rank());
    traffic_table predicted = before;
    predicted.add(constants::traffic(rank.at()), count);
    CHECK(after == predicted);
    std::size_t const axis = Plan::mesh::value.index_of(id_v<pp>);
    std::size_t const stage = axis == Plan::mesh::value.axes ? 0 : rank.at()[axis];
    CHECK(t.allocated() == constants::memory(stage));
    std::size_t listed = 0;
    for (memory_row const& row : constants::rows(stage)) listed += row.total();
    CHECK(listed == t.allocated().total());
    if (result.loss.empty()) result.loss = loss, result.norm = norm;
    CHECK(loss == result.loss);
    for (std::size_t n = 0; n < t.parameter_count(); ++n) {
      auto const p = t.parameter(n);
      parameter_entry const& e = *p.entry;
      auto const map_of = [&](layout const& l) { return local_index_map(Plan::mesh::value, e.dims, l, rank.at()); };
      auto& whole = result.parameter[std::string(e.name.view())];
      join(p.value, map_of(e.rest), e.dims.size(), whole.value);
      if (!e.trainable) {
        CHECK(p.gradient == nullptr);
        CHECK(p.master == nullptr);
        continue;
      }
      join(p.gradient, map_of(e.gradient_rest), e.dims.size(), whole.gradient);
      if constexpr (trainer_type::elements::has_master) {
        // What a parameter is a copy of, where both are here.
        std::vector<double> master(e.dims.size(), HUGE_VAL), value(e.dims.size(), HUGE_VAL);
        join(p.master, map_of(e.state_rest), e.dims.size(), master);
        join(p.value, map_of(e.rest), e.dims.size(), value);
        for (std::size_t i = 0; i < master.size(); ++i)
          if (master[i] != HUGE_VAL && value[i] != HUGE_VAL &&
              static_cast<double>(static_cast<typename trainer_type::element>(static_cast<master_type>(master[i]))) !=
                  value[i])
            result.masters_agree = false;
      }
    }
  });
  CHECK(result.masters_agree);
  return result;
}

template <precision_policy Policy, std::size_t MicroBatches, class Mesh, class... More>
struct at : plan<Mesh, accumulate<MicroBatches>, micro_batch<rows_per_micro_batch>, precision<Policy>, More...> {};
template <std::size_t Data, std::size_t Stages, std::size_t Tensor>
using ranks = mesh<axis<dp, Data>, axis<pp, Stages>, axis<tp, Tensor>>;
using alone = ranks<1, 1, 1>;

/// The largest difference of any parameter's (or gradient's) element, relative to the largest element of its parameter.
double difference(run_of_plan const& a, run_of_plan const& b, std::vector<double> whole_parameter::*which) {
  double worst = 0;
  CHECK(a.parameter.size() >= b.parameter.size());
  for (auto const& [name, expected] : b.parameter) {
    auto const found = a.parameter.find(name);
    REQUIRE(found != a.parameter.end());
    double largest = 0, off = 0;
    for (std::size_t i = 0; i < (expected.*which).size(); ++i) {
      largest = std::fmax(largest, std::fabs((expected.*which)[i]));
      double const d = std::fabs((found->second.*which)[i] - (expected.*which)[i]);
      off = std::isfinite(d) ? std::fmax(off, d) : HUGE_VAL;
    }
    worst = std::fmax(worst, largest > 0 ? off / largest : off);
  }
  return worst;
}
double difference(std::vector<double> const& a, std::vector<double> const& b) {
  double worst = 0;
  for (std::size_t s = 0; s < b.size(); ++s) worst = std::fmax(worst, std::fabs(a[s] - b[s]) / std::fabs(b[s]));
  return worst;
}
void check_same_bits(run_of_plan const& a, run_of_plan const& b) {
  CHECK(a.loss == b.loss);
  CHECK(difference(a, b, &whole_parameter::value) == 0);
  CHECK(difference(a, b, &whole_parameter::gradient) == 0);
}

}  // namespace

// Where a parameter, its gradient and its master rest changes no rounding: each is the same sum in float, rounded once.
TEST_CASE_TEMPLATE_DEFINE("ZeRO's stages give the same bits", Policy, zero_bits) {
  constexpr precision_policy p = Policy::value;
  auto const whole = run_all<gpt2_tied, at<p, 1, ranks<2, 1, 1>>>(steps);
  check_same_bits(run_all<gpt2_tied, at<p, 1, ranks<2, 1, 1>, zero<1>>>(steps), whole);
  // Stages 2 and 3 reduce the two uses of a tied table apart: only there they round once more.
  auto const untied = run_all<gpt2_untied, at<p, 1, ranks<2, 1, 1>, bucket<1000>>>(steps);
  check_same_bits(run_all<gpt2_untied, at<p, 1, ranks<2, 1, 1>, zero<2>>>(steps), untied);
  check_same_bits(run_all<gpt2_untied, at<p, 1, ranks<2, 1, 1>, zero<3>, bucket<1000>>>(steps), untied);
  auto const summed = run_all<gpt2_untied, at<p, 3, ranks<2, 1, 1>>>(steps);
  check_same_bits(run_all<gpt2_untied, at<p, 3, ranks<2, 1, 1>, zero<3>, reduce_gradients<per_step>>>(steps), summed);
}
template <auto const& Value>
struct policy {
  static constexpr precision_policy value = Value;
};
constexpr precision_policy with_wide_reduction = [] {
  precision_policy p = bf16_mixed;
  p.reduction = dtype::float32;
  return p;
}();
constexpr precision_policy with_wide_gradient = [] {
  precision_policy p = bf16_mixed;
  p.gradient = dtype::float32;
  return p;
}();
TEST_CASE_TEMPLATE_INVOKE(zero_bits, policy<bf16_mixed>, policy<fp16_mixed>, policy<with_wide_reduction>,
                          policy<with_wide_gradient>);

// A pipeline computes what one rank does, in the same order; it sums the two ends' uses of a tied table itself.
TEST_CASE("a pipeline gives the bits of one rank") {
  auto const whole = run_all<gpt2_untied, at<bf16_mixed, 3, alone>>(steps);
  check_same_bits(run_all<gpt2_untied, at<bf16_mixed, 3, ranks<1, 2, 1>, pipeline<one_f_one_b>>>(steps), whole);
  check_same_bits(run_all<gpt2_untied, at<bf16_mixed, 3, ranks<1, 4, 1>, pipeline<gpipe>>>(steps), whole);
}

// What is frozen has no master: it is the rounded start, and stays it.
TEST_CASE("frozen parts under ZeRO and on a pipeline give the bits of one rank") {
  using part_frozen = with_frozen<gpt2_untied, "wpe", "h.mlp">;
  auto const whole = run_all<part_frozen, at<bf16_mixed, 2, alone>>(steps);
  check_same_bits(run_all<part_frozen, at<bf16_mixed, 2, ranks<1, 2, 1>>>(steps), whole);
  auto const shared = run_all<part_frozen, at<bf16_mixed, 1, ranks<2, 1, 1>>>(steps);
  check_same_bits(run_all<part_frozen, at<bf16_mixed, 1, ranks<2, 1, 1>, zero<3>>>(steps), shared);
  for (auto const& [name, p] : whole.parameter) {
    bool const still = name.find("wpe") == 0 || name.find(".mlp") != name.npos;
    CHECK(p.gradient.empty() == still);
    if (still) CHECK(p.value == shared.parameter.at(name).value);  // the start of any run
  }
}

namespace {
/// What one rounding may change.
template <precision_policy Policy>
constexpr double unit = 1.0 / static_cast<double>(std::size_t{2}
                                                  << fraction_bits(Policy.compute == dtype::tfloat32 ? Policy.compute
                                                                                                     : Policy.storage));

/// Against one rank with as many micro-batches in all: plain descent, unclipped. In units of one rounding:
///   loss      1: it is some 3 and its roundings are of logits below 1, of which it takes differences
///   gradient  of an element, relative to the largest of its parameter: data ranks round a sum once before it travels
///   and
///             once after, of which each is at most the sum of the ranks' parts, some 2 times the sum: 4, and from the
///             second step on as much again for parameters that differ. Tensor ranks round each op's partial result,
///             some 80 times on the way through 4 layers and back: like random steps, 9, of which 16 leaves some
///   value     one rounding may go the other way, which is two units; and what the gradients of all steps add to that
/// Seen are 0.01 of loss, and 3.5 of a gradient. A sum that is missing or taken twice shows as half of a value: as 128
/// units of bfloat16, and 1024 of float16 or tf32.
template <class Model, precision_policy Policy, std::size_t MicroBatches, class Mesh, class... More>
void compare(double gradient_bound) {
  constexpr std::size_t data = Mesh::value.axis[0].size;
  auto const serial = run_all<Model, at<Policy, data * MicroBatches, alone, optimizer<descent>>>(steps);
  auto const parallel = run_all<Model, at<Policy, MicroBatches, Mesh, optimizer<descent>, More...>>(steps);
  double const u = unit<Policy>;
  CHECK(difference(parallel.loss, serial.loss) <= u);
  CHECK(difference(parallel.norm, serial.norm) <= gradient_bound * u);
  CHECK(difference(parallel, serial, &whole_parameter::gradient) <= gradient_bound * u);
  for (auto const& one : serial.parameter) {
    std::string const& name = one.first;  // clang 14 captures no structured binding
    whole_parameter const& expected = one.second;
    double value = 0, gradient = 0, off = 0;
    auto const& found = parallel.parameter.at(name).value;
    for (std::size_t i = 0; i < found.size(); ++i) {
      value = std::fmax(value, std::fabs(expected.value[i]));
      gradient = std::fmax(gradient, std::fabs(expected.gradient[i]));
      off = std::fmax(off, std::fabs(found[i] - expected.value[i]));
    }
    // The gradient of another step may be twice that of the last; 2^-24 is the smallest step of float16.
    double const moved = steps * learning_rate * gradient_bound * u * 2 * gradient;
    CAPTURE(name);
    CHECK(off <= 2 * u * value + moved + 0x1p-24);
  }
}
}  // namespace

TEST_CASE("data ranks in mixed precision") {
  compare<gpt2_untied, bf16_mixed, 1, ranks<2, 1, 1>>(8);
  compare<gpt2_tied, bf16_mixed, 2, ranks<2, 1, 1>, zero<2>>(8);
  compare<gpt2_tied, fp16_mixed, 2, ranks<2, 1, 1>, zero<3>>(8);
}
TEST_CASE("tensor ranks in mixed precision, and in tf32") {
  compare<gpt2_tied, bf16_mixed, 2, ranks<1, 1, 2>>(16);
  compare<llama_grouped, fp16_mixed, 1, ranks<1, 1, 4>>(16);
  compare<gpt2_tied, tf32, 1, ranks<1, 1, 2>>(16);
}
TEST_CASE("all three in mixed precision, with a table tied over two stages") {
  compare<gpt2_tied, bf16_mixed, 4, ranks<2, 2, 2>, zero<3>, pipeline<one_f_one_b>>(16);
  compare<gpt2_tied, fp16_mixed, 4, ranks<2, 2, 2>, zero<1>, pipeline<one_f_one_b>>(16);
}

}  // namespace equivalence
