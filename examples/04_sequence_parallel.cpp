// SPDX-License-Identifier: Apache-2.0
// 03, with the sequence rule.
#include <cstdio>
#include <heddle/heddle.hpp>
#include <string>

#include "rhyme.hpp"

namespace hd = heddle;

// [model]
using model =
    hd::gpt2<hd::gpt2_config{.vocabulary = alphabet_size, .context = 32, .layers = 4, .heads = 4, .width = 32}>;
// [/model]

// [plan]
struct plan : hd::plan<hd::mesh<hd::axis<hd::tp, 2>>, hd::global_batch<16>, hd::sequence_parallel<true>> {};
struct without : hd::plan<hd::mesh<hd::axis<hd::tp, 2>>, hd::global_batch<16>, hd::sequence_parallel<false>> {};
// [/plan]

// [constants]
using operation = hd::comm::operation;
constexpr std::size_t layers = model::config.layers;
constexpr auto sent = hd::ledger<model, plan>::traffic(plan::mesh::value.coordinates_of(0));
constexpr auto sent_without = hd::ledger<model, without>::traffic(without::mesh::value.coordinates_of(0));
// Each of the layers' all-reduces has become a reduce-scatter and an all-gather (arXiv 2205.05198, section 4.2.2), and
// so have the embedding's and the head's.
static_assert(sent.of(0, operation::reduce_scatter).calls == 4 * layers + 2);
static_assert(sent.of(0, operation::all_gather).calls == 4 * layers + 2);
// Memory falls, since what lies between the layers' products is split too.
static_assert(hd::ledger<model, plan>::peak_bytes < hd::ledger<model, without>::peak_bytes);
// [/constants]

namespace {

// [values]
/// The values of a model under a plan that lie differently from module to module, and what is moved for that.
template <class Plan>
void print_values(char const* title) {
  using resolved = hd::resolved<model, Plan, hd::host_backend>;
  using whole = hd::placed<typename model::module, typename resolved::modules, typename resolved::tokens>;
  constexpr hd::mesh_value mesh = Plan::mesh::value;
  std::printf("%s\n", title);
  hd::for_each_value<whole>([&](hd::placed_value const& v) {
    std::string const before = describe(mesh, v.input_path), after = describe(mesh, v.output_path);
    if (before.empty() && after.empty()) return;
    std::printf("  %-12s %-45s %s\n", v.where.c_str(), describe(mesh, v.dims, v.at).c_str(),
                before.empty() ? ("output " + after).c_str() : ("input " + before).c_str());
  });
}
// [/values]

void print_sent(char const* title, hd::traffic_table const& t) {
  std::printf("%s\n", title);
  for (auto op : {operation::all_reduce, operation::reduce_scatter, operation::all_gather})
    std::printf("  %-14s %2zu calls %9zu bytes\n", hd::comm::name_of(op), t.of(0, op).calls, t.of(0, op).bytes);
  std::printf("  in all                  %9zu bytes\n", t.bytes());
}

}  // namespace

int main() {
  // [show]
  print_values<without>("without the sequence rule");
  print_values<plan>("with it");
  print_sent("sent in a step, without", sent_without);
  print_sent("sent in a step, with", sent);
  // [/show]
  // [data]
  auto const tokens = hd::character_vocabulary(rhyme).encode(rhyme);
  hd::random_windows const sampler(tokens.size(), model::context, 1);
  // [/data]
  double loss = 0;
  // [train]
  hd::run<plan>(hd::threads, [&](auto& rank) {
    hd::trainer<model, plan> trainer{rank, {.seed = 1, .learning_rate = 5e-3, .clip = 1}};
    hd::token_batch batch(trainer.shape(), model::context);
    for (std::size_t step = 0; step < 100; ++step) {
      batch.fill(sampler, tokens, step, trainer.data_rank());
      double const mean = trainer.step(batch).loss.mean();
      if (rank.rank() != 0) continue;
      if (step % 20 == 0) std::printf("step %3zu  loss %.4f\n", step, mean);
      loss = mean;
    }
  });
  // [/train]
  std::printf("last      loss %.4f\n", loss);
  return loss < 1.2 ? 0 : 1;
}
