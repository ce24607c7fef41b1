// SPDX-License-Identifier: Apache-2.0
// The parts of the train program that walk over a text, with a trainer that only looks at what it is given.
#include "../../tools/train_program/validation.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "../../tools/train_program/sample.hpp"

namespace {

/// One of two data ranks with 3 micro-batches of 2 sequences. Its loss of a token is the token's identity.
struct looking_trainer {
  static constexpr std::size_t context = 4;
  static constexpr std::size_t local_sequences = 6;
  static constexpr std::size_t local_tokens = 24;
  static constexpr std::size_t global_batch_size = 12;
  static constexpr heddle::batch_shape shape{2, 3, 2};

  std::size_t data_rank = 0;
  std::vector<std::size_t> seen = std::vector<std::size_t>(1000);
  bool shifted = true;

  [[nodiscard]] std::size_t global_sequence(std::size_t i) const {
    return shape.first_sequence(i / 2, data_rank) + i % 2;
  }
  heddle::loss_sum evaluate(std::vector<std::int32_t> const& tokens, std::vector<std::int32_t> const& targets) {
    heddle::loss_sum sum;
    for (std::size_t i = 0; i < local_tokens; ++i) {
      if (targets[i] == heddle::ignored_target) continue;
      shifted = shifted && targets[i] == tokens[i] + 1;
      ++seen[static_cast<std::size_t>(targets[i])];
      sum.sum += targets[i];
      sum.count += 1;
    }
    return sum;
  }
};

heddle::token_buffer counting(std::size_t size) {
  std::vector<std::int32_t> tokens(size);
  std::iota(tokens.begin(), tokens.end(), 0);
  return {std::move(tokens), 1000, "counting"};
}

/// Believes that `token` is followed by `token + 1` of 10, and remembers what it was asked.
struct counting_trainer {
  static constexpr std::size_t context = 4;
  static constexpr std::size_t local_tokens = 8;
  std::vector<std::vector<std::int32_t>> asked;
  std::vector<float> logits(std::vector<std::int32_t> const& tokens) {
    asked.push_back({tokens.begin(), tokens.begin() + context});
    std::vector<float> out(local_tokens * 10, -1000);
    for (std::size_t t = 0; t < local_tokens; ++t) out[t * 10 + static_cast<std::size_t>(tokens[t] + 1) % 10] = 0;
    return out;
  }
};

struct lone_rank {
  struct group {
    std::size_t broadcasts = 0;
    void broadcast(std::span<std::int32_t>, std::size_t) { ++broadcasts; }
  } all;
  group& world() { return all; }
};

}  // namespace

TEST_CASE("validation predicts every token but the first once, whatever the text's length") {
  for (std::size_t size : std::initializer_list<std::size_t>{2, 5, 6, 48, 49, 50, 97, 100, 301}) {
    CAPTURE(size);
    auto const text = counting(size);
    std::vector<std::size_t> seen(1000);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      looking_trainer trainer{rank};
      validation check(trainer, text);
      check.loss(check.windows());
      CHECK(trainer.shifted);
      for (std::size_t t = 0; t < 1000; ++t) seen[t] += trainer.seen[t];
    }
    for (std::size_t t = 0; t < 1000; ++t) CHECK(seen[t] == (t > 0 && t < size ? 1 : 0));
  }
}

TEST_CASE("the loss is weighted by tokens, not by batches or windows") {
  auto const text = counting(51);  // 12 windows of 4 and one of 2: two batches
  heddle::loss_sum all;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    looking_trainer trainer{rank};
    validation check(trainer, text);
    REQUIRE(check.windows() == 13);
    double const mean = check.loss(13);
    double const count = std::accumulate(trainer.seen.begin(), trainer.seen.end(), 0.0);
    all.sum += mean * count;
    all.count += count;
  }
  CHECK(all.count == 50);
  CHECK(all.mean() == doctest::Approx(25.5));  // of 1 … 50
}

TEST_CASE("fewer windows are spread over the text") {
  auto const text = counting(401);  // 100 windows
  std::vector<std::size_t> first;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    looking_trainer trainer{rank};
    validation check(trainer, text);
    check.loss(10);
    for (std::size_t w = 0; w < 100; ++w)
      if (trainer.seen[w * 4 + 1] == 1) first.push_back(w);
  }
  CHECK(first.size() == 10);
  for (std::size_t w : first) CHECK(w % 10 == 0);
}

TEST_CASE("who watches is told the windows done, of those there are") {
  auto const text = counting(401);  // 100 windows, 12 in a global batch
  looking_trainer trainer{0};
  validation check(trainer, text);
  auto const told = [&](std::size_t count) {
    std::vector<std::size_t> all;
    check.loss(count, [&](std::size_t done) { all.push_back(done); });
    return all;
  };
  CHECK(told(30) == std::vector<std::size_t>{12, 24, 30});
  CHECK(told(2048).back() == 100);
}

TEST_CASE("a token is drawn as often as its logit says") {
  float const logits[] = {0, std::log(3.0F), -1000, std::log(4.0F), 50};
  CHECK(draw(logits, 4, 0) == 0);
  CHECK(draw(logits, 4, 0xFFFFFFFFU) == 3);
  CHECK(draw(logits, 4, 0x1FFFFF00U) == 0);  // 1/8 of all words; a float's logarithm moves the border a little
  CHECK(draw(logits, 4, 0x20000100U) == 1);  // the next 3/8
  CHECK(draw(logits, 4, 0x7FFFFF00U) == 1);
  CHECK(draw(logits, 4, 0x80000100U) == 3);
}

TEST_CASE("the sample follows the model, and its window slides") {
  counting_trainer trainer;
  lone_rank rank;
  auto const on = [] { return false; };
  auto const text = sample(trainer, rank, 7, 8, 10, 10, 1, on);
  CHECK(text == std::vector<std::int32_t>{9, 0, 1, 2, 3, 4, 5});
  CHECK(rank.all.broadcasts == 7);
  CHECK(trainer.asked[0][0] == 8);
  CHECK(trainer.asked[1][1] == 9);
  CHECK(trainer.asked[3] == std::vector<std::int32_t>{8, 9, 0, 1});
  CHECK(trainer.asked[6] == std::vector<std::int32_t>{1, 2, 3, 4});
  CHECK(sample(trainer, rank, 0, 8, 10, 10, 1, on).empty());
  int left = 3;
  CHECK(sample(trainer, rank, 7, 8, 10, 10, 1, [&] { return left-- == 0; }) == std::vector<std::int32_t>{9, 0, 1});
}
