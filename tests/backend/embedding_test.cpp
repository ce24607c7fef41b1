// SPDX-License-Identifier: Apache-2.0
#include <heddle/backend/host/embedding.hpp>

#include <string>

#include "checks.hpp"

namespace embedding_test {

namespace {

using heddle::host::embeddings;

constexpr std::int32_t tokens[] = {4, 0, 4, 2, 9, 4};
constexpr std::size_t rows = 6;

}  // namespace

TEST_CASE("embedding: rows of the table") {
  checks::for_odd_sizes([](auto n) {
    constexpr std::size_t N = decltype(n)::value;
    auto const table = checks::values(10 * N, 1);
    std::vector<double> y(rows * N, 7.0);
    embeddings::embedding<rows, 10, N>(tokens, table.data(), 0, y.data());
    for (std::size_t i = 0; i < rows * N; ++i)
      CHECK(y[i] == table[static_cast<std::size_t>(tokens[i / N]) * N + i % N]);
  });
}

TEST_CASE("embedding: gradients; equal tokens add, also to what is there") {
  checks::for_odd_sizes([](auto n) {
    constexpr std::size_t N = decltype(n)::value;
    auto table = checks::values(10 * N, 1);
    auto const dy = checks::values(rows * N, 2);
    std::vector<double> y(rows * N), dtable(10 * N);
    embeddings::embedding_backward<rows, 10, N>(tokens, dy.data(), 0, dtable.data());
    checks::gradient(table, dtable, [&] {
      embeddings::embedding<rows, 10, N>(tokens, table.data(), 0, y.data());
      return checks::dot(y, dy);
    });
    for (std::size_t j = 0; j < N; ++j) {
      CHECK(dtable[4 * N + j] == dy[j] + dy[2 * N + j] + dy[5 * N + j]);  // in the order of the rows: the same bits
      CHECK(dtable[3 * N + j] == 0);
    }
    auto twice = dtable;
    for (double& value : twice) value *= 2;
    embeddings::embedding_backward<rows, 10, N>(tokens, dy.data(), 0, dtable.data());
    CHECK(checks::distance(dtable, twice) < 1e-15);
  });
}

TEST_CASE("embedding: the parts of a split table sum to the whole") {
  constexpr std::size_t N = 17;
  // Two halves of 6 rows each, of which the last two are padding: ids 0..5 and 6..11 of ten.
  auto const table = checks::values(12 * N, 1), dy = checks::values(rows * N, 2);
  std::vector<double> whole(rows * N), low(rows * N, 7.0), high(rows * N, 7.0);
  embeddings::embedding<rows, 12, N>(tokens, table.data(), 0, whole.data());
  embeddings::embedding<rows, 6, N>(tokens, table.data(), 0, low.data());
  embeddings::embedding<rows, 6, N>(tokens, table.data() + 6 * N, 6, high.data());
  for (std::size_t i = 0; i < rows * N; ++i) {
    CHECK(low[i] + high[i] == whole[i]);
    CHECK((tokens[i / N] < 6 ? high[i] : low[i]) == 0);
  }
  std::vector<double> dwhole(12 * N), dparts(12 * N);
  embeddings::embedding_backward<rows, 12, N>(tokens, dy.data(), 0, dwhole.data());
  embeddings::embedding_backward<rows, 6, N>(tokens, dy.data(), 0, dparts.data());
  embeddings::embedding_backward<rows, 6, N>(tokens, dy.data(), 6, dparts.data() + 6 * N);
  CHECK(dparts == dwhole);
}

TEST_CASE("embedding: an id outside the vocabulary is an error that names it") {
  CHECK_NOTHROW(embeddings::check_tokens(tokens, rows, 10));
  std::string text;
  try {
    embeddings::check_tokens(tokens, rows, 9);
  } catch (heddle::error const& error) {
    text = error.what();
  }
  CHECK(text.find("token 9 at position 4") != std::string::npos);
  CHECK(text.find("0..8") != std::string::npos);
  std::int32_t const negative = -1;
  CHECK_THROWS_AS(embeddings::check_tokens(&negative, 1, 9), heddle::error);
}

}  // namespace embedding_test
