// SPDX-License-Identifier: Apache-2.0
// A train step in mixed precision on a device, and products in tf32: compiled for the default architectures and linked
// with the CUDA runtime and cuBLASLt. Without a device the green link is the pass.
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda.hpp>
#include <heddle/backend/cuda/device.hpp>
#include <heddle/backend/cuda/shared_device.hpp>
#include <heddle/models/gpt2.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/train/trainer.hpp>
#include <vector>

namespace hd = heddle;

namespace {

struct two_ranks : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::zero<2>, hd::precision<hd::bf16_mixed>> {};
using gpt =
    hd::gpt2<hd::gpt2_config{.vocabulary = 65, .context = 16, .layers = 2, .heads = 2, .width = 32, .dropout = 0.1}>;

template <class Model>
void train() {
  using communicator = hd::cuda::shared_device_communicator;
  hd::cuda::run_shared_device(two_ranks::mesh::size, 0, [](communicator& world) {
    using trainer = hd::basic_trainer<Model, two_ranks, hd::cuda_backend>;
    hd::mesh_communicator<typename two_ranks::mesh, communicator> rank(world);
    trainer run(rank);
    std::vector<std::int32_t> const ids(trainer::local_tokens, 1);
    (void)run.step(ids, ids);
    (void)run.logits(ids);
    hd::cuda::device_arena<float> const x(3 * 16 * 16);
    hd::cuda_backend::tfloat32_products::product<16, 16, 16, false, true>(x.data(), x.data() + 256, x.data() + 512);
  });
}

}  // namespace

int main() {
  if (hd::cuda::device_count() == 0) return 0;
  train<gpt>();
}
