// SPDX-License-Identifier: Apache-2.0
// Ranks over NCCL as nvcc takes them, with NVIDIA's header: every operation, of types that NCCL reduces and that it
// does not, and a plan's run.
#include <cuda_bf16.h>

#include <cstdint>
#include <heddle/cuda/nccl.hpp>
#include <vector>

template <>
struct heddle::comm::element_traits<__nv_bfloat16>
    : heddle::comm::detail::element_traits_of<heddle::comm::element_kind::bfloat16, float> {};

namespace hd = heddle;

static_assert(hd::comm::Communicator<hd::cuda::nccl_communicator>);

template <class T>
void all_of(hd::cuda::nccl_communicator& group, hd::cuda::device_arena<T> const& room) {
  std::span<T> const data(room.data(), room.size());
  std::span<T const> const read = data;
  group.all_reduce(data, hd::comm::reduction::max);
  group.reduce_scatter(read, data.first(1));
  group.all_gather(read.first(1), data);
  group.all_to_all(read, data);
  group.broadcast(data, 0);
  group.send_async(data, 1).wait();
  group.receive(data, 1);
  group.barrier();
}

struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::micro_batch<1>> {};

int main() {
  auto const rank = [](auto& mine) {
    auto& group = mine.template along<hd::dp>();
    all_of(group, hd::cuda::device_arena<float>(8));
    all_of(group, hd::cuda::device_arena<__nv_bfloat16>(8));
    all_of(group, hd::cuda::device_arena<std::int16_t>(8));
  };
  hd::run<plan>(hd::nccl, rank);
  hd::run<plan>(hd::nccl_threads, rank);
}
