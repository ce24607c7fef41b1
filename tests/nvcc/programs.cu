// SPDX-License-Identifier: Apache-2.0
// What users write for devices, as nvcc takes it, in one program: train steps of both models through the device backend
// on ranks that share a device, one in mixed precision, products in tf32; every operation of such ranks and, with
// NVIDIA's header, of ranks over NCCL; and the whole of examples/18_devices.cu, which brings the host backend. Compiled
// for the default architectures and linked with the CUDA runtime, cuBLASLt and NCCL. Without a device the green link is
// the pass.
//
// nvcc's front end must read the declarations as the host compilers do: it once chose other specialisations without a
// word. Whole models are counted, so a module that comes out differently shows.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <heddle/backend/cuda.hpp>
#include <heddle/backend/cuda/device.hpp>
#include <heddle/cuda.hpp>
#include <heddle/cuda/run.hpp>
#include <heddle/layout/names.hpp>
#include <heddle/models/gpt2.hpp>
#include <heddle/models/llama.hpp>
#include <heddle/models/with_frozen.hpp>
#include <heddle/plan/ledger.hpp>
#include <heddle/train/trainer.hpp>
#include <span>
#include <vector>
#ifdef HEDDLE_WITH_NCCL
#include <cuda_bf16.h>

#include <heddle/cuda/nccl.hpp>
#endif

namespace devices {
#include "../../examples/18_devices.cu"
}  // namespace devices

namespace hd = heddle;

namespace counted {

using backend = hd::cuda_backend;
struct one_rank : hd::plan<> {};
struct three_d : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>, hd::micro_batch<4>,
                          hd::accumulate<3>> {};
using gpt2_124m = hd::gpt2<hd::gpt2_config{}>;
using llama_7b = hd::llama<hd::llama_config{}>;

static_assert(hd::count_parameters<hd::resolved<gpt2_124m, one_rank, backend>>() == 124439808);
static_assert(hd::count_parameters<hd::resolved<gpt2_124m, three_d, backend>>() == 124439808);
static_assert(hd::count_parameters<hd::resolved<llama_7b, one_rank, backend>>() == 6738415616);

using tuned = hd::with_frozen<gpt2_124m, "wte", "lm_head", "wpe", "h.attn">;
static_assert(hd::count_all_parameters<hd::resolved<tuned, three_d, backend>>().all == 124439808);
static_assert(hd::count_all_parameters<hd::resolved<tuned, three_d, backend>>().trained ==
              12 * (8 * 768 * 768 + 5 * 768 + 4 * 768) + 2 * 768);
// All but the last norm: no backward reaches the layers.
using ended = hd::with_frozen<gpt2_124m, "wte", "lm_head", "wpe", "h">;
static_assert(hd::stage_partition<hd::resolved<ended, three_d, backend>>::stage<hd::stage_kind::middle>::saved == 0);

using middle = hd::stage_partition<hd::resolved<gpt2_124m, three_d, backend>>::stage<hd::stage_kind::middle>;
constexpr hd::traffic_table forward = [] {
  hd::traffic_table t{};
  middle::count_forward(t, {});
  return t;
}();
// Six layers of a stage, two pairs each, over the third axis.
static_assert(forward.of(2, hd::comm::operation::all_gather).calls == 12 &&
              forward.of(2, hd::comm::operation::reduce_scatter).calls == 12);

}  // namespace counted

namespace {

using gpt =
    hd::gpt2<hd::gpt2_config{.vocabulary = 65, .context = 16, .layers = 2, .heads = 2, .width = 32, .dropout = 0.1}>;
using llama = hd::llama<hd::llama_config{
    .vocabulary = 65, .context = 16, .layers = 2, .heads = 4, .kv_heads = 2, .width = 64, .mlp = 96}>;
struct two_ranks : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::zero<3>> {};
struct mixed : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::zero<2>, hd::precision<hd::bf16_mixed>> {};

template <class Model, class Plan>
void train() {
  hd::run<Plan>(hd::shared_device, [](auto& rank) {
    using trainer = hd::basic_trainer<Model, Plan, hd::cuda_backend>;
    trainer run(rank);
    std::vector<std::int32_t> const ids(trainer::local_tokens, 1);
    (void)run.step(ids, ids);
    (void)run.logits(ids);
  });
}

void tfloat32() {
  hd::cuda::device_arena<float> const x(3 * 16 * 16);
  hd::cuda_backend::tfloat32_products::product<16, 16, 16, false, true>(x.data(), x.data() + 256, x.data() + 512);
}

template <class T, class Group>
void every_operation(Group& group) {
  using memory = typename Group::memory;
  std::size_t const n = group.size();
  typename memory::template arena<T> const whole(8 * n), other(8 * n), part(8);
  std::span<T> const x(whole.data(), 8 * n), y(other.data(), 8 * n), p(part.data(), 8);
  std::vector<std::size_t> const lengths(n, 8);
  for (hd::comm::reduction const how : {hd::comm::reduction::sum, hd::comm::reduction::max, hd::comm::reduction::min}) {
    group.all_reduce(x, how);
    group.reduce_scatter(x, p, how);
  }
  group.all_gather(p, x);
  std::array<hd::comm::gather_part<T>, 1> const parts{{{p, x}}};
  group.all_gather(hd::comm::gather_parts(parts));
  group.all_to_all(x, y);
  group.all_to_all(x, lengths, y, lengths);
  group.broadcast(x, 0);
  typename Group::handle one = group.all_reduce_async(x);
  typename Group::handle two = group.rank() == 0 ? group.send_async(p, 1) : group.receive_async(p, 0);
  two.wait();
  one.wait();
  group.barrier();
}

struct two_by_two : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::tp, 2>>> {};

}  // namespace

int main() {
  if (hd::cuda::device_count() == 0) return 0;
  if (devices::main() != 0) return 1;
  train<gpt, two_ranks>();
  train<llama, two_ranks>();
  train<gpt, mixed>();
  tfloat32();
  hd::run<two_by_two>(hd::shared_device, [](auto& rank) {
    every_operation<float>(rank.template along<hd::tp>());
    every_operation<double>(rank.template along<hd::dp>());
  });
#ifdef HEDDLE_WITH_NCCL
  // Of types that NCCL reduces and that it does not.
  auto const over_nccl = [](auto& rank) {
    every_operation<float>(rank.template along<hd::tp>());
    every_operation<__nv_bfloat16>(rank.template along<hd::dp>());
    every_operation<std::int16_t>(rank.template along<hd::dp>());
  };
  hd::run<two_by_two>(hd::nccl, over_nccl);
  hd::run<two_by_two>(hd::nccl_threads, over_nccl);
#endif
}
