// SPDX-License-Identifier: Apache-2.0
// Primitives in a captured graph, on a device and on the emulated one.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/graph.hpp>
#include <vector>

#include "../emulation/both_backends.hpp"

namespace graph_cpp {

using namespace heddle;
using heddle::emulation::array_of;
using heddle::emulation::values;

constexpr std::size_t rows = 6, width = 8, wide_width = 16;

/// A layer with its norm, its gradients and an update: what a step is made of.
struct layer {
  template <class T>
  using array = array_of<cuda_backend, T>;

  array<float> x{values<float>(rows * width, 1)}, gamma{values<float>(width, 2)}, beta{values<float>(width, 3)};
  array<float> w{values<float>(wide_width * width, 4)}, normed{rows * width}, mean{rows}, rstd{rows};
  array<float> hidden{rows * wide_width}, active{rows * wide_width}, back{rows * wide_width};
  array<float> gradient{wide_width * width}, first{wide_width * width}, second{wide_width * width};
  array<double> norm{1};
  array<float> scratch{cuda_backend::product_scratch<rows, wide_width, width>() +
                       cuda_backend::product_scratch<wide_width, width, rows>() + 1};

  void run() {
    cuda_backend::layer_norm<rows, width>(x.read(), gamma.read(), beta.read(), 1e-5F, normed.data(), mean.data(),
                                          rstd.data());
    cuda_backend::product<rows, wide_width, width, false, true>(normed.read(), w.read(), hidden.data(), scratch.data());
    cuda_backend::activation<activation_kind::gelu_tanh, rows * wide_width>(hidden.read(), active.data());
    cuda_backend::activation_backward<activation_kind::gelu_tanh, rows * wide_width>(hidden.read(), active.read(),
                                                                                     back.data());
    cuda_backend::product<wide_width, width, rows, true, false>(back.read(), normed.read(), gradient.data(),
                                                                scratch.data());
    cuda_backend::clear(norm.data(), 1);
    cuda_backend::add_sum_of_squares(gradient.read(), wide_width * width, norm.data());
    adamw_coefficients const c{.learning_rate = 1e-2,
                               .weight_decay = 0.1,
                               .bias_correction1 = 0.1,
                               .bias_correction2 = 1e-3,
                               .gradient_scale = 1};
    cuda_backend::adamw(w.data(), gradient.read(), first.data(), second.data(), wide_width * width, c);
  }
  [[nodiscard]] std::vector<float> trained() const {
    std::vector<float> all = w.values(), m = first.values();
    all.insert(all.end(), m.begin(), m.end());
    all.push_back(static_cast<float>(norm.values()[0]));
    return all;
  }
};

}  // namespace graph_cpp

using namespace graph_cpp;

TEST_CASE("a captured step of primitives, replayed, is the step run, to the bit") {
  emulation::on_every_device([] {
    layer direct, replayed;
    direct.run();
    std::vector<float> const before = replayed.trained();
    auto const& stream = cuda::execution::current().compute();
    // Plans of products are made at their first call, which a capture does not permit of all libraries.
    replayed.run();
    CHECK(replayed.trained() == direct.trained());
    cuda::executable_graph const step = cuda::capture(stream, [&] { replayed.run(); });
    CHECK(replayed.trained() == direct.trained());  // the capture ran nothing
    CHECK(replayed.trained() != before);
    for (int turn = 0; turn < 3; ++turn) {
      direct.run();
      step.replay(stream);
      CHECK(replayed.trained() == direct.trained());
    }
  });
}
