// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <heddle/heddle.hpp>

#include "reference/reference_values.hpp"
#include "tiny.hpp"

/// Whole models against what PyTorch computes in fp64 (tests/reference): losses, norms, gradients and parameters after
/// one and three steps.
///
/// Bounds. Both programs work in fp64 on sums of at most a few hundred terms of order 1, in other orders: 1e-12 is far
/// above their roundings. AdamW divides a gradient by its own size: an error of 1e-17 in an element of size g moves the
/// parameter by lr · 1e-17 / g. So 1e-10 holds where gradients are above 1e-9, and for the key biases, whose gradient
/// is zero but for noise of 1e-17, it is 1e-17 / ε · lr = 1e-11 a step.
namespace heddle::testing {

constexpr double same_sum = 1e-12, same_update = 1e-10;

template <class Plan, class Trainer, class Rank>
void check_parameters(Trainer& trainer, Rank& rank, reference::model_values const& expected,
                      std::vector<double> reference::parameter_values::*what, bool of_gradient) {
  for (std::size_t n = 0; n < trainer.parameter_count(); ++n) {
    auto const p = trainer.parameter(n);
    // The second copy of a tied table goes by the name of its own use.
    auto const& whole = expected[p.owned ? std::string(p.entry->name.view()) : "wte.weight"].*what;
    double worst = 0;
    for_each_run(map_of_parameter<typename Plan::mesh>(trainer, n, rank.at()),
                 [&](std::size_t begin, std::size_t count, std::uint64_t global) {
                   for (std::size_t i = 0; i < count; ++i) {
                     double const found = (of_gradient ? p.gradient : p.value)[begin + i];
                     double const d = std::fabs(found - whole.at(global + i));
                     worst = std::isfinite(d) ? std::fmax(worst, d) : HUGE_VAL;
                   }
                 });
    CAPTURE(p.entry->name.view());
    CHECK(worst <= (of_gradient ? same_sum : same_update));
  }
}

template <class Model, class Plan>
void compare_with_reference(reference::model_values const& expected) {
  using trainer_type = basic_trainer<Model, Plan, host_backend>;
  static_assert(trainer_type::global_batch_size == 3);
  auto const& o = expected.optimizer;
  run<Plan>(threads, [&](auto& rank) {
    trainer_type trainer(
        rank,
        {.learning_rate = o.learning_rate,
         .clip = o.clip_norm,
         .optimizer = {.beta1 = o.beta_1, .beta2 = o.beta_2, .epsilon = o.epsilon, .weight_decay = o.weight_decay}});
    CAPTURE(rank.rank());
    for (auto const& p : expected.parameters) {
      set_parameter<typename Plan::mesh>(trainer, rank.at(), p.name, [&](std::uint64_t k) { return p.initial(k); });
      if (p.name == "wte.weight" && expected.model.count("tied") != 0 && expected.model.at("tied") != 0)
        set_parameter<typename Plan::mesh>(trainer, rank.at(), "lm_head.weight",
                                           [&](std::uint64_t k) { return p.initial(k); });
    }
    for (std::size_t n = 0; n < trainer.parameter_count(); ++n) {
      auto const p = trainer.parameter(n);
      if (!p.owned) continue;
      auto const& there = expected[p.entry->name.view()];
      CAPTURE(there.name);
      CHECK(p.entry->decays == there.decays);
      CHECK(p.entry->dims.size() == there.gradient.size());
      REQUIRE(p.entry->dims.rank == there.dims.size());
      for (std::size_t k = 0; k < there.dims.size(); ++k) CHECK(p.entry->dims.dim[k].size == there.dims[k]);
    }
    REQUIRE(expected.steps.size() == 3);
    for (std::size_t s = 0; s < 3; ++s) {
      auto const& there = expected.steps[s];
      auto const result = step_on(trainer, s, [&](std::size_t, std::size_t g, std::size_t t) {
        return example{there.tokens[g][t], there.targets[g][t]};
      });
      CAPTURE(s);
      CHECK(std::fabs(result.loss.sum - there.loss_sum) <= same_update * there.loss_sum);
      CHECK(std::fabs(result.loss.mean() - there.loss_mean) <= same_update * there.loss_mean);
      CHECK(std::fabs(result.gradient_norm - there.gradient_norm) <= same_update * there.gradient_norm);
      using values = reference::parameter_values;
      if (s == 0) {
        CHECK(std::fabs(result.loss.sum - there.loss_sum) <= same_sum * there.loss_sum);
        CHECK(std::fabs(result.gradient_norm - there.gradient_norm) <= same_sum * there.gradient_norm);
        CHECK(result.gradient_norm > o.clip_norm);  // so the clip takes part
        check_parameters<Plan>(trainer, rank, expected, &values::gradient, true);
        check_parameters<Plan>(trainer, rank, expected, &values::after_1, false);
      }
      if (s == 2) check_parameters<Plan>(trainer, rank, expected, &values::after_3, false);
    }
  });
}

/// The batch of 3 on one rank whole, on one rank in three micro-batches, over pipeline and tensor ranks, and over data
/// ranks.
struct one_rank : plan<micro_batch<3>, precision<fp64>> {};
struct pp2_tp2 : plan<mesh<axis<pp, 2>, axis<tp, 2>>, accumulate<3>, precision<fp64>> {};
struct dp3_pp2 : plan<mesh<axis<dp, 3>, axis<pp, 2>>, precision<fp64>> {};

template <class Model>
void compare_all_plans(std::string const& name) {
  auto const expected = reference::load(HEDDLE_REFERENCE_FOLDER, name);
  SUBCASE("one rank") { compare_with_reference<Model, one_rank>(expected); }
  SUBCASE("pp2 tp2 with the sequence rule, three micro-batches") { compare_with_reference<Model, pp2_tp2>(expected); }
  SUBCASE("dp3 pp2") { compare_with_reference<Model, dp3_pp2>(expected); }
}

}  // namespace heddle::testing
