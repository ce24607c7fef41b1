// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/comm/communicator.hpp>
#include <heddle/comm/delaying.hpp>
#include <heddle/comm/recording.hpp>
#include <heddle/comm/threads.hpp>

using namespace heddle::comm;

namespace vocabulary_test {
struct half {
  std::uint16_t bits;
};
}  // namespace vocabulary_test

// A user's element: 16 bits stored, reduced in float.
template <>
struct heddle::comm::element_traits<vocabulary_test::half> {
  static constexpr element_kind kind = element_kind::bfloat16;
  using accumulator = float;
};

namespace vocabulary_test {
namespace {

// Every model, and models over models, model the concept; a type that misses one operation does not.
static_assert(Communicator<thread_communicator>);
static_assert(Communicator<recording<thread_communicator>>);
static_assert(Communicator<delaying<thread_communicator>>);
static_assert(Communicator<recording<delaying<thread_communicator>>>);
static_assert(Communicator<delaying<recording<thread_communicator>>>);
static_assert(!Communicator<int>);
static_assert(!Communicator<thread_handle>);
static_assert(CommunicationHandle<thread_handle>);
static_assert(!CommunicationHandle<thread_communicator>);

static_assert(element_kind_of<float> == element_kind::float32);
static_assert(element_kind_of<double const> == element_kind::float64);
static_assert(element_kind_of<std::uint16_t> == element_kind::uint16);
static_assert(Element<std::int64_t> && Element<std::byte> && !Element<std::string> && !Element<bool>);
static_assert(ReducibleElement<float> && !ReducibleElement<std::byte> && !ReducibleElement<float const>);

// 10 over 4: chunks of 3, 3, 2, 2.
static_assert(chunk_count(10, 4, 0) == 3 && chunk_count(10, 4, 1) == 3 && chunk_count(10, 4, 2) == 2);
static_assert(chunk_begin(10, 4, 1) == 3 && chunk_begin(10, 4, 2) == 6 && chunk_begin(10, 4, 3) == 8);
static_assert(chunk_count(3, 8, 2) == 1 && chunk_count(3, 8, 3) == 0 && chunk_begin(3, 8, 7) == 3);

// 2(n-1)/n·count where n divides count, and what it is made of where not.
static_assert(all_reduce_sent(8, 4, 2) == 12 && reduce_scatter_sent(8, 4, 2) == 6 && all_gather_sent(8, 4, 2) == 6);
static_assert(all_reduce_sent(10, 4, 0) == 7 + 9 && all_reduce_sent(10, 4, 3) == 8 + 6);
static_assert(all_reduce_sent(10, 1, 0) == 0 && all_gather_sent(10, 1, 0) == 0 && all_to_all_sent(10, 1) == 0);
static_assert(all_to_all_sent(12, 4) == 9 && broadcast_sent(5, 4, 1, 1) == 15 && broadcast_sent(5, 4, 0, 1) == 0);
static_assert(send_sent(7) == 7);

// Sums of integers wrap around; a constant expression may not overflow.
constexpr auto wrapped = detail::joined<reduction::sum, std::int64_t>;
static_assert(wrapped(INT64_MAX, 1) == INT64_MIN && wrapped(INT64_MIN, -1) == INT64_MAX && wrapped(-3, 2) == -1);
static_assert(detail::joined<reduction::sum, std::uint64_t>(UINT64_MAX, 2) == 1);

constexpr bool chunks_partition() {
  for (std::size_t ranks = 1; ranks <= 9; ++ranks) {
    for (std::size_t count = 0; count <= 40; ++count) {
      std::size_t at = 0;
      std::size_t sent = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        if (chunk_begin(count, ranks, r) != at) return false;
        at += chunk_count(count, ranks, r);
        sent += all_reduce_sent(count, ranks, r);
      }
      if (at != count || sent != 2 * count * (ranks - 1)) return false;
    }
  }
  return true;
}
static_assert(chunks_partition());

}  // namespace

TEST_CASE("every name is told") {
  CHECK(name_of(element_kind::bfloat16) == std::string("bfloat16"));
  CHECK(name_of(operation::reduce_scatter) == std::string("reduce_scatter"));
  CHECK(name_of(reduction::max) == std::string("max"));
  CHECK(Element<half>);
}

TEST_CASE("the difference of two counters is what happened between them") {
  communication_counters before;
  before[operation::send] = {1, 10, 40};
  communication_counters after = before;
  after[operation::send] = {3, 15, 60};
  after[operation::barrier].calls = 1;
  CHECK((after - before)[operation::send] == operation_counter{2, 5, 20});
  CHECK((after - before).total() == operation_counter{3, 5, 20});
  CHECK((after - before)[operation::all_reduce] == operation_counter{});
}

}  // namespace vocabulary_test
