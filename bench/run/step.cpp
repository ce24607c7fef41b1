// SPDX-License-Identifier: Apache-2.0
// Where a training step's time goes: milliseconds per step and rank, by primitive, with the rate of products and
// attention, as it is and of what the same threads reach at once in multiply-adds that stay in registers. Waiting for
// gathers of parameters and for buckets of gradients are rows of their own. What no row accounts for is packing
// buckets, and the trainer's own work between the calls. Last, the products of a step by themselves, as often as they
// occur, each on operands of its own that it has used before: what the product gives in the same run, and how much of
// that is left in a step, whose operands come from memory.
//
//   step [MODEL [THREADS [STEPS]]]     default: tiny, 1 thread per rank, 20 steps after 3 that are not counted
// MODEL is tiny, under four plans; or gpt2-124m-64 or gpt2-124m-256: four sequences of so many tokens, on one rank,
// the logits in larger and smaller chunks; or gpt2-124m-dp2: four sequences of 64 tokens, on two ranks, ZeRO 0 and 3.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <heddle/heddle.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "peak.hpp"
#include "timed_backend.hpp"
#include "timed_communicator.hpp"

namespace {

namespace hd = heddle;

/// nanoGPT's Shakespeare shape for a CPU.
using tiny =
    hd::gpt2<hd::gpt2_config{.vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128, .biased = false}>;
/// The same with biases and dropout.
using with_passes = hd::gpt2<hd::gpt2_config{
    .vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128, .biased = true, .dropout = 0.1}>;

template <std::size_t Context>
using gpt2_124m = hd::gpt2<hd::gpt2_config{.context = Context}>;
struct four : hd::plan<hd::global_batch<4>> {};
struct four_chunked : hd::plan<hd::global_batch<4>, hd::logit_chunk<16 * hd::MiB>> {};

struct serial : hd::plan<hd::global_batch<12>> {};
template <std::size_t Batch, int Stage>
struct dp2 : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::zero<Stage>, hd::global_batch<Batch>> {};
struct three_d : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>, hd::global_batch<12>,
                          hd::accumulate<3>> {};

/// Seconds of the products of a step, called one after the other on the ranks at once.
double seconds_alone(std::vector<bench::recorded_product> const& products) {
  std::size_t a = 0, b = 0, c = 0;
  for (auto const& p : products) {
    a = std::max(a, p.a_bytes);
    b = std::max(b, p.b_bytes);
    c = std::max(c, p.c_bytes);
  }
  hd::arena<std::byte> const left(a), right(b), out(c);
  double seconds = 0;
  for (auto const& p : products) {
    p.run(left.data(), right.data(), out.data());
    auto const begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < p.calls; ++i) p.run(left.data(), right.data(), out.data());
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return seconds;
}

template <class Model, class Plan>
void measure(char const* name, std::size_t team, std::size_t steps) {
  using trainer_type = hd::basic_trainer<Model, Plan, bench::timed_backend>;
  std::vector<bench::spent> ranks(Plan::mesh::size);
  std::vector<double> step_seconds(steps), alone_seconds(Plan::mesh::size);
  std::size_t const all = team * Plan::mesh::size;
  // Of threads that share cores there is no peak to compare with: a stopwatch runs on while another thread has the
  // core.
  bool const own_cores = all <= std::thread::hardware_concurrency();
  double peak = own_cores ? bench::peak_of(all) : 0;
  // As hd::run does, with a stopwatch around communication.
  hd::comm::run_threads(Plan::mesh::size, [&](hd::comm::thread_communicator& world) {
    hd::host::thread_team const helpers(team, own_cores);
    using timed = bench::timed_communicator<hd::comm::thread_communicator>;
    timed own(world.split(0, world.rank(), "world"));
    hd::mesh_communicator<typename Plan::mesh, timed> rank(own);
    trainer_type trainer(rank, {.clip = 1.0});
    std::vector<std::int32_t> tokens(trainer_type::local_tokens), targets(trainer_type::local_tokens);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(i * 7 % Model::vocabulary);
      targets[i] = static_cast<std::int32_t>((i * 7 + 7) % Model::vocabulary);
    }
    for (int warm_up = 0; warm_up < 2; ++warm_up) trainer.step(tokens, targets);
    std::vector<bench::recorded_product> products;
    bench::products_of_step = &products;
    trainer.step(tokens, targets);
    bench::products_of_step = nullptr;
    bench::mine = {};
    for (std::size_t s = 0; s < steps; ++s) {
      auto const begin = std::chrono::steady_clock::now();
      trainer.step(tokens, targets);
      if (rank.rank() == 0)
        step_seconds[s] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    ranks[rank.rank()] = bench::mine;
    alone_seconds[rank.rank()] = seconds_alone(products);
  });
  if (own_cores) peak = std::max(peak, bench::peak_of(all)) / static_cast<double>(Plan::mesh::size);
  double const mean = std::accumulate(step_seconds.begin(), step_seconds.end(), 0.0) / static_cast<double>(steps);
  std::sort(step_seconds.begin(), step_seconds.end());
  double const median = step_seconds[steps / 2];
  double const tokens = static_cast<double>(Plan::global_batch_size * Model::context);
  std::printf("\n%s: %zu ranks × %zu threads, %.2f ms a step (median; fastest %.2f, mean %.2f), %.0f tokens/s\n", name,
              Plan::mesh::size, team, 1e3 * median, 1e3 * step_seconds[0], 1e3 * mean, tokens / median);
  std::printf("  %-20s %10s %8s %10s %10s\n", "primitive", "ms a rank", "share", "GFLOP/s", "of peak");
  double const share_of = static_cast<double>(steps) * static_cast<double>(Plan::mesh::size);
  double accounted = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(bench::primitive::count); ++k) {
    double seconds = 0, flop = 0;
    for (auto const& r : ranks) {
      seconds += r.seconds[k];
      flop += r.flop[k];
    }
    if (seconds == 0) continue;
    accounted += seconds / share_of;
    std::printf("  %-20s %10.3f %7.1f%%", bench::primitive_names[k], 1e3 * seconds / share_of,
                100 * seconds / share_of / mean);
    if (flop > 0) std::printf(" %10.1f", flop / seconds / 1e9);
    if (flop > 0 && own_cores) std::printf(" %10.2f", flop / seconds / peak);
    std::printf("\n");
  }
  std::printf("  %-20s %10.3f %7.1f%%\n", "everything else", 1e3 * (mean - accounted), 100 * (mean - accounted) / mean);
  constexpr auto product = static_cast<std::size_t>(bench::primitive::product);
  double flop = 0, inside = 0, alone = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    flop += ranks[r].flop[product] / static_cast<double>(steps);
    inside += ranks[r].seconds[product] / static_cast<double>(steps);
    alone += alone_seconds[r];
  }
  std::printf("  %-20s %10.3f %8s %10.1f", "products alone", 1e3 * alone / static_cast<double>(ranks.size()), "",
              flop / alone / 1e9);
  if (own_cores) std::printf(" %10.2f", flop / alone / peak);
  std::printf("; in the step they run at %.2f of that\n", alone / inside);
  if (own_cores) std::printf("  peak %.1f GFLOP/s a rank, %zu threads at once\n", peak / 1e9, all);
}

}  // namespace

int main(int argc, char** argv) {
  std::string const model = argc > 1 ? argv[1] : "tiny";
  long const threads = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 1;
  long const count = argc > 3 ? std::strtol(argv[3], nullptr, 10) : 20;
  if (threads < 1 || count < 1 ||
      (model != "tiny" && model != "gpt2-124m-64" && model != "gpt2-124m-256" && model != "gpt2-124m-dp2")) {
    std::fprintf(stderr,
                 "step: takes tiny, gpt2-124m-64, gpt2-124m-256 or gpt2-124m-dp2, then threads and steps of at "
                 "least 1\n");
    return 2;
  }
  auto const team = static_cast<std::size_t>(threads), steps = static_cast<std::size_t>(count);
  if (model == "tiny") {
    measure<tiny, serial>("tiny, serial", team, steps);
    measure<with_passes, serial>("tiny with biases and dropout, serial", team, steps);
    measure<tiny, dp2<12, 0>>("tiny, dp2", team, steps);
    measure<tiny, dp2<12, 3>>("tiny, dp2, ZeRO 3", team, steps);
    measure<tiny, three_d>("tiny, dp2-pp2-tp2", team, steps);
  } else if (model == "gpt2-124m-64") {
    measure<gpt2_124m<64>, four>("gpt2-124m, 4 x 64", team, steps);
    measure<gpt2_124m<64>, four_chunked>("gpt2-124m, 4 x 64, logits in 4 chunks", team, steps);
  } else if (model == "gpt2-124m-dp2") {
    measure<gpt2_124m<64>, dp2<4, 0>>("gpt2-124m, 4 x 64, dp2", team, steps);
    measure<gpt2_124m<64>, dp2<4, 3>>("gpt2-124m, 4 x 64, dp2, ZeRO 3", team, steps);
  } else {
    measure<gpt2_124m<256>, four>("gpt2-124m, 4 x 256", team, steps);
    measure<gpt2_124m<256>, four_chunked>("gpt2-124m, 4 x 256, logits in 16 chunks", team, steps);
  }
}
