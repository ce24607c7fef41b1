// SPDX-License-Identifier: Apache-2.0
#pragma once
// What kernels need of a device beside CUDA's own names. With HEDDLE_EMULATED_DEVICE a host compiler builds them for
// tests/emulation, which puts its folder on the include path.
#if defined(HEDDLE_EMULATED_DEVICE)
#include <device.hpp>
#else
#include <cuda_runtime.h>

/// HEDDLE_SHARED(name, size, type): an array of the block in shared memory.
#define HEDDLE_SHARED(name, size, ...) __shared__ __VA_ARGS__ name[size]
/// HEDDLE_DYNAMIC_SHARED(name): the block's dynamic shared memory, as much as the launch gives. `name.take<T>(size)` is
/// the next array in it, from a multiple of 16 bytes on; all threads take the same.
#define HEDDLE_DYNAMIC_SHARED(name)                                      \
  extern __shared__ __align__(16) unsigned char heddle_dynamic_shared[]; \
  ::heddle::kernels::dynamic_shared name(heddle_dynamic_shared)
/// Before a loop of a constant number of turns: its body is written out, so that arrays which it indexes are registers.
#define HEDDLE_UNROLL _Pragma("unroll")
/// HEDDLE_ALIGNED(pointer, bytes): what is accessed there is at a multiple of `bytes`. A device faults where it is not;
/// a host's processor does not, so the emulation looks.
#define HEDDLE_ALIGNED(pointer, bytes) static_cast<void>(0)

namespace heddle::kernels {
class dynamic_shared {
 public:
  __device__ explicit dynamic_shared(unsigned char* begin) : next_(begin) {}
  template <class T>
  __device__ T* take(int size) {
    T* const taken = reinterpret_cast<T*>(next_);
    next_ += (size * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
    return taken;
  }

 private:
  unsigned char* next_;
};
}  // namespace heddle::kernels
#endif
