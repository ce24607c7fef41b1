// SPDX-License-Identifier: Apache-2.0
// Rates of causal attention, against the same two products per head by Eigen with sizes at run time (which has neither
// the causal half to skip nor the softmax to do), of rotary positions, and of the random numbers. One thread, float and
// double. GFLOP/s count the full products (4·S²·D per head forward, 10·S²·D backward), as those of dense attention. The
// best of the runs is shown: run it on an idle machine.
#include <heddle/backend/host/attention.hpp>
#include <heddle/backend/host/random.hpp>
#include <heddle/backend/host/rotary.hpp>

#include <Eigen/Core>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <vector>

namespace {

using heddle::host::attentions;

template <class Work>
double seconds(Work work) {
  double best = 1e9;
  std::clock_t const begin = std::clock();
  for (int run = 0; run < 5 || (run < 1000 && std::clock() - begin < CLOCKS_PER_SEC / 3); ++run) {
    std::clock_t const before = std::clock();
    work();
    best = std::fmin(best, static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC);
  }
  return best;
}

template <class T>
std::vector<T> values(std::size_t n) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(std::sin(static_cast<double>(i) * 1.7));
  return x;
}

template <class T, std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim>
void attention() {
  constexpr std::size_t slots = Group + 2, row = KvHeads * slots * HeadDim;
  auto const qkv = values<T>(Batch * Sequence * row), dy = values<T>(Batch * Sequence * KvHeads * Group * HeadDim);
  std::vector<T> y(dy.size()), lse(dy.size() / HeadDim), dqkv(qkv.size());
  std::vector<T> scratch(attentions::attention_backward_scratch<Batch, Sequence, KvHeads, Group, HeadDim>());
  double const flops = 4.0 * Batch * KvHeads * Group * Sequence * Sequence * HeadDim;
  double const forward = seconds([&] {
    attentions::attention<Batch, Sequence, KvHeads, Group, HeadDim>(qkv.data(), y.data(), lse.data(), scratch.data());
  });
  double const backward = seconds([&] {
    attentions::attention_backward<Batch, Sequence, KvHeads, Group, HeadDim>(qkv.data(), y.data(), lse.data(),
                                                                             dy.data(), dqkv.data(), scratch.data());
  });
  using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using rows = Eigen::Map<matrix const, 0, Eigen::OuterStride<>>;
  constexpr auto s = static_cast<Eigen::Index>(Sequence), d = static_cast<Eigen::Index>(HeadDim);
  matrix scores(s, s), out(s, d);
  double const products = seconds([&] {
    for (std::size_t b = 0; b < Batch; ++b)
      for (std::size_t h = 0; h < KvHeads; ++h)
        for (std::size_t g = 0; g < Group; ++g) {
          T const* const head = qkv.data() + b * Sequence * row + h * slots * HeadDim;
          Eigen::OuterStride<> const stride(static_cast<Eigen::Index>(row));
          scores.noalias() =
              rows(head + g * HeadDim, s, d, stride) * rows(head + Group * HeadDim, s, d, stride).transpose();
          out.noalias() = scores * rows(head + (Group + 1) * HeadDim, s, d, stride);
        }
  });
  std::printf(
      "  attention %s B%zu T%-5zu heads %2zux%zu size %-4zu forward %8.1f us %6.1f GFLOP/s   backward %8.1f us %6.1f"
      " GFLOP/s   Eigen's two products %6.1f GFLOP/s\n",
      sizeof(T) == 4 ? "float " : "double", Batch, Sequence, KvHeads, Group, HeadDim, forward * 1e6,
      flops / forward * 1e-9, backward * 1e6, 2.5 * flops / backward * 1e-9, flops / products * 1e-9);
}

template <class T>
void elementwise() {
  constexpr std::size_t rows = 1024, width = 768, n = rows * width;
  heddle::index_map map;
  map.rank = 2;
  map.extent = map.valid = {rows, width};
  map.stride = {width, 1};
  auto const x = values<T>(3 * n);
  std::vector<T> y(3 * n), table(rows * 32);
  heddle::random_key const key{1, 2, 3};
  auto const report = [](char const* name, double elements, double time) {
    std::printf("  %-12s %s %8.1f M elements/s\n", name, sizeof(T) == 4 ? "float " : "double", elements / time * 1e-6);
  };
  using heddle::host::random;
  report("dropout", n, seconds([&] { random::dropout(x.data(), y.data(), map, key, 0.1); }));
  report("uniform", n, seconds([&] { random::fill_uniform(y.data(), map, key, 0.0, 1.0); }));
  report("normal", n, seconds([&] { random::fill_normal(y.data(), map, key, 0.0, 1.0); }));
  report("rotary", 2 * n, seconds([&] {
           heddle::host::rotary_positions::rotary<1, rows, 12, 1, 64>(y.data(), table.data(), table.data());
         }));
}

}  // namespace

int main() {
  attention<float, 12, 64, 4, 1, 32>();
  attention<float, 4, 64, 12, 1, 64>();
  attention<float, 4, 256, 12, 1, 64>();
  attention<float, 1, 1024, 12, 1, 64>();
  attention<float, 1, 1024, 2, 4, 128>();
  attention<double, 4, 64, 12, 1, 64>();
  elementwise<float>();
  elementwise<double>();
}
