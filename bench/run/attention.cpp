// SPDX-License-Identifier: Apache-2.0
// Rates of causal attention, against the same two products per head by Eigen with sizes at run time (which has neither
// the causal half to skip nor the softmax to do), of rotary positions, and of the random numbers. One thread, float and
// double. Operations are those of the full products (4·S²·D per head forward, 10·S²·D backward), as of dense attention.
#include <heddle/backend/host/attention.hpp>
#include <heddle/backend/host/eigen.hpp>
#include <heddle/backend/host/random.hpp>
#include <heddle/backend/host/rotary.hpp>
#include <string>

#include "rates.hpp"

namespace {

using bench::rate, bench::unit, bench::values;
using heddle::host::attentions;

template <class T>
constexpr char const* type_name = sizeof(T) == 4 ? "float" : "double";

template <class T, std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim>
void attention() {
  static constexpr std::size_t slots = Group + 2, row = KvHeads * slots * HeadDim, in = Batch * Sequence * row,
                               out = Batch * Sequence * KvHeads * Group * HeadDim;
  // Two products, of which ours computes what the causal mask leaves, and Eigen's all.
  double const whole = 4.0 * Batch * KvHeads * Group * Sequence * Sequence * HeadDim;
  double const flops = whole * (Sequence + 1) / (2 * Sequence);
  std::string const at = std::string("/") + type_name<T> + " B" + std::to_string(Batch) + " T" +
                         std::to_string(Sequence) + " heads " + std::to_string(KvHeads) + "x" + std::to_string(Group) +
                         " size " + std::to_string(HeadDim);
  struct buffers {
    std::vector<T> qkv = values<T>(in), dy = values<T>(out), y = std::vector<T>(out),
                   lse = std::vector<T>(out / HeadDim), dqkv = std::vector<T>(in),
                   scratch = std::vector<T>(
                       attentions::attention_backward_scratch<Batch, Sequence, KvHeads, Group, HeadDim>());
    void forward() {
      attentions::attention<Batch, Sequence, KvHeads, Group, HeadDim>(qkv.data(), y.data(), lse.data(), scratch.data());
    }
  };
  rate("attention" + at, flops, unit::flop, [] { return [b = buffers()]() mutable { b.forward(); }; });
  rate("attention backward" + at, 2.5 * flops, unit::flop, [] {
    buffers b;
    b.forward();
    return [b]() mutable {
      attentions::attention_backward<Batch, Sequence, KvHeads, Group, HeadDim>(
          b.qkv.data(), b.y.data(), b.lse.data(), b.dy.data(), b.dqkv.data(), b.scratch.data());
    };
  });
  rate("Eigen's two products" + at, whole, unit::flop, [] {
    using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using rows = Eigen::Map<matrix const, 0, Eigen::OuterStride<>>;
    constexpr auto s = static_cast<Eigen::Index>(Sequence), d = static_cast<Eigen::Index>(HeadDim);
    return [qkv = values<T>(in), scores = matrix(s, s), y = matrix(s, d)]() mutable {
      Eigen::OuterStride<> const stride(static_cast<Eigen::Index>(row));
      for (std::size_t b = 0; b < Batch; ++b)
        for (std::size_t h = 0; h < KvHeads; ++h)
          for (std::size_t g = 0; g < Group; ++g) {
            T const* const head = qkv.data() + b * Sequence * row + h * slots * HeadDim;
            scores.noalias() =
                rows(head + g * HeadDim, s, d, stride) * rows(head + Group * HeadDim, s, d, stride).transpose();
            y.noalias() = scores * rows(head + (Group + 1) * HeadDim, s, d, stride);
          }
    };
  });
}

template <class T>
void elementwise() {
  static constexpr std::size_t rows = 1024, width = 768, n = rows * width;
  static constexpr heddle::random_key key{1, 2, 3};
  heddle::index_map map;
  map.rank = 2;
  map.extent = map.valid = {rows, width};
  map.stride = {width, 1};
  using heddle::host::random;
  std::string const at = std::string("/") + type_name<T>;
  rate("dropout" + at, n, unit::element, [map] {
    return [map, x = values<T>(n), y = std::vector<T>(n)]() mutable {
      random::dropout(x.data(), nullptr, y.data(), map, key, 0.1);
    };
  });
  rate("uniform" + at, n, unit::element, [map] {
    return [map, y = std::vector<T>(n)]() mutable { random::fill_uniform(y.data(), map, key, 0.0, 1.0); };
  });
  rate("normal" + at, n, unit::element,
       [map] { return [map, y = std::vector<T>(n)]() mutable { random::fill_normal(y.data(), map, key, 0.0, 1.0); }; });
  rate("rotary" + at, 2.0 * n, unit::element, [] {
    return [y = values<T>(3 * n), table = std::vector<T>(rows * 32)]() mutable {
      heddle::host::rotary_positions::rotary<1, rows, 12, 1, 64>(y.data(), y.data(), table.data(), table.data());
    };
  });
}

}  // namespace

int main(int argc, char** argv) {
  attention<float, 12, 64, 4, 1, 32>();
  attention<float, 4, 64, 12, 1, 64>();
  attention<float, 4, 256, 12, 1, 64>();
  attention<float, 1, 1024, 12, 1, 64>();
  attention<float, 1, 1024, 2, 4, 128>();
  attention<double, 4, 64, 12, 1, 64>();
  elementwise<float>();
  elementwise<double>();
  return bench::run(argc, argv);
}
