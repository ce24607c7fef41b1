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
/// HEDDLE_ALIGNED(pointer, bytes): what is accessed there is at a multiple of `bytes`. A device faults where it is not;
/// a host's processor does not, so the emulation looks.
#define HEDDLE_ALIGNED(pointer, bytes) static_cast<void>(0)
#endif
