// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <embedding/embedding.cuh>
#include <embedding/token_order.cuh>
#include <heddle/backend/host/embedding.hpp>
#include <vector>

#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using emulation::launch;
using emulation::values;

constexpr std::size_t guard = 9;

template <class T>
std::vector<T> bordered(std::vector<T> x, std::size_t offset) {
  x.insert(x.begin(), offset, T(-7));
  x.resize(x.size() + guard, T(-7));
  return x;
}
template <class T>
std::vector<T> written(std::vector<T> const& x, std::size_t offset) {
  for (std::size_t i = 0; i < offset; ++i) CHECK(x[i] == T(-7));
  for (std::size_t i = x.size() - guard; i < x.size(); ++i) CHECK(x[i] == T(-7));
  return {x.begin() + static_cast<std::ptrdiff_t>(offset), x.end() - guard};
}

/// Some ids often, some never, some held elsewhere on either side, negative ones too.
std::vector<std::int32_t> tokens_of(std::size_t rows, std::size_t vocabulary, std::int64_t first) {
  std::vector<double> const at = values<double>(rows, rows + vocabulary);
  std::vector<std::int32_t> tokens(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    std::int64_t const id =
        first + static_cast<std::int64_t>(at[row] * at[row] * at[row] * static_cast<double>(vocabulary) * 1.5);
    tokens[row] = static_cast<std::int32_t>(row % 5 == 4 ? first : row % 17 == 3 ? -2147483647 - 1 : id);
  }
  return tokens;
}

template <class T, int Threads>
void check_embedding(std::size_t rows, std::size_t vocabulary, std::size_t width, std::int64_t first, unsigned columns,
                     std::size_t offset) {
  CAPTURE(rows);
  CAPTURE(vocabulary);
  CAPTURE(width);
  CAPTURE(Threads);
  std::vector<std::int32_t> const tokens = tokens_of(rows, vocabulary, first);
  int const v = static_cast<int>(vocabulary), w = static_cast<int>(width);

  std::vector<T> const table = values<T>(vocabulary * width, 1);
  std::vector<T> const held = bordered(table, offset);
  std::vector<T> expected(rows * width), y = bordered(std::vector<T>(rows * width, T(-7)), offset);
  host::detail::embedding(rows, vocabulary, width, tokens.data(), table.data(), first, expected.data());
  launch("embedding_forward", kernels::embedding_forward<T, Threads>, dim3(static_cast<unsigned>(rows)), dim3(Threads),
         tokens.data(), held.data() + offset, v, w, static_cast<long long>(first), y.data() + offset);
  CHECK(written(y, offset) == expected);

  std::vector<T> const dy = values<T>(rows * width, 2), dy_there = bordered(dy, offset);
  std::vector<T> gradient = values<T>(vocabulary * width, 3), got = bordered(gradient, offset);
  host::detail::embedding_backward(rows, vocabulary, width, tokens.data(), dy.data(), first, gradient.data());
  std::vector<int> order(rows + guard, -7), begin(rows + 1 + guard, -7), id(rows + guard, -7), count(vocabulary + 1);
  int const segments = kernels::token_order(static_cast<int>(rows), v, tokens.data(), first, order.data(), begin.data(),
                                            id.data(), count.data());
  for (std::size_t i = 0; i < guard; ++i) {
    CHECK(order[rows + i] == -7);
    CHECK(begin[rows + 1 + i] == -7);
    CHECK(id[rows + i] == -7);
  }
  if (segments > 0)
    launch("embedding_backward", kernels::embedding_backward<T, Threads>,
           dim3(static_cast<unsigned>(segments), columns), dim3(Threads), order.data(), begin.data(), id.data(),
           dy_there.data() + offset, w, got.data() + offset);
  CHECK(written(got, offset) == gradient);
}

}  // namespace

TEST_CASE("embedding: look-up, and the gradient added in the rows' order to the bit") {
  for (std::size_t width : {1, 31, 32, 33, 257}) {
    check_embedding<float, 32>(33, 10, width, 0, 1, 0);
    check_embedding<double, 64>(57, 31, width, 1000, 1, 0);
    check_embedding<float, 32>(100, 5, width, 70000, 3, 1);
    check_embedding<double, 32>(1, 1, width, 0, 2, 1);
  }
  check_embedding<float, 256>(65, 300, 1040, 7, 2, 0);
}
TEST_CASE("embedding: a part that holds none of the tokens has no segment") {
  std::vector<std::int32_t> const tokens{1, 2, 3};
  std::vector<int> order(3), begin(4), id(3), count(11);
  CHECK(kernels::token_order(3, 10, tokens.data(), 4, order.data(), begin.data(), id.data(), count.data()) == 0);
  CHECK(begin[0] == 0);
  CHECK(kernels::token_order(0, 10, nullptr, 4, nullptr, begin.data(), nullptr, count.data()) == 0);
}
TEST_CASE("embedding of bfloat16: gradients are added in float, and rounded once") {
  using narrow = __nv_bfloat16;
  std::size_t const rows = 700, vocabulary = 3;
  for (std::size_t width : {24, 13}) {
    std::vector<std::int32_t> const tokens = tokens_of(rows, vocabulary, 0);
    std::vector<narrow> const dy = values<narrow>(rows * width, 1), table = values<narrow>(vocabulary * width, 2);
    std::vector<narrow> gradient = table, y(rows * width);
    std::vector<float> const wide_dy(dy.begin(), dy.end()), wide_table(table.begin(), table.end());
    std::vector<float> expected = wide_table, expected_y(rows * width);
    host::detail::embedding_backward(rows, vocabulary, width, tokens.data(), wide_dy.data(), 0, expected.data());
    host::detail::embedding(rows, vocabulary, width, tokens.data(), wide_table.data(), 0, expected_y.data());
    std::vector<int> order(rows), begin(rows + 1), id(rows), count(vocabulary + 1);
    int const segments = kernels::token_order(static_cast<int>(rows), static_cast<int>(vocabulary), tokens.data(), 0,
                                              order.data(), begin.data(), id.data(), count.data());
    launch("embedding_backward", kernels::embedding_backward<narrow, 32>, dim3(static_cast<unsigned>(segments)),
           dim3(32), order.data(), begin.data(), id.data(), dy.data(), static_cast<int>(width), gradient.data());
    launch("embedding_forward", kernels::embedding_forward<narrow, 32>, dim3(static_cast<unsigned>(rows)), dim3(32),
           tokens.data(), table.data(), static_cast<int>(vocabulary), static_cast<int>(width), 0LL, y.data());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(float(gradient[i]) == float(narrow(expected[i])));
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(float(y[i]) == expected_y[i]);
  }
}
