// SPDX-License-Identifier: Apache-2.0
// 06, with an optimizer and a pipeline schedule from outside the library.
#include <array>
#include <cstdio>
#include <heddle/heddle.hpp>

#include "rhyme.hpp"

namespace hd = heddle;

// [optimizer]
namespace mine {

/// Lion (Chen et al., arXiv 2302.06675, algorithm 2): the sign of a moment, which is its only state.
struct lion {
  static constexpr std::size_t slots = 1;
  struct options {
    double beta1 = 0.9;
    double beta2 = 0.99;
    double weight_decay = 0.1;
  };
  static constexpr std::array<hd::option_value, 3> values(options const& o) {
    return {{{"beta1", o.beta1}, {"beta2", o.beta2}, {"weight_decay", o.weight_decay}}};
  }

  template <class Backend, class T>
  static void update(options const& o, hd::update_facts const& facts, T* w, T const* g,
                     std::array<T*, slots> const& state, std::size_t n) {
    T const rate = T(facts.learning_rate), decay = facts.decays ? T(o.weight_decay) : T(0);
    for (std::size_t i = 0; i < n; ++i) {
      T const gradient = g[i] * T(facts.gradient_scale);
      T const direction = T(o.beta1) * state[0][i] + T(1 - o.beta1) * gradient;
      w[i] -= rate * (T(direction > 0) - T(direction < 0) + decay * w[i]);
      state[0][i] = T(o.beta2) * state[0][i] + T(1 - o.beta2) * gradient;
    }
  }
};
static_assert(hd::Optimizer<lion>);

}  // namespace mine
// [/optimizer]

// [schedule]
namespace mine {

/// 1F1B with twice the warm-up (eager 1F1B: Zhuang et al., arXiv 2211.05322): each stage runs so far ahead that a slow
/// transfer is on its way while the stage computes on another micro-batch.
struct eager {
  static constexpr void order(std::size_t stage, std::size_t stages, std::size_t micro_batches,
                              hd::schedules::compute_order& out) {
    std::size_t const twice = 2 * (stages - 1 - stage);
    std::size_t const ahead = twice < micro_batches ? twice : micro_batches;
    for (std::size_t m = 0; m < ahead; ++m) out.forward(m);
    for (std::size_t m = ahead; m < micro_batches; ++m) {
      out.forward(m);
      out.backward(m - ahead);
    }
    for (std::size_t m = micro_batches - ahead; m < micro_batches; ++m) out.backward(m);
  }
};

// Where a transfer takes half as long as a forward: as soon done as GPipe, with less in flight.
constexpr hd::schedules::schedule_costs slow_links{.forward = 2, .backward = 4, .transfer = 1};
template <class Schedule>
constexpr auto time = hd::schedules::schedule_analysis<Schedule, 2, 4, slow_links>::makespan;
template <class Schedule>
constexpr auto in_flight = hd::schedules::schedule_table<Schedule, 2, 4>::peak_in_flight(0);
static_assert(time<hd::gpipe> == 32 && time<hd::one_f_one_b> == 34 && time<eager> == 32);
static_assert(in_flight<hd::gpipe> == 4 && in_flight<hd::one_f_one_b> == 2 && in_flight<eager> == 3);

}  // namespace mine
// [/schedule]

using model =
    hd::gpt2<hd::gpt2_config{.vocabulary = alphabet_size, .context = 32, .layers = 4, .heads = 4, .width = 32}>;

// [plan]
struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>, hd::global_batch<16>,
                       hd::accumulate<4>, hd::pipeline<mine::eager>, hd::optimizer<mine::lion>> {};

using ledger = hd::ledger<model, plan>;
static_assert(ledger::memory(0).of(hd::memory_category::optimizer_state) ==  // AdamW's would be twice that
              ledger::memory(0).of(hd::memory_category::parameters));
static_assert(ledger::bubble == hd::ratio{1, 5});
// [/plan]

int main() {
  auto const tokens = hd::character_vocabulary(rhyme).encode(rhyme);
  hd::random_windows const sampler(tokens.size(), model::context, 1);
  double loss = 0;
  // [train]
  hd::run<plan>(hd::threads, [&](auto& rank) {
    hd::trainer<model, plan> trainer{
        rank, {.seed = 1, .learning_rate = 1e-3, .clip = 1, .optimizer = {.beta2 = 0.95, .weight_decay = 0.01}}};
    // [/train]
    hd::token_batch batch(trainer.shape(), model::context);
    for (std::size_t step = 0; step < 100; ++step) {
      batch.fill(sampler, tokens, step, trainer.data_rank());
      double const mean = trainer.step(batch).loss.mean();
      if (rank.rank() != 0) continue;
      if (step % 20 == 0) std::printf("step %3zu  loss %.4f\n", step, mean);
      loss = mean;
    }
  });
  std::printf("last      loss %.4f\n", loss);
  return loss < 1.5 ? 0 : 1;
}
