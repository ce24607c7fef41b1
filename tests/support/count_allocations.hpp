// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

/// Replaces the C library's allocation functions, under which operator new and Eigen's own allocator end, by counting
/// ones. For programs of one source file, on glibc, without sanitizers.
namespace heddle::testing {

inline thread_local bool counting = false;
inline thread_local std::size_t allocations = 0;
/// Of all threads of the process, those that the library starts too.
inline std::atomic<std::size_t> allocations_of_process{0};

/// What malloc was asked for by this thread while it was `counting`: with an alignment of 128 bytes or more, which
/// blocks of arenas alone ask for (detail/pages.hpp), and the rest. Operator new rounds a block up to a multiple of its
/// alignment, all of them by less than `rounding`.
struct given_memory {
  std::size_t blocks = 0, rounding = 0, other = 0;
};
inline thread_local given_memory given;

inline void count_allocation(std::size_t bytes, std::size_t alignment = 0) {
  allocations_of_process.fetch_add(1, std::memory_order_relaxed);
  if (!counting) return;
  ++allocations;
  (alignment >= 128 ? given.blocks : given.other) += bytes;
  if (alignment >= 128) given.rounding += alignment;
}

/// How often this thread allocates in `work`; `given` is what.
template <class Work>
std::size_t allocations_of(Work work) {
  allocations = 0;
  given = {};
  counting = true;
  work();
  counting = false;
  return allocations;
}

}  // namespace heddle::testing

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  heddle::testing::count_allocation(bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  heddle::testing::count_allocation(n * bytes);
  return __libc_calloc(n, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  heddle::testing::count_allocation(bytes);
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  heddle::testing::count_allocation(bytes, alignment);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  heddle::testing::count_allocation(bytes, alignment);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
