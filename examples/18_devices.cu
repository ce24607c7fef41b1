// SPDX-License-Identifier: Apache-2.0
// 02, on an NVIDIA device that both ranks share; beside it, the same on the host.
#include <cmath>
#include <cstdio>
#include <heddle/cuda.hpp>
#include <vector>

#include "rhyme.hpp"

namespace hd = heddle;

using model =
    hd::gpt2<hd::gpt2_config{.vocabulary = alphabet_size, .context = 32, .layers = 2, .heads = 4, .width = 32}>;
struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::global_batch<16>> {};

// [constants]
// Parameters, state, activations and what is sent do not depend on where they are; scratch of primitives may.
using on_device = hd::cuda::ledger<model, plan>;
using on_host = hd::ledger<model, plan>;
static_assert(on_device::parameters == on_host::parameters);
static_assert(on_device::traffic({}).bytes() == on_host::traffic({}).bytes());
// [/constants]

constexpr std::size_t steps = 3;

// [train]
/// The losses of some steps, on the ranks that `where` makes.
template <class Trainer, class Where>
std::vector<double> losses(Where where, hd::random_windows const& windows, hd::token_buffer const& text) {
  std::vector<double> out;
  hd::run<plan>(where, [&](auto& rank) {
    Trainer trainer{rank, {.learning_rate = 5e-3, .clip = 1}};
    hd::token_batch batch(trainer.shape(), model::context);
    for (std::size_t step = 0; step < steps; ++step) {
      batch.fill(windows, text, step, trainer.data_rank());
      double const loss = trainer.step(batch).loss.mean();
      if (rank.rank() == 0) out.push_back(loss);
    }
  });
  return out;
}
// [/train]

int main() {
  std::printf("%s\n", hd::cuda::describe<model, plan>().c_str());
  auto const text = hd::character_vocabulary(rhyme).encode(rhyme);
  hd::random_windows const windows(text.size(), model::context, 1);
  // [run]
  auto const device = losses<hd::cuda::trainer<model, plan>>(hd::shared_device, windows, text);
  auto const host = losses<hd::trainer<model, plan>>(hd::threads, windows, text);
  // [/run]
  std::printf("step    device    host\n");
  bool alike = true;
  for (std::size_t step = 0; step < steps; ++step) {
    std::printf("%4zu  %.6f  %.6f\n", step, device[step], host[step]);
    // Sums in another order, in fp32, and updates that divide by the gradient's size.
    alike = alike && std::fabs(device[step] - host[step]) < 1e-4;
  }
  return alike ? 0 : 1;
}
