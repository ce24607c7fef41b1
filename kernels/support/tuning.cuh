// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a kernel is compiled and launched with, by the compute capability of the device it is for: 10·major + minor, 80
/// for sm_80. A kernel's template arguments are what its tuning says, so whoever compiles it for an architecture
/// launches it alike, whatever device it then runs on. A tuning may change the order of sums; it never depends on what
/// only the running device knows, such as its number of multiprocessors.
namespace heddle::kernels {

/// Shared memory that a block can have, static and dynamic together, in bytes; more than 48 KiB are dynamic, and the
/// kernel must be told (cudaFuncSetAttribute). CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability". Of a capability that is not known, what all have.
constexpr int block_shared_bytes(int capability) {
  switch (capability) {
    case 70:
    case 72:
      return 96 * 1024;
    case 75:
      return 64 * 1024;
    case 80:
    case 87:
      return 163 * 1024;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99 * 1024;
    case 90:
    case 100:
    case 103:
    case 110:
      return 227 * 1024;
    default:
      return 48 * 1024;
  }
}

/// `mma` of bfloat16 and half as `support/mma.cuh` has it.
constexpr bool has_tensor_cores(int capability) { return capability >= 80; }

/// The tuning of a kernel with nothing to choose but the size of its blocks.
struct block_tuning {
  int threads;
};

/// tuning<Kernel>::at(capability) is what `Kernel`, an empty type that names a kernel with what it is a template over,
/// is compiled and launched with. Kernels with more to choose than the size of a block specialise it, beside
/// themselves.
template <class Kernel>
struct tuning {
  static constexpr block_tuning at(int) { return {256}; }
};

}  // namespace heddle::kernels
