// SPDX-License-Identifier: Apache-2.0
// known-faults CT-5: a kernel may call what is marked for it, without nvcc's relaxed constexpr, and what is not marked
// is refused rather than taken silently. Without a device the green compilation is the pass.
#include <heddle/detail/philox.hpp>
#include <heddle/layout/mesh.hpp>
#include <heddle/tensor/random_key.hpp>

namespace hd = heddle;

#if defined(REJECT_HOST_FUNCTION)  // expect: from a __global__ function("kernel") is not allowed
// shows: coordinates_of
__global__ void kernel(hd::mesh_value const* mesh, hd::coordinates* out) { *out = mesh->coordinates_of(threadIdx.x); }
#elif defined(REJECT_HOST_FUNCTION_BELOW)  // expect: from a __host__ __device__ function("below") is not allowed
__host__ __device__ inline std::size_t below(hd::mesh_value const* mesh) { return mesh->coordinates_of(1)[0]; }
__global__ void kernel(hd::mesh_value const* mesh, std::size_t* out) { *out = below(mesh); }
#else
__global__ void kernel(hd::random_key key, double* out, float* dropped) {
  hd::random_stream const numbers(key);
  hd::random_stream const none{};
  std::uint64_t const i = threadIdx.x;
  hd::detail::philox_block const block = numbers.block(i / 4, 2);
  hd::detail::philox_block const again = hd::detail::philox4x32(numbers.counter(i / 4, 2), numbers.key());
  out[i] = hd::normal(numbers.word(i), numbers.word(i, 1)) + hd::uniform<double>(none.word(i)) +
           static_cast<double>(block.word[i % 4] ^ again.word[i % 4]);
  if (numbers.word(i, 3) <= hd::dropout_limit(0.25)) dropped[i] = hd::uniform<float>(numbers.word(i));
}
void launch(double* out, float* dropped) { kernel<<<1, 32>>>({.seed = 1, .step = 2, .site = 3}, out, dropped); }
#endif
