// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <embedding/embedding.cuh>
#include <heddle/backend/host/embedding.hpp>
#include <support/geometry.cuh>
#include <vector>

#include "guarded.hpp"
#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using emulation::guarded;
using emulation::launch;
using emulation::rounded;
using emulation::values;
using emulation::wide;

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

template <class T, int Threads, class Gradient = wide<T>>
void check_embedding(std::size_t rows, std::size_t vocabulary, std::size_t width, std::int64_t first,
                     std::size_t offset) {
  CAPTURE(rows);
  CAPTURE(vocabulary);
  CAPTURE(width);
  CAPTURE(Threads);
  using A = wide<T>;
  std::vector<std::int32_t> const ids = tokens_of(rows, vocabulary, first);
  guarded<std::int32_t> const tokens(ids);
  int const v = static_cast<int>(vocabulary), w = static_cast<int>(width);

  std::vector<A> const all = values<T>(vocabulary * width, 1);
  guarded<T> const table(all, offset);
  guarded<T> y(rows * width, offset);
  std::vector<A> expected(rows * width);
  host::detail::embedding(rows, vocabulary, width, ids.data(), all.data(), first, expected.data());
  launch<kernels::embedding_forward<T, Threads>>(kernels::row_grid(rows), dim3(Threads), tokens.read(), table.read(), v,
                                                 w, static_cast<long long>(first), y.data());
  CHECK(y.values() == expected);

  std::vector<A> const cotangent = values<T>(rows * width, 2);
  guarded<T> const dy(cotangent, offset);
  std::vector<A> gradient = values<Gradient>(vocabulary * width, 3);
  guarded<Gradient> dtable = guarded<Gradient>::sum(gradient, offset);
  host::detail::embedding_backward(rows, vocabulary, width, ids.data(), cotangent.data(), first, gradient.data());
  launch<kernels::embedding_backward<T, Gradient, Threads>>(kernels::embedding_grid<T, Threads>(rows, w), dim3(Threads),
                                                            tokens.read(), static_cast<int>(rows), dy.read(), v, w,
                                                            static_cast<long long>(first), dtable.data());
  CHECK(dtable.values() == rounded<Gradient>(gradient));
}

}  // namespace

TEST_CASE("embedding: look-up, and the gradient added in the rows' order to the bit") {
  for (std::size_t width : {1, 31, 32, 33, 257}) {
    check_embedding<float, 32>(33, 10, width, 0, 0);
    check_embedding<double, 64>(57, 31, width, 1000, 0);
    check_embedding<float, 32>(100, 5, width, 70000, 1);
    check_embedding<double, 32>(1, 1, width, 0, 1);
  }
  check_embedding<float, 256>(65, 300, 1040, 7, 0);
}
TEST_CASE("embedding in bfloat16 and half: gradients are added in float, and where they are narrow rounded once") {
  for (std::size_t width : {1, 13, 24, 264}) {
    check_embedding<__nv_bfloat16, 32>(100, 10, width, 0, 0);
    check_embedding<__nv_bfloat16, 32, __nv_bfloat16>(100, 10, width, 0, 1);
    check_embedding<__half, 64>(57, 5, width, 1000, 1);
    check_embedding<__half, 32, __half>(57, 5, width, 1000, 0);
  }
  check_embedding<__nv_bfloat16, 32, __nv_bfloat16>(700, 3, 24, 0, 0);
}
TEST_CASE("known-faults BF-3: a token of 512 micro-batches with gradient 1 has 512, where gradients are in float") {
  auto const added_up = []<class Gradient>(Gradient) {
    guarded<std::int32_t> const tokens(std::vector<std::int32_t>{2});
    guarded<__nv_bfloat16> const dy(std::vector<float>{1});
    guarded<Gradient> dtable = guarded<Gradient>::sum({0, 0, 0});
    for (int i = 0; i < 512; ++i)
      launch<kernels::embedding_backward<__nv_bfloat16, Gradient, 32>>(dim3(1), dim3(32), tokens.read(), 1, dy.read(),
                                                                       3, 1, 0LL, dtable.data());
    return dtable.values();
  };
  CHECK(added_up(float()) == std::vector<float>{0, 0, 512});
  CHECK(added_up(__nv_bfloat16()) == std::vector<float>{0, 0, 256});  // what the type is for
}
TEST_CASE("embedding: an id that stands far apart, and one in every row, are found across pieces and warps") {
  // More rows than a block looks at in one go, of either search.
  std::size_t const rows = 1200, width = 3;
  std::vector<std::int32_t> ids(rows, 1);
  for (std::size_t const row : {0U, 31U, 32U, 600U, 1199U}) ids[row] = 0;
  guarded<std::int32_t> const tokens(ids);
  std::vector<float> const cotangent = values<float>(rows * width, 2);
  guarded<float> const dy(cotangent);
  std::vector<float> gradient = values<float>(2 * width, 3);
  guarded<float> dtable = guarded<float>::sum(gradient);
  host::detail::embedding_backward(rows, 2, width, ids.data(), cotangent.data(), 0, gradient.data());
  launch<kernels::embedding_backward<float, float, 32>>(kernels::embedding_grid<float, 32>(rows, 3), dim3(32),
                                                        tokens.read(), static_cast<int>(rows), dy.read(), 2, 3, 0LL,
                                                        dtable.data());
  CHECK(dtable.values() == gradient);
}
