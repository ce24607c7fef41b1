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

inline void count_allocation() {
  allocations_of_process.fetch_add(1, std::memory_order_relaxed);
  if (counting) ++allocations;
}

/// What this thread allocates in `work`.
template <class Work>
std::size_t allocations_of(Work work) {
  allocations = 0;
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
  heddle::testing::count_allocation();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  heddle::testing::count_allocation();
  return __libc_calloc(n, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  heddle::testing::count_allocation();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  heddle::testing::count_allocation();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  heddle::testing::count_allocation();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
