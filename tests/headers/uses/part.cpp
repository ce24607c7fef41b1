// SPDX-License-Identifier: Apache-2.0
#include <heddle/heddle.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "core.hpp"

namespace uses {

/// Moves pending sums of two halves, on thread ranks.
inline double moved() {
  constexpr hd::redistribution path = hd::find_redistribution(grid::value, value::value, pending::value, dealt::value);
  std::vector<double> total(grid::size);
  hd::comm::run_threads(grid::size, [&](hd::comm::thread_communicator& world) {
    hd::mesh_communicator<grid, hd::comm::thread_communicator> rank(world);
    std::vector<float> in(path.from_size, 0.5F), out(path.to_size);
    std::vector<float> scratch(hd::redistribution_scratch(grid::value, path));
    hd::redistribute(rank, path, in.data(), out.data(), scratch.data());
    double sum = 0;
    for (float element : out) sum += static_cast<double>(element);
    rank.all_reduce(3U, std::span<double>(&sum, 1), hd::comm::reduction::sum);
    rank.template along<hd::tp>().barrier();
    total[rank.rank()] = sum;
  });
  return total[3];
}

struct one_rank : hd::plan<hd::accumulate<2>> {};
inline double trained() {
  constexpr std::string_view text = "to be or not to be";
  auto const tokens = hd::character_vocabulary(text).encode(text);
  hd::random_windows const sampler(tokens.size(), gpt::context, 1);
  double loss = 0;
  hd::run<one_rank>(hd::threads, [&](auto& rank) {
    hd::trainer<gpt, one_rank> trainer{rank, {.seed = 1}};
    hd::token_batch batch(trainer.shape(), gpt::context);
    batch.fill(sampler, tokens, 0, trainer.data_rank());
    loss = trainer.step(batch, hd::cosine_schedule({1e-3, 1e-4, 2, 10})(0)).loss.mean();
  });
  return loss + static_cast<double>(hd::describe<gpt, one_rank>().size());
}

}  // namespace uses

double HEDDLE_PART() { return uses::core() + uses::moved() + uses::trained(); }
