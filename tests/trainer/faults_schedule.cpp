// SPDX-License-Identifier: Apache-2.0
// known-faults PS-1: fewer micro-batches than stages, as many, more.
#include <cmath>
#include <heddle/heddle.hpp>

#include "comm/watchdog.hpp"
#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace faults_schedule {
namespace {
using words = dim<vocab, 5>;
using width = dim<embed, 4>;
using hidden = dim<mlp, 4>;
using model = model_of<2, named<"in", embedding<words, width, normal(1)>>,
                       named<"h", repeat<dim<layers, 4>, residual<sequential<named<"up", linear<width, hidden>>, gelu,
                                                                             named<"down", linear<hidden, width>>>>>>,
                       named<"out", product<dims<width>, dims<words>, normal(1)>>, cross_entropy<words>>;

template <class Schedule, std::size_t Stages, std::size_t MicroBatches>
struct row : plan<mesh<axis<pp, Stages>>, pipeline<Schedule>, accumulate<MicroBatches>, precision<fp64>> {};

example data(std::size_t s, std::size_t g, std::size_t t) {
  return {static_cast<std::int32_t>((s + 2 * g + t) % 5), static_cast<std::int32_t>((s + 3 * g + t * t) % 5)};
}

/// Four stages in either schedule against one stage with the same micro-batches.
template <std::size_t MicroBatches>
void check_micro_batches() {
  auto const one = train<model, row<gpipe, 1, MicroBatches>>({}, 2, data);
  auto const check = [&](trained const& found) {
    for (auto const& p : one.parameter) {  // clang 14 captures no structured binding in CAPTURE
      CAPTURE(p.first);
      for (std::size_t i = 0; i < p.second.gradient.size(); ++i)
        CHECK(std::fabs(found.parameter.at(p.first).gradient[i] - p.second.gradient[i]) <=
              1e-13);  // sums of a few dozen terms
    }
    CHECK(std::fabs(found.step[1].loss.sum - one.step[1].loss.sum) <= 1e-12);
  };
  watchdog const dog(std::chrono::seconds(10));
  check(train<model, row<gpipe, 4, MicroBatches>>({}, 2, data));
  check(train<model, row<one_f_one_b, 4, MicroBatches>>({}, 2, data));
}
}  // namespace

TEST_CASE("PS-1: four stages, one micro-batch") { check_micro_batches<1>(); }
TEST_CASE("PS-1: four stages, two micro-batches") { check_micro_batches<2>(); }
TEST_CASE("PS-1: four stages, three micro-batches") { check_micro_batches<3>(); }
TEST_CASE("PS-1: four stages, four micro-batches") { check_micro_batches<4>(); }
TEST_CASE("PS-1: four stages, five micro-batches") { check_micro_batches<5>(); }

}  // namespace faults_schedule
