// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <support/device.cuh>
#include <type_traits>

/// Products of small matrices by a warp on tensor cores, sm_80 and up: the instructions `mma.sync.aligned.m16n8k16` and
/// `ldmatrix` of the PTX ISA, whose layouts are repeated here. All lanes of a warp call together. T is __nv_bfloat16 or
/// __half; a register has two of its elements, the first in the low half. With g = lane / 4 and t = lane % 4:
///   a, 16 x 16:  a[0] row g, columns 2t, 2t + 1;  a[1] row g + 8;  a[2], a[3] the same, 8 columns on
///   b, 16 x 8:   b0 rows 2t, 2t + 1, column g;  b1 8 rows on
///   c, 16 x 8:   c[0], c[1] row g, columns 2t, 2t + 1;  c[2], c[3] row g + 8
namespace heddle::kernels {

template <class T>
inline constexpr bool has_mma = std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, __half>;

/// Two elements of T as a register of a fragment.
template <class T>
__device__ unsigned fragment_of(float low, float high) {
  static_assert(has_mma<T> && sizeof(T) == 2);
  unsigned out = 0;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    __nv_bfloat162 const both = __floats2bfloat162_rn(low, high);
    std::memcpy(&out, &both, sizeof out);
  } else {
    __half2 const both = __floats2half2_rn(low, high);
    std::memcpy(&out, &both, sizeof out);
  }
  return out;
}

}  // namespace heddle::kernels

#if defined(HEDDLE_EMULATED_DEVICE)
#include <mma.hpp>
#else
namespace heddle::kernels {

/// c += a·b, in float.
template <class T>
__device__ void mma(float (&c)[4], unsigned const (&a)[4], unsigned b0, unsigned b1) {
  static_assert(has_mma<T>);
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four matrices of 8 x 8 elements of 16 bits from shared memory: matrix i's row j begins at element `at` of lane
/// 8i + j, a multiple of 16 bytes. out[i] of a lane is row g, columns 2t and 2t + 1.
template <class T, class Shared>
__device__ void load_matrices(unsigned (&out)[4], Shared const& from, int at) {
  unsigned const address = static_cast<unsigned>(__cvta_generic_to_shared(from + at));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
/// The same, and each matrix transposed: out[i] of a lane is rows 2t and 2t + 1, column g.
template <class T, class Shared>
__device__ void load_transposed(unsigned (&out)[4], Shared const& from, int at) {
  unsigned const address = static_cast<unsigned>(__cvta_generic_to_shared(from + at));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}

}  // namespace heddle::kernels
#endif
