// SPDX-License-Identifier: Apache-2.0
// The reference files are whole, and their own arithmetic holds: what a comparison with them relies on.
#include "reference_values.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace reference = heddle::reference;

namespace {
std::string const folder = HEDDLE_REFERENCE_FOLDER;

double relative(double a, double b) { return std::abs(a - b) / std::max(std::abs(a), std::abs(b)); }
}  // namespace

TEST_CASE("the integer formula has the script's values") {
  // make_reference.py: element(0, 0), element(3, 41)
  CHECK(reference::element(0, 0) == -0.33324915263801813);
  CHECK(reference::element(3, 41) == 0.017415718641132116);
}

TEST_CASE("each file is whole and agrees with itself") {
  for (char const* name : {"gpt2_tied", "gpt2_untied", "llama"}) {
    CAPTURE(name);
    auto const values = reference::load(folder, name);
    REQUIRE(values.steps.size() == 3);
    CHECK(values.model.at("vocabulary") == 13);
    double sum_of_squares = 0;
    for (auto const& parameter : values.parameters) {
      CAPTURE(parameter.name);
      std::size_t count = 1;
      for (auto dim : parameter.dims) count *= dim;
      REQUIRE(parameter.gradient.size() == count);
      REQUIRE(parameter.after_1.size() == count);
      REQUIRE(parameter.after_3.size() == count);
      for (auto g : parameter.gradient) sum_of_squares += g * g;
    }
    auto const& first = values.steps.front();
    CHECK(relative(std::sqrt(sum_of_squares), first.gradient_norm) < 1e-14);

    // One AdamW step by hand. At step 1 both bias corrections cancel: the update is g / (|g| + epsilon).
    auto const& o = values.optimizer;
    double const factor = std::min(1.0, o.clip_norm / first.gradient_norm);
    CHECK(factor < 1);
    for (auto const& parameter : values.parameters) {
      double const kept = parameter.decays ? 1 - o.learning_rate * o.weight_decay : 1;
      double worst = 0;
      for (std::size_t k = 0; k < parameter.gradient.size(); ++k) {
        double const g = factor * parameter.gradient[k];
        double const expected = kept * parameter.initial(k) - o.learning_rate * g / (std::abs(g) + o.epsilon);
        worst = std::max(worst, std::abs(expected - parameter.after_1[k]));
      }
      CAPTURE(parameter.name);
      CHECK(worst < 1e-14);  // a few roundings of values below 1.1
    }

    for (auto const& step : values.steps) {
      REQUIRE(step.tokens.size() == values.batch);
      for (std::size_t b = 0; b < values.batch; ++b) {
        REQUIRE(step.tokens[b].size() == 6);
        for (std::size_t t = 0; t + 1 < 6; ++t) CHECK(step.targets[b][t] == step.tokens[b][t + 1]);
      }
      CHECK(relative(step.loss_sum, 18 * step.loss_mean) < 1e-15);
    }
  }
}

TEST_CASE("a missing file or parameter is named") {
  CHECK_THROWS_WITH_AS(reference::load("nowhere", "llama"), doctest::Contains("nowhere/llama.json"), heddle::error);
  auto const values = reference::load(folder, "llama");
  CHECK_THROWS_WITH_AS(values["wpe.weight"], doctest::Contains("'wpe.weight'; there are wte.weight"), heddle::error);
}
