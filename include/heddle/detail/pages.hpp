// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace heddle::detail {

/// A block of this size or more is aligned to huge pages, and the kernel is asked for them: a walk through 500 MB of
/// weights in pages of 4 KiB misses the translation buffer at each of them.
inline constexpr std::size_t huge_page = std::size_t{1} << 21;
constexpr std::align_val_t block_alignment(std::size_t bytes) {
  return std::align_val_t{bytes >= huge_page ? huge_page : 128};
}

struct free_block {
  std::size_t bytes = 0;
  void operator()(void* memory) const noexcept { ::operator delete(memory, block_alignment(bytes)); }
};
/// A block of memory, aligned to 128 bytes at least.
using memory_block = std::unique_ptr<std::byte, free_block>;

inline memory_block allocate_block(std::size_t bytes) {
  void* const memory = ::operator new(bytes, block_alignment(bytes));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  // Whole huge pages only: no more memory than was asked for. A refusal costs speed alone.
  if (bytes >= huge_page) (void)::madvise(memory, bytes / huge_page * huge_page, MADV_HUGEPAGE);
#endif
  return {static_cast<std::byte*>(memory), free_block{bytes}};
}

}  // namespace heddle::detail
