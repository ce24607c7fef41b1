// SPDX-License-Identifier: Apache-2.0
// The standard library first: nothing of heddle may be mistaken for something of std (std::quoted once was).
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <map>
#include <mutex>
#include <numeric>
#include <ranges>
#include <regex>
#include <vector>

#include <heddle/heddle.hpp>

namespace token_batches_test {

namespace hd = heddle;

using model = hd::gpt2<hd::gpt2_config{.vocabulary = 200, .context = 4, .layers = 1, .heads = 1, .width = 4}>;
struct alone : hd::plan<hd::micro_batch<2>, hd::accumulate<2>> {};
struct shared : hd::plan<hd::mesh<hd::axis<hd::tp, 1>, hd::axis<hd::dp, 2>>, hd::micro_batch<2>> {};

namespace {

std::string corpus(std::size_t tokens, std::size_t vocabulary) {
  std::string const path =
      (std::filesystem::temp_directory_path() / ("heddle-token-batches-" + std::to_string(tokens) + ".bin")).string();
  std::vector<std::int32_t> all(tokens);
  std::iota(all.begin(), all.end(), 0);
  hd::token_file_writer file(path, vocabulary);
  file.append(all);
  file.commit();
  return path;
}

/// Every global batch of a plan: step → the sequences' first tokens, in global order.
template <class Plan>
std::map<std::uint64_t, std::map<std::size_t, std::int32_t>> global_batches(std::string const& path,
                                                                            hd::token_batches_options const& options) {
  std::map<std::uint64_t, std::map<std::size_t, std::int32_t>> seen;
  std::mutex lock;
  hd::run<Plan>(hd::threads, [&](auto& rank) {
    hd::trainer<model, Plan> trainer(rank);
    std::uint64_t step = options.first_step;
    for (hd::token_batch const& b : hd::token_batches<model, Plan>(path, rank, options)) {
      std::lock_guard const guard(lock);
      for (std::size_t i = 0; i < trainer.local_sequences; ++i) {
        std::int32_t const* const tokens = b.tokens(0) + i * model::context;
        seen[step][trainer.global_sequence(i)] = tokens[0];
        for (std::size_t t = 0; t < model::context; ++t) {
          CHECK(tokens[t] == tokens[0] + static_cast<std::int32_t>(t));
          CHECK(b.targets(0)[i * model::context + t] == tokens[t] + 1);
        }
      }
      ++step;
    }
  });
  return seen;
}

}  // namespace

TEST_CASE("global batches are the same under every plan, cover an epoch once, and resume by the step") {
  std::string const path = corpus(16 * 4 + 3, 100);
  auto const serial = global_batches<alone>(path, {.seed = 3, .epochs = 2});
  REQUIRE(serial.size() == 8);
  CHECK(global_batches<shared>(path, {.seed = 3, .epochs = 2}) == serial);

  std::vector<std::int32_t> first_epoch;
  for (std::uint64_t step = 0; step < 4; ++step)
    for (auto const& [g, token] : serial.at(step)) first_epoch.push_back(token);
  std::ranges::sort(first_epoch);
  REQUIRE(first_epoch.size() == 16);
  for (std::size_t window = 0; window < 16; ++window)
    CHECK(first_epoch[window] == static_cast<std::int32_t>(4 * window));

  auto resumed = serial;
  std::erase_if(resumed, [](auto const& step) { return step.first < 5; });
  CHECK(global_batches<alone>(path, {.seed = 3, .first_step = 5, .epochs = 2}) == resumed);
  CHECK(global_batches<alone>(path, {.seed = 4, .epochs = 2}) != serial);
  CHECK(global_batches<alone>(path, {.first_step = 9, .epochs = 2}).empty());
  std::filesystem::remove(path);
}

TEST_CASE("a file for a larger vocabulary is refused with both numbers") {
  std::string const path = corpus(100, 300);
  std::string text;
  hd::run<alone>(hd::threads, [&](auto& rank) {
    try {
      hd::token_batches<model, alone> batches(path, rank);
    } catch (hd::error const& e) {
      text = e.what();
    }
  });
  CHECK(text.find("a vocabulary of 300 and the model one of 200") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("more epochs than can be counted in batches are refused, not wrapped around") {
  std::string const path = corpus(16 * 4 + 3, 100);  // four batches an epoch
  std::string text = "no error";
  std::uint64_t most = 0;
  hd::run<alone>(hd::threads, [&](auto& rank) {
    most = hd::token_batches<model, alone>(path, rank, {.epochs = ~std::uint64_t{0} / 4}).size();
    try {
      hd::token_batches<model, alone> batches(path, rank, {.epochs = std::uint64_t{1} << 62});
    } catch (hd::error const& e) {
      text = e.what();
    }
  });
  CHECK(most == ~std::uint64_t{0} - 3);
  CHECK(text.find("'epochs' is 4611686018427387904, which at 4 batches") != std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace token_batches_test
