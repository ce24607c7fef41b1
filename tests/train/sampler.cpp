// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <heddle/train/sampler.hpp>
#include <numeric>
#include <set>
#include <vector>

using heddle::batch_shape;
using heddle::batches_per_epoch;
using heddle::epoch_windows;
using heddle::random_windows;
using heddle::token_batch;
using heddle::token_buffer;

namespace sampler_test {
namespace {

/// Tokens valued 0 … count − 1.
token_buffer counted(std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  return {tokens, count};
}

/// All tokens of a step's global batch in global order, as the ranks of `shape` read them.
template <class Sampler>
std::vector<std::int32_t> global_batch(Sampler const& sampler, token_buffer const& source, batch_shape shape,
                                       std::uint64_t step) {
  std::size_t const context = sampler.context();
  std::vector<std::int32_t> all(shape.global_batch() * context, -1);
  for (std::size_t rank = 0; rank < shape.data_ranks; ++rank) {
    token_batch mine(shape, context);
    mine.fill(sampler, source, step, rank);
    for (std::size_t m = 0; m < shape.micro_batches; ++m)
      std::copy_n(mine.tokens(m), shape.rows * context,
                  all.begin() + static_cast<std::ptrdiff_t>(shape.first_sequence(m, rank) * context));
  }
  return all;
}

std::vector<std::size_t> starts(epoch_windows const& sampler, std::uint64_t from, std::uint64_t to) {
  std::vector<std::size_t> out;
  for (auto step = from; step < to; ++step)
    for (std::size_t g = 0; g < sampler.global_batch(); ++g) out.push_back(sampler.start(step, g));
  return out;
}

}  // namespace

static_assert(heddle::TokenSampler<random_windows> && heddle::TokenSampler<epoch_windows>);

// Micro-batches first, then data ranks: the `batch` dimension of one micro-batch, split over the ranks.
static_assert(batch_shape{2, 3, 4}.first_sequence(0, 1) == 4 && batch_shape{2, 3, 4}.first_sequence(1, 0) == 8 &&
              batch_shape{2, 3, 4}.first_sequence(2, 1) == 20 && batch_shape{2, 3, 4}.global_batch() == 24);

// DL-1: 3 ranks of 2 sequences of 10
static_assert(batches_per_epoch(150, 10, 6) == 2);
static_assert(batches_per_epoch(121, 10, 6) == 2);
static_assert(batches_per_epoch(120, 10, 6) == 1);
// DL-2: 1 rank of 2 sequences of 8
static_assert(batches_per_epoch(5 * 16 + 1, 8, 2) == 5 && batches_per_epoch(5 * 16, 8, 2) == 4);
static_assert(batches_per_epoch(0, 8, 2) == 0 && batches_per_epoch(1, 8, 2) == 0 && batches_per_epoch(16, 8, 2) == 0);
static_assert(batches_per_epoch(17, 8, 2) == 1);
static_assert(batches_per_epoch(17, 0, 2) == 0 && batches_per_epoch(17, 8, 0) == 0);

static_assert(heddle::detail::scale_to(~std::uint64_t{0}, ~std::uint64_t{0}) == ~std::uint64_t{0} - 1);
static_assert(heddle::detail::scale_to(std::uint64_t{1} << 63, 7) == 3);
static_assert(heddle::detail::scale_to(0x123456789ABCDEF0u, 0xFEDCBA9876543210u) == 0x121FA00AD77D7422u);

TEST_CASE("DL-1: ranks read runs of their own, with targets one further") {
  auto const source = counted(150);
  batch_shape const shape{.data_ranks = 3, .rows = 2};
  epoch_windows const sampler(150, 10, shape.global_batch());
  REQUIRE(sampler.batches() == 2);
  for (std::size_t rank = 0; rank < 3; ++rank)
    for (std::uint64_t step = 0; step < 2; ++step) {
      token_batch mine(shape, 10);
      mine.fill(sampler, source, step, rank);
      for (std::size_t i = 0; i < 20; ++i) {
        auto const expected = static_cast<std::int32_t>(60 * step + 20 * rank + i);
        CHECK(mine.tokens(0)[i] == expected);
        CHECK(mine.targets(0)[i] == expected + 1);
      }
    }
}

TEST_CASE("DL-2: the last target of a file that just fits is its last token") {
  for (std::size_t k : {1u, 2u, 7u}) {
    auto const source = counted(16 * k + 1);
    epoch_windows const sampler(source.size(), 8, 2);
    REQUIRE(sampler.batches() == k);
    token_batch last({.rows = 2}, 8);
    last.fill(sampler, source, k - 1, 0);
    CHECK(last.targets(0)[15] == source.tokens().back());
    if (k > 1) CHECK(epoch_windows(16 * k, 8, 2).batches() == k - 1);
  }
  for (std::size_t tokens : {0u, 1u, 16u})
    CHECK_THROWS_WITH_AS(
        epoch_windows(tokens, 8, 2),
        doctest::Contains((std::to_string(tokens) + " tokens give 0 batches of 2 sequences of context 8; "
                                                    "a batch needs 2 x 8 + 1 tokens")
                              .c_str()),
        heddle::error);
  CHECK_THROWS_AS(epoch_windows(100, 0, 2), heddle::error);
  CHECK_THROWS_AS(epoch_windows(100, 8, 0), heddle::error);
  CHECK_THROWS_WITH_AS(epoch_windows(100, 8, 2).start(0, 2), doctest::Contains("no sequence 2"), heddle::error);
}

TEST_CASE("an epoch reads each window at most once, and every epoch in another order") {
  for (std::size_t windows : {1u, 2u, 3u, 4u, 5u, 10u, 16u, 17u, 100u, 1000u}) {
    CAPTURE(windows);
    std::set<std::vector<std::size_t>> orders;
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      epoch_windows const sampler(8 * windows + 1, 8, 1, epoch_windows::order::shuffled, 42);
      REQUIRE(sampler.batches() == windows);
      auto order = starts(sampler, epoch * windows, (epoch + 1) * windows);
      orders.insert(order);
      std::sort(order.begin(), order.end());
      std::vector<std::size_t> all;
      for (std::size_t w = 0; w < windows; ++w) all.push_back(8 * w);
      REQUIRE(order == all);
    }
    if (windows >= 10) CHECK(orders.size() == 4);
  }
}

TEST_CASE("the shuffle sends every window everywhere alike") {
  // 4000 epochs of 10 windows: each of the 100 counts has mean 400 and deviation sqrt(4000·0.1·0.9) = 19; the bound is
  // 5 deviations. The counts are always the same, for the shuffle is.
  int counts[10][10] = {};
  for (std::uint64_t epoch = 0; epoch < 4000; ++epoch)
    for (std::uint64_t i = 0; i < 10; ++i) ++counts[i][heddle::detail::permuted(i, 10, 7, epoch)];
  for (auto const& row : counts)
    for (int count : row) CHECK(std::abs(count - 400) < 95);
}

TEST_CASE("a shuffle that does not divide leaves out other windows each epoch") {
  epoch_windows const sampler(8 * 7 + 1, 8, 3, epoch_windows::order::shuffled, 1);
  REQUIRE(sampler.batches() == 2);
  std::set<std::size_t> seen;
  for (auto start : starts(sampler, 0, 20)) seen.insert(start);
  CHECK(seen.size() == 7);
}

TEST_CASE("RS-1: resuming in mid-epoch continues the uninterrupted order") {
  auto const make = [] { return epoch_windows(8 * 10 + 1, 8, 1, epoch_windows::order::shuffled, 3); };
  auto const whole = starts(make(), 0, 30);
  for (std::uint64_t saved : {0u, 9u, 10u, 11u, 13u, 20u}) {
    CAPTURE(saved);
    auto resumed = starts(make(), 0, saved);
    auto const rest = starts(make(), saved, 30);  // the step is all that a checkpoint holds
    resumed.insert(resumed.end(), rest.begin(), rest.end());
    CHECK(resumed == whole);
  }
  CHECK(make().epoch(13) == 1);
  CHECK(starts(make(), 0, 10) != starts(make(), 10, 20));
}

TEST_CASE("RS-2: resumes in a row count from the beginning") {
  auto const make = [] { return epoch_windows(8 * 100 + 1, 8, 1, epoch_windows::order::shuffled, 3); };
  auto const whole = starts(make(), 0, 60);
  std::vector<std::size_t> resumed;
  std::uint64_t step = 0;
  for (std::uint64_t const next : {24u, 31u, 32u, 60u}) {
    auto const part = starts(make(), step, next);
    resumed.insert(resumed.end(), part.begin(), part.end());
    step = next;
  }
  CHECK(resumed == whole);
  CHECK(make().start(31, 0) != make().start(7, 0));
  CHECK(epoch_windows(801, 8, 1).start(31, 0) == 31 * 8);
}

TEST_CASE("global batches are the same under every plan") {
  auto const source = counted(5000);
  random_windows const random(source.size(), 16, 11);
  epoch_windows const shuffled(source.size(), 16, 24, epoch_windows::order::shuffled, 11);
  for (std::uint64_t step : {0u, 1u, 40u}) {
    auto const serial_random = global_batch(random, source, {.rows = 24}, step);
    auto const serial_shuffled = global_batch(shuffled, source, {.rows = 24}, step);
    CHECK(std::count(serial_random.begin(), serial_random.end(), -1) == 0);
    for (batch_shape const shape : {batch_shape{1, 24, 1}, {24, 1, 1}, {2, 3, 4}, {4, 3, 2}, {3, 1, 8}, {2, 12, 1}}) {
      REQUIRE(shape.global_batch() == 24);
      CHECK(global_batch(random, source, shape, step) == serial_random);
      CHECK(global_batch(shuffled, source, shape, step) == serial_shuffled);
    }
  }
}

TEST_CASE("random windows reach both ends alike and depend on seed, step and sequence") {
  random_windows const edge(10, 8, 5);  // starts 0 and 1
  int ones = 0;
  for (std::uint64_t step = 0; step < 1000; ++step) {
    REQUIRE(edge.start(step, 0) <= 1);
    ones += edge.start(step, 0) == 1;
  }
  CHECK(std::abs(ones - 500) < 80);  // 5 deviations of 15.8
  CHECK(random_windows(9, 8, 5).start(3, 3) == 0);

  random_windows const sampler(1000000, 64, 5);
  CHECK(sampler.start(1, 2) == random_windows(1000000, 64, 5).start(1, 2));
  CHECK(sampler.start(1, 2) != sampler.start(2, 1));
  CHECK(sampler.start(1, 2) != random_windows(1000000, 64, 6).start(1, 2));
  CHECK(sampler.start(std::uint64_t{1} << 32, 0) != sampler.start(0, 0));
  double mean = 0;
  for (std::uint64_t step = 0; step < 4000; ++step) mean += static_cast<double>(sampler.start(step, 1)) / 4000;
  CHECK(std::abs(mean - 499968) < 23000);  // 5 deviations: 1e6 / sqrt(12·4000) = 4564

  CHECK_THROWS_WITH_AS(random_windows(8, 8, 5), doctest::Contains("needs 8 + 1 tokens"), heddle::error);
  CHECK_THROWS_AS(random_windows(8, 0, 5), heddle::error);
}

TEST_CASE("a batch and a sampler of different plans are refused") {
  auto const source = counted(100);
  token_batch mine({.data_ranks = 2, .rows = 2}, 8);
  CHECK_THROWS_WITH_AS(mine.fill(random_windows(100, 4, 0), source, 0, 0), doctest::Contains("sampler's context is 4"),
                       heddle::error);
  CHECK_THROWS_WITH_AS(mine.fill(random_windows(100, 8, 0), source, 0, 2), doctest::Contains("the data rank 2"),
                       heddle::error);
}

}  // namespace sampler_test
