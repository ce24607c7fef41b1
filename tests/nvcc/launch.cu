// SPDX-License-Identifier: Apache-2.0
// What launches and copies as a train step does, through backend/cuda: compiled for the default architectures and
// linked with the CUDA runtime. Without a device the green link is the pass.
#include <array>
#include <cstddef>
#include <heddle/backend/cuda/device.hpp>
#include <heddle/backend/cuda/event.hpp>
#include <heddle/backend/cuda/graph.hpp>
#include <heddle/backend/cuda/launch.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/nvtx.hpp>
#include <heddle/backend/cuda/status.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <rotary/rotary.cuh>
#include <span>
#include <support/device.cuh>

namespace hd = heddle;

namespace {

struct pair {
  float* out;
  float const* in;
};
template <int Threads>
__global__ void through(pair arrays, float by, int n) {
  extern __shared__ float staged[];
  int const i = static_cast<int>(blockIdx.x) * Threads + static_cast<int>(threadIdx.x);
  staged[threadIdx.x] = i < n ? arrays.in[i] : 0.0F;
  __syncthreads();
  if (i < n) arrays.out[i] = staged[threadIdx.x] * by;
}
__global__ void nothing() {}

template <int Threads>
void step(hd::cuda::stream_ref compute, hd::cuda::stream_ref copies, std::size_t n) {
  hd::cuda::nvtx_range const range("step");
  hd::cuda::device_arena<float> const in(n), out(n);
  hd::cuda::pinned_arena<float> const host(n);
  hd::cuda::event const made, copied;
  std::span<float> const to(out.data(), n), there(host.data(), n);
  hd::cuda::executable_graph const graph = hd::cuda::capture(compute, [&] {
    hd::cuda::copy_to_device<float>(compute, {in.data(), n}, there);
    std::array const uses{use_of(hd::cuda::writes(out.data(), n)), use_of(hd::cuda::reads(in.data(), n))};
    hd::cuda::launch<through<Threads>>({.grid = static_cast<unsigned>((n + Threads - 1) / Threads),
                                        .block = Threads,
                                        .shared_bytes = Threads * sizeof(float)},
                                       compute, hd::cuda::carries(pair{out.data(), in.data()}, uses), 2.0, n);
    hd::cuda::launch<nothing>({1, 1}, compute);
    hd::cuda::launch<hd::kernels::rotary<float, 64, 128>>({1, 128}, compute, in.data(), out.data(), in.data(),
                                                          in.data(), -1, 1, 1, 1);
    compute.record(made);
    copies.wait(made);
    hd::cuda::copy_to_host<float>(copies, there, to);
    copies.record(copied);
    compute.wait(copied);
  });
  graph.replay(compute);
  compute.synchronize();
}

}  // namespace

int main() {
  if (hd::cuda::device_count() == 0) return 0;
  hd::cuda::stream const compute, copies;
  step<128>(compute, copies, 1000);
}
