// SPDX-License-Identifier: Apache-2.0
// The tests' test: what a device does not forgive is found, and said.
#include <doctest/doctest.h>

#include <support/device.cuh>
#include <support/mma.cuh>
#include <support/shared_pack.cuh>
#include <support/vector.cuh>
#include <vector>

#include "launch.hpp"

namespace {

using heddle::emulation::fault;
using heddle::emulation::launch;

/// The text of the fault that the kernel is ended with.
template <auto Kernel, class... Arguments>
std::string found(unsigned threads, Arguments... arguments) {
  try {
    launch<Kernel>(dim3(1), dim3(threads), arguments...);
  } catch (fault const& e) {
    return e.what();
  }
  return "nothing";
}
/// The same with dynamic shared memory.
template <auto Kernel, class... Arguments>
std::string found_with(std::size_t bytes, unsigned threads, Arguments... arguments) {
  try {
    launch<Kernel>(dim3(1), dim3(threads), heddle::emulation::dynamic_shared_bytes{bytes}, arguments...);
  } catch (fault const& e) {
    return e.what();
  }
  return "nothing";
}
bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

/// Each thread leaves its number and takes its neighbour's. Written before, the elements are not found to be empty.
template <bool Before, bool Waits>
void exchange(int* out) {
  HEDDLE_SHARED(number, 64, int);
  int const me = static_cast<int>(threadIdx.x);
  if (Before) {
    number[me] = -1;
    __syncthreads();
  }
  number[me] = me;
  if (Waits) __syncthreads();
  out[me] = number[(me + 1) % 64];
}
/// The same within warps, of which the lanes of `mask` wait for each other.
void exchange_in_warps(unsigned mask, int* out) {
  HEDDLE_SHARED(number, 64, int);
  int const me = static_cast<int>(threadIdx.x);
  number[me] = -1;
  __syncthreads();
  number[me] = me;
  if ((mask >> me % 32 & 1U) != 0) __syncwarp(mask);
  out[me] = number[me ^ 1];
}
/// A barrier of a part of the lanes that are there: the emulation knows none, and takes it for no barrier.
void exchange_in_half(int* out) {
  HEDDLE_SHARED(number, 16, int);
  int const me = static_cast<int>(threadIdx.x);
  if (me < 16) {
    number[me] = me;
    __syncwarp(0xFFFFU);
    out[me] = number[me ^ 1];
  }
  __syncthreads();
}
/// All write one element.
template <bool Waits>
void write_twice() {
  HEDDLE_SHARED(number, 1, int);
  for (int turn = 0; turn < 32; ++turn) {
    if (turn == static_cast<int>(threadIdx.x)) number[0] = turn;
    if (Waits) __syncthreads();
  }
}
/// The last lane writes what all lanes of its warp have read.
template <bool Waits>
void write_after_lanes(int* out) {
  HEDDLE_SHARED(number, 1, int);
  int const me = static_cast<int>(threadIdx.x);
  if (me == 0) number[0] = 7;
  __syncthreads();
  out[me] = number[0];
  if (Waits) __syncwarp();
  if (me == 31) number[0] = 8;
}
/// Twice through the same element: the second time must wait for those who read the first.
template <int Writer, bool Waits>
void broadcast_twice(int* out) {
  HEDDLE_SHARED(word, 1, int);
  int const me = static_cast<int>(threadIdx.x);
  int sum = 0;
  for (int turn = 1; turn <= 2; ++turn) {
    if (me == Writer) word[0] = turn;
    __syncthreads();
    sum += word[0];
    if (Waits) __syncthreads();
  }
  out[me] = sum;
}
void outside() {
  HEDDLE_SHARED(number, 8, int);
  number[threadIdx.x] = 1;
}
void unwritten(int* out) {
  HEDDLE_SHARED(number, 64, int);
  if (threadIdx.x != 7) number[threadIdx.x] = 1;
  out[threadIdx.x] = number[threadIdx.x];
}
void divergent() {
  if (threadIdx.x < 16) __syncthreads();
}
void two_barriers() {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __syncthreads();
}
void shuffle_with(unsigned mask, unsigned callers, int* out) {
  if (threadIdx.x < callers) out[threadIdx.x] = __shfl_xor_sync(mask, static_cast<int>(threadIdx.x), 1);
}
void shuffle_from(int source, int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xFFFFU, static_cast<int>(threadIdx.x), source);
}
void two_masks(int* out) { out[threadIdx.x] = __shfl_xor_sync(threadIdx.x < 8 ? 0xFFFFFFFFU : 0xFFFFFF80U, 1, 1); }
/// What each lane gets of the others' numbers, in whole warps and in segments of 8.
void moved(int* up, int* down, int* one, int* votes) {
  int const me = static_cast<int>(threadIdx.x);
  up[me] = __shfl_up_sync(~0U, me, 3);
  down[me] = __shfl_down_sync(~0U, me, 3);
  one[me] = __shfl_sync(~0U, me, 5);
  up[32 + me] = __shfl_up_sync(~0U, me, 3, 8);
  down[32 + me] = __shfl_down_sync(~0U, me, 3, 8);
  one[32 + me] = __shfl_sync(~0U, me, 5, 8);
  votes[me] = static_cast<int>(__ballot_sync(~0U, me % 2)) == static_cast<int>(0xAAAAAAAAU) ? 1 : 0;
  votes[me] += (__any_sync(~0U, me == 9) != 0 ? 2 : 0) + (__any_sync(~0U, me == 32) == 0 ? 4 : 0);
  votes[me] += (__all_sync(~0U, me < 32) != 0 ? 8 : 0) + (__all_sync(~0U, me != 9) == 0 ? 16 : 0);
}
/// The lanes of each half of a warp meet those of the other at a place of their own.
template <bool Votes>
void two_places(int* out) {
  int const me = static_cast<int>(threadIdx.x);
  if (me < 16)
    out[me] = Votes ? __any_sync(~0U, me) : __shfl_xor_sync(~0U, me, 1);
  else
    out[me] = Votes ? __any_sync(~0U, me) : __shfl_xor_sync(~0U, me, 1);
}
/// At one place, and with numbers of two types.
void two_types(int* out) {
  int const me = static_cast<int>(threadIdx.x);
  auto const swapped = [](auto value) { return __shfl_xor_sync(~0U, value, 1); };
  out[me] = me < 16 ? swapped(me) : static_cast<int>(swapped(double(me)));
}
void two_widths(int* out) {
  int const me = static_cast<int>(threadIdx.x);
  out[me] = __shfl_xor_sync(~0U, me, 1, me < 16 ? 32 : 16);
}
/// A barrier of a warp may be met from two places.
void two_syncs(int* out) {
  HEDDLE_SHARED(number, 32, int);
  int const me = static_cast<int>(threadIdx.x);
  number[me] = me;
  if (me < 16)
    __syncwarp();
  else
    __syncwarp();
  out[me] = number[31 - me];
}
/// One line declares an array for each of its instances.
template <class T, int Size>
T first_of(T value) {
  HEDDLE_SHARED(number, Size, T);
  if (threadIdx.x == 0) number[Size - 1] = value;
  __syncthreads();
  return number[Size - 1];
}
void instances(double* out) {
  double const one = first_of<char, 3>(1), two = first_of<double, 3>(2.5), three = first_of<double, 40>(3);
  out[threadIdx.x] = one + two + three;
}
template <class T, int Threads>
void sized() {}
void pack_at(float* p, bool store) {
  if (store)
    heddle::kernels::store_pack(p, heddle::kernels::pack<float>{}, 4, true);
  else
    p[0] = heddle::kernels::load_pack<float>(p, 4, true)[0];
}
/// Two arrays of dynamic shared memory, one after the other.
template <bool Waits>
void exchange_in_dynamic(int* out) {
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const byte = memory.take<char>(5);
  auto const number = memory.take<int>(64);
  int const me = static_cast<int>(threadIdx.x);
  if (me < 5) byte[me] = static_cast<char>(me);
  number[me] = me;
  if (Waits) __syncthreads();
  out[me] = number[63 - me] + byte[4];
}
void outside_of_dynamic(int at, int* out) {
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const first = memory.take<int>(4);
  auto const second = memory.take<int>(4);
  if (threadIdx.x == 0)
    for (int i = 0; i < 4; ++i) first[i] = second[i] = i;
  out[0] = first[at];
}
void takes_unlike() {
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const first = memory.take<int>(threadIdx.x < 16 ? 4 : 8);
  if (threadIdx.x == 0) first[0] = 0;
}
void takes_other_types() {
  HEDDLE_DYNAMIC_SHARED(memory);
  if (threadIdx.x < 16)
    memory.take<int>(4);
  else
    memory.take<float>(4);
}
void static_and_dynamic() {
  HEDDLE_SHARED(number, 1024, double);
  number[threadIdx.x] = 1;
}
void packs_of_shared(int at) {
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const number = memory.take<float>(16);
  heddle::kernels::store_shared<float>(number, at, {});
}

/// Each thread adds its number; the first sets the sum to 0 before, and reads it after.
template <bool Waits, bool Sets>
void add_up(int* out, int* global) {
  HEDDLE_SHARED(sum, 1, int);
  if (Sets && threadIdx.x == 0) sum[0] = 0;
  __syncthreads();
  atomicAdd(&sum[0], static_cast<int>(threadIdx.x));
  atomicAdd(global, 2);
  if (Waits) __syncthreads();
  if (threadIdx.x == 63) out[0] = sum[0];
}
/// An atomic operation of one thread and an assignment of another.
void atomic_and_not() {
  HEDDLE_SHARED(word, 1, int);
  if (threadIdx.x == 0) word[0] = 0;
  __syncthreads();
  if (threadIdx.x == 0) word[0] = 1;
  if (threadIdx.x == 1) atomicAdd(&word[0], 1);
}
void largest_and_first(int* out) {
  HEDDLE_SHARED(word, 2, int);
  int const me = static_cast<int>(threadIdx.x);
  if (me < 2) word[me] = -1;
  __syncthreads();
  atomicMax(&word[0], me * 7 % 64);
  int const before = atomicCAS(&word[1], -1, me);
  __syncthreads();
  out[me] = word[0] * 1000 + word[1] * 100 + (before == -1 ? 1 : 0);
}

/// a[16, 16]·b[8, 16]ᵀ + c of one warp, by the fragments' layouts that support/mma.cuh has: from memory that the lanes
/// read themselves, or by `ldmatrix`. b is stored by columns, or by rows and read transposed.
template <class T>
unsigned two_of(T const* at, int next) {
  return heddle::kernels::fragment_of<T>(static_cast<float>(at[0]), static_cast<float>(at[next]));
}
template <class T, bool Loads, bool ByRows>
void multiply(T const* a, T const* b, float* c) {
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const left = memory.take<T>(16 * 24);
  auto const right = memory.take<T>(16 * 24);
  int const lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  unsigned x[4], y[4];
  if (Loads) {
    for (int i = lane; i < 256; i += 32) left[i / 16 * 24 + i % 16] = a[i];
    // Of b by columns 8 columns of 16; by rows 16 of 8. The rest is not used, and must be there.
    for (int i = lane; i < 16 * 24; i += 32) right[i] = T(0.0F);
    __syncwarp();
    for (int i = lane; i < 128; i += 32) right[ByRows ? i / 8 * 24 + i % 8 : i / 16 * 24 + i % 16] = b[i];
    __syncwarp();
    heddle::kernels::load_matrices<T>(x, left, lane % 16 * 24 + lane / 16 * 8);
    if (ByRows)
      heddle::kernels::load_transposed<T>(y, right, lane % 16 * 24 + lane / 16 * 8);
    else
      heddle::kernels::load_matrices<T>(y, right, (lane % 8 + lane / 16 * 8) * 24 + lane / 8 % 2 * 8);
  } else {
    for (int i = 0; i < 4; ++i) x[i] = two_of(a + (g + i % 2 * 8) * 16 + t * 2 + i / 2 * 8, 1);
    for (int i = 0; i < 2; ++i)
      y[i] = ByRows ? two_of(b + (t * 2 + i * 8) * 8 + g, 8) : two_of(b + g * 16 + t * 2 + i * 8, 1);
  }
  float sum[4];
  for (int i = 0; i < 4; ++i) sum[i] = c[(g + i / 2 * 8) * 8 + t * 2 + i % 2];
  heddle::kernels::mma<T>(sum, x, y[0], y[1]);
  for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = sum[i];
}
template <class T>
void check_product() {
  for (int form = 0; form < 4; ++form) {
    std::vector<T> a(256), b(128);
    std::vector<float> c(128), expected(128);
    auto const integer = [](std::size_t i) { return static_cast<float>(static_cast<int>(i * 37 % 17) - 8); };
    for (std::size_t i = 0; i < 256; ++i) a[i] = T(integer(i));
    for (std::size_t i = 0; i < 128; ++i) b[i] = T(integer(i + 3));
    for (std::size_t i = 0; i < 128; ++i) c[i] = expected[i] = integer(i + 5);
    bool const by_rows = form % 2 == 1;
    for (std::size_t m = 0; m < 16; ++m)
      for (std::size_t n = 0; n < 8; ++n)
        for (std::size_t k = 0; k < 16; ++k)
          expected[m * 8 + n] +=
              static_cast<float>(a[m * 16 + k]) * static_cast<float>(b[by_rows ? k * 8 + n : n * 16 + k]);
    auto const kernel = form == 0   ? found_with<multiply<T, false, false>, T const*, T const*, float*>
                        : form == 1 ? found_with<multiply<T, false, true>, T const*, T const*, float*>
                        : form == 2 ? found_with<multiply<T, true, false>, T const*, T const*, float*>
                                    : found_with<multiply<T, true, true>, T const*, T const*, float*>;
    CHECK(kernel(2 * 16 * 24 * sizeof(T), 32U, a.data(), b.data(), c.data()) == "nothing");
    CHECK(c == expected);
  }
}
/// Lanes from `missing` on stay away.
void mma_without(unsigned missing) {
  float c[4] = {};
  unsigned const a[4] = {};
  if (threadIdx.x < missing) heddle::kernels::mma<__half>(c, a, 0, 0);
}
void mma_of_two_types() {
  auto const multiplied = [](auto zero) {
    float c[4] = {};
    unsigned const a[4] = {};
    heddle::kernels::mma<decltype(zero)>(c, a, 0, 0);
  };
  if (threadIdx.x < 16)
    multiplied(__half{});
  else
    multiplied(__nv_bfloat16{});
}
void mma_at_two_places() {
  float c[4] = {};
  unsigned const a[4] = {};
  if (threadIdx.x < 16)
    heddle::kernels::mma<__half>(c, a, 0, 0);
  else
    heddle::kernels::mma<__half>(c, a, 0, 0);
}
/// What is wrong with it, by `fault`: nothing, a row at an odd place, no barrier, rows of two arrays, an element that
/// is not there.
enum class matrix_fault { none, odd, race, arrays, outside };
template <matrix_fault Fault>
void load_rows_with(unsigned* out) {
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const first = memory.take<__half>(32 * 8);
  auto const second = memory.take<__half>(32 * 8);
  int const me = static_cast<int>(threadIdx.x);
  for (int j = 0; j < 8; ++j) first[me * 8 + j] = second[me * 8 + j] = __half(static_cast<float>(me));
  if (Fault != matrix_fault::race) __syncwarp();
  unsigned four[4];
  int const row = me * 8 + (Fault == matrix_fault::odd && me == 9 ? 4 : 0);
  heddle::kernels::load_matrices<__half>(four, Fault == matrix_fault::arrays && me == 3 ? second : first,
                                         Fault == matrix_fault::outside && me == 31 ? 256 : row);
  out[me] = four[3];
}
void greedy() {
  HEDDLE_SHARED(number, 6145, double);
  number[threadIdx.x] = 1;
}
void throws() {
  if (threadIdx.x == 3) throw std::runtime_error("of its own");
  __syncthreads();
}

}  // namespace

TEST_CASE("a missing barrier is a race, and with it the kernel is right") {
  std::vector<int> out(64, -1);
  CHECK(found<exchange<false, true>>(64, out.data()) == "nothing");
  for (int t = 0; t < 64; ++t) CHECK(out[static_cast<std::size_t>(t)] == (t + 1) % 64);
  // Threads run one after the other, so the first finds its neighbour's place empty.
  std::string text = found<exchange<false, false>>(64, out.data());
  CHECK_MESSAGE(has(text, "thread (0, 0, 0) reads element 1 of the 64 in shared memory declared at faults.cpp"), text);
  CHECK(has(text, "which nobody has written"));
  // Or, where it is not empty, takes what stood there before.
  CHECK(found<exchange<true, true>>(64, out.data()) == "nothing");
  text = found<exchange<true, false>>(64, out.data());
  CHECK_MESSAGE(has(text, "thread (1, 0, 0) writes element 1 of the 64"), text);
  CHECK_MESSAGE(has(text, "which thread (0, 0, 0) read with no barrier between"), text);
}
TEST_CASE("a missing barrier of a warp is a race, as is one of a part of its lanes") {
  std::vector<int> out(64, -1);
  CHECK(found<exchange_in_warps>(64, ~0U, out.data()) == "nothing");
  for (int t = 0; t < 64; ++t) CHECK(out[static_cast<std::size_t>(t)] == (t ^ 1));
  CHECK(has(found<exchange_in_warps>(64, 0U, out.data()), "thread (1, 0, 0) writes element 1 of the 64"));
  CHECK(found<exchange_in_half>(16, out.data()) == "nothing");
  CHECK(has(found<exchange_in_half>(32, out.data()), "which thread (1, 0, 0) wrote with no barrier between"));
}
TEST_CASE("two writes of one element, and a write after reads of one warp, are races without a barrier") {
  std::vector<int> out(64, -1);
  CHECK(found<write_twice<true>>(32) == "nothing");
  std::string text = found<write_twice<false>>(32);
  CHECK_MESSAGE(has(text, "thread (1, 0, 0) writes element 0 of the 1"), text);
  CHECK_MESSAGE(has(text, "which thread (0, 0, 0) wrote with no barrier between"), text);
  CHECK(found<write_after_lanes<true>>(32, out.data()) == "nothing");
  CHECK(out[31] == 7);
  text = found<write_after_lanes<false>>(32, out.data());
  CHECK_MESSAGE(has(text, "thread (31, 0, 0) writes element 0 of the 1"), text);
  CHECK_MESSAGE(has(text, "which other threads read with no barrier between"), text);
  CHECK(has(found<write_after_lanes<true>>(64, out.data()), "which other threads read"));  // of the other warp, too
}
TEST_CASE("writing what others may still read is a race") {
  std::vector<int> out(64, -1);
  CHECK(found<broadcast_twice<0, true>>(64, out.data()) == "nothing");
  CHECK(out == std::vector<int>(64, 3));
  std::string text = found<broadcast_twice<63, false>>(64, out.data());
  CHECK_MESSAGE(has(text, "thread (63, 0, 0) writes element 0 of the 1 in shared memory"), text);
  CHECK_MESSAGE(has(text, "which other threads read with no barrier between"), text);
  text = found<broadcast_twice<0, false>>(64, out.data());
  CHECK_MESSAGE(has(text, "thread (1, 0, 0) reads element 0 of the 1 in shared memory"), text);
  CHECK_MESSAGE(has(text, "which thread (0, 0, 0) wrote with no barrier between"), text);
}
TEST_CASE("an index outside, and a value that nobody wrote") {
  std::vector<int> out(64);
  CHECK(has(found<outside>(32), "thread (8, 0, 0) uses element 8 of the 8 in shared memory"));
  CHECK(has(found<unwritten>(64, out.data()), "reads element 7 of the 64"));
}
TEST_CASE("a barrier that not all threads come to, or that is not the same one") {
  std::string const text = found<divergent>(32);
  CHECK_MESSAGE(has(text, "divergent barrier: thread (0, 0, 0) waits in __syncthreads at faults.cpp:"), text);
  CHECK_MESSAGE(has(text, "thread (16, 0, 0) has ended"), text);
  CHECK(has(found<two_barriers>(32), "divergent barrier"));
}
TEST_CASE("masks: without oneself, with a lane that has ended or does not exist, of two opinions, read from outside") {
  std::vector<int> out(64);
  CHECK(found<shuffle_with>(32, ~0U, 32U, out.data()) == "nothing");
  for (int t = 0; t < 32; ++t) CHECK(out[static_cast<std::size_t>(t)] == (t ^ 1));
  CHECK(has(found<shuffle_with>(32, 0xFFFFU, 32U, out.data()), "thread (16, 0, 0) calls a shuffle"));
  CHECK(has(found<shuffle_with>(32, ~0U, 16U, out.data()), "with lane 16 in its mask, which has ended"));
  CHECK(has(found<shuffle_with>(16, ~0U, 16U, out.data()), "with lane 16 in its mask, which does not exist"));
  CHECK(has(found<two_masks>(32, out.data()), "threads wait for each other"));
  CHECK(has(found<shuffle_from>(32, 20, out.data()), "from lane 20, which its mask lacks"));
}
TEST_CASE("shuffles up, down and from a lane, in segments too, and votes") {
  std::vector<int> up(64), down(64), one(64), votes(32);
  CHECK(found<moved>(32, up.data(), down.data(), one.data(), votes.data()) == "nothing");
  for (int t = 0; t < 32; ++t) {
    auto const i = static_cast<std::size_t>(t);
    CHECK(up[i] == (t < 3 ? t : t - 3));  // a lane outside gives the own number
    CHECK(down[i] == (t > 28 ? t : t + 3));
    CHECK(one[i] == 5);
    CHECK(up[32 + i] == (t % 8 < 3 ? t : t - 3));
    CHECK(down[32 + i] == (t % 8 > 4 ? t : t + 3));
    CHECK(one[32 + i] == t / 8 * 8 + 5);
    CHECK(votes[i] == 31);
  }
}
TEST_CASE("a shuffle or a vote is one place, one type and one width for all its lanes; a __syncwarp need not be") {
  std::vector<int> out(64);
  std::string const text = found<two_places<false>>(32, out.data());
  CHECK_MESSAGE(has(text, "the lanes of a mask are not at the same one: thread (0, 0, 0) waits in a shuffle"), text);
  CHECK_MESSAGE(has(text, "; thread (16, 0, 0) waits in a shuffle"), text);
  CHECK(has(found<two_places<true>>(32, out.data()), "thread (16, 0, 0) waits in a vote"));
  CHECK(has(found<two_types>(32, out.data()), "thread (16, 0, 0) waits in a shuffle of 8 bytes"));
  CHECK(has(found<two_widths>(32, out.data()), "thread (16, 0, 0) waits in a shuffle of 4 bytes in segments of 16"));
  CHECK(found<two_syncs>(32, out.data()) == "nothing");
  CHECK(out[3] == 28);
}
TEST_CASE("16 bytes at an address that is no multiple of 16") {
  alignas(16) float there[8] = {};
  for (bool const store : {false, true}) {
    CHECK(found<pack_at>(1, there + 4, store) == "nothing");
    std::string const text = found<pack_at>(1, there + 1, store);
    CHECK_MESSAGE(has(text, "thread (0, 0, 0) accesses 16 bytes at vector.cuh:"), text);
  }
}
TEST_CASE("a template that declares shared memory has an array for each of its instances") {
  std::vector<double> out(64);
  CHECK(found<instances>(64, out.data()) == "nothing");
  CHECK(out == std::vector<double>(64, 6.5));
}
TEST_CASE("launches that CUDA refuses: no blocks, too many in y or z, a block of another size than the kernel's") {
  auto const refused = [](dim3 grid, unsigned threads) {
    try {
      launch<sized<int, 64>>(grid, dim3(threads));
    } catch (fault const& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  CHECK(refused(dim3(2, 3, 2), 64) == "nothing");
  CHECK(has(refused(dim3(0), 64), "a grid of (0, 1, 1) blocks"));
  CHECK(has(refused(dim3(1, 0), 64), "a grid of (1, 0, 1) blocks"));
  CHECK(has(refused(dim3(1, 65536), 64), "a grid of (1, 65536, 1) blocks"));
  CHECK(has(refused(dim3(1, 1, 65536), 64), "a grid of (1, 1, 65536) blocks"));
  CHECK(has(refused(dim3(1), 32), "sized<int, 64>: a block of 32 threads, of a kernel that is made for 64"));
}
TEST_CASE("dynamic shared memory: the same races and reads, and sizes that the launch must give") {
  std::vector<int> out(64, -1);
  constexpr std::size_t bytes = 16 + 64 * sizeof(int);
  CHECK(found_with<exchange_in_dynamic<true>>(bytes, 64, out.data()) == "nothing");
  CHECK(out[3] == 60 + 4);
  CHECK(has(found_with<exchange_in_dynamic<false>>(bytes, 64, out.data()), "reads element 63 of the 64 in shared"));
  std::string text = found_with<exchange_in_dynamic<true>>(bytes - 4, 64, out.data());
  CHECK_MESSAGE(has(text, "thread (0, 0, 0) takes bytes 16 to 272 of the dynamic shared memory at faults.cpp:"), text);
  CHECK_MESSAGE(has(text, "; the launch gives 268"), text);
  CHECK(has(found<exchange_in_dynamic<true>>(64, out.data()), "takes bytes 0 to 5"));
  // The next array begins where this one ends; it is another one all the same.
  CHECK(found_with<outside_of_dynamic>(32, 1, 3, out.data()) == "nothing");
  CHECK(has(found_with<outside_of_dynamic>(32, 1, 4, out.data()), "uses element 4 of the 4 in shared memory declared"));
  text = found_with<takes_unlike>(64, 32);
  CHECK_MESSAGE(has(text, "thread (16, 0, 0) takes bytes 0 to 32"), text);
  CHECK_MESSAGE(has(text, "of which others are another array, from 0 to 16"), text);
  CHECK(has(found_with<takes_other_types>(64, 32), "of which others are another array"));
  CHECK(found_with<static_and_dynamic>(227 * 1024 - 8192, 32) == "nothing");
  CHECK(has(found_with<static_and_dynamic>(227 * 1024 - 8191, 32), "which makes 232449 bytes with the launch's"));
  CHECK(has(found_with<static_and_dynamic>(227 * 1024 + 1, 32), "232449 bytes of dynamic shared memory"));
  CHECK(found_with<packs_of_shared>(64, 1, 12) == "nothing");
  text = found_with<packs_of_shared>(64, 1, 5);
  CHECK_MESSAGE(has(text, "accesses 16 bytes of shared memory at faults.cpp:"), text);
  CHECK_MESSAGE(has(text, "from element 5 on"), text);
}
TEST_CASE("atomic operations: none is a race with another, and each is with what is not one") {
  std::vector<int> out(64, -1);
  int global = 0;
  CHECK(found<add_up<true, true>>(64, out.data(), &global) == "nothing");
  CHECK(out[0] == 63 * 64 / 2);
  CHECK(global == 128);
  std::string text = found<add_up<false, true>>(64, out.data(), &global);
  CHECK_MESSAGE(has(text, "thread (63, 0, 0) reads element 0 of the 1 in shared memory"), text);
  CHECK_MESSAGE(has(text, "which other threads wrote with no barrier between"), text);
  CHECK(has(found<add_up<true, false>>(64, out.data(), &global), "changes atomically element 0 of the 1"));
  CHECK(has(found<atomic_and_not>(32), "thread (1, 0, 0) changes atomically element 0 of the 1"));
  CHECK(found<largest_and_first>(64, out.data()) == "nothing");
  CHECK(out[0] == 63001);
  CHECK(out[5] == 63000);
}
TEST_CASE("mma and ldmatrix by the layouts of the PTX ISA") {
  check_product<__nv_bfloat16>();
  check_product<__half>();
}
TEST_CASE("mma and ldmatrix are of a whole warp, of one place and one type") {
  CHECK(found<mma_without>(32, 32U) == "nothing");
  CHECK(has(found<mma_without>(32, 31U), "waits in mma at faults.cpp:"));
  CHECK(has(found<mma_without>(32, 31U), "with lane 31 in its mask, which has ended"));
  CHECK(has(found<mma_without>(16, 16U), "with lane 16 in its mask, which does not exist"));
  CHECK(has(found<mma_at_two_places>(32), "thread (16, 0, 0) waits in mma"));
  CHECK(has(found<mma_of_two_types>(32), "the lanes of a mask are not at the same one"));
  std::vector<unsigned> out(32);
  constexpr std::size_t bytes = 2 * 32 * 8 * 2;
  CHECK(found_with<load_rows_with<matrix_fault::none>>(bytes, 32, out.data()) == "nothing");
  CHECK(out[4] == heddle::kernels::fragment_of<__half>(25, 25));
  CHECK(has(found_with<load_rows_with<matrix_fault::odd>>(bytes, 32, out.data()),
            "thread (9, 0, 0) accesses 16 bytes of shared memory at faults.cpp:"));
  CHECK(has(found_with<load_rows_with<matrix_fault::race>>(bytes, 32, out.data()), "with no barrier between"));
  CHECK(has(found_with<load_rows_with<matrix_fault::arrays>>(bytes, 32, out.data()),
            "thread (3, 0, 0) loads matrices at faults.cpp:"));
  CHECK(has(found_with<load_rows_with<matrix_fault::outside>>(bytes, 32, out.data()), "uses element 256 of the 256"));
}
TEST_CASE("more shared memory than a block has, too many threads, and an exception of the kernel's own") {
  CHECK(has(found<greedy>(32), "which makes 49160 bytes; a block has 49152"));
  CHECK(has(found<divergent>(1025), "a block has 1025 threads"));
  CHECK_THROWS_WITH(launch<throws>(dim3(1), dim3(64)), "of its own");
  std::vector<int> out(64, -1);
  CHECK(found<exchange<false, true>>(64, out.data()) == "nothing");  // and all is well afterwards
}
