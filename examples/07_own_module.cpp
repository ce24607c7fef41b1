// SPDX-License-Identifier: Apache-2.0
// A module from outside the library, trained under any plan.
#include <cmath>
#include <cstdio>
#include <heddle/heddle.hpp>
#include <vector>

#include "rhyme.hpp"

namespace hd = heddle;

// [module]
namespace mine {

/// y[…, c] = scale[c] · max(x[…, c], 0)²: the squared ReLU of Primer (So et al., arXiv 2109.08668 §3), with a learned
/// scale per channel.
template <class Width>
struct scaled_square : hd::primitive {
  using parameters = hd::parameter_list<hd::parameter<"scale", hd::dims<Width>, hd::ones, false>>;
  template <class Input>
  using output = Input;

  template <class Place>
  struct kernel : hd::kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = true;  // backward reads x
    static constexpr std::size_t width = Place::template extent<typename Width::name>;
    static constexpr std::size_t rows = Place::input_size / width;

    template <class Context>
    static void forward(Context&, hd::frame<T> const& f, T const* x, T* y) {
      for (std::size_t i = 0; i < rows * width; ++i) y[i] = f.parameter[0][i % width] * square(x[i]);
    }
    template <class Context>
    static void backward(Context&, hd::frame<T> const& f, T const* x, T const*, T const* dy, T* dx) {
      for (std::size_t i = 0; i < rows * width; ++i) {
        f.gradient[0][i % width] += dy[i] * square(x[i]);
        dx[i] = dy[i] * f.parameter[0][i % width] * 2 * (x[i] > 0 ? x[i] : T(0));
      }
    }

   private:
    static T square(T x) { return x > 0 ? x * x : T(0); }
  };
};

}  // namespace mine
// [/module]
static_assert(hd::Primitive<mine::scaled_square<hd::dim<hd::mlp, 128>>>);

// [model]
namespace mine {

using width = hd::dim<hd::embed, 32>;
using hidden = hd::dim<hd::mlp, 128>;
using positions = hd::dim<hd::sequence, 32>;
using characters = hd::dim<hd::vocab, alphabet_size>;
using heads = hd::dim<hd::heads, 4>;
using head = hd::dim<hd::head_dim, 8>;

using attention = hd::causal_attention<positions, heads, 1, head>;
using attention_branch =
    hd::sequential<hd::named<"norm_1", hd::rms_norm<width>>,
                   hd::named<"qkv", hd::linear<width, hd::dims<heads, attention::qkv_dim, head>, hd::biased::no>>,
                   attention, hd::named<"out", hd::linear<hd::dims<heads, attention::group_dim, head>, width>>>;
using mlp_branch =
    hd::sequential<hd::named<"norm_2", hd::rms_norm<width>>, hd::named<"up", hd::linear<width, hidden>>,
                   hd::named<"act", scaled_square<hidden>>, hd::named<"down", hd::linear<hidden, width>>>;
using block = hd::sequential<hd::residual<attention_branch>, hd::residual<mlp_branch>>;

struct model {
  static constexpr std::size_t context = positions::size;
  static constexpr std::size_t vocabulary = characters::size;
  using module = hd::sequential<hd::named<"embedding", hd::embedding<characters, width>>,
                                hd::named<"position", hd::position_embedding<positions, width>>,
                                hd::named<"layer", hd::repeat<hd::dim<hd::layers, 2>, block>>,
                                hd::named<"norm", hd::rms_norm<width>>,
                                hd::named<"head", hd::linear<width, characters>>, hd::cross_entropy<characters>>;
};

}  // namespace mine
// [/model]

// [plan]
struct serial : hd::plan<hd::global_batch<8>, hd::precision<hd::fp64>> {};
struct split : hd::plan<hd::mesh<hd::axis<hd::tp, 2>>, hd::global_batch<8>, hd::precision<hd::fp64>> {};
// [/plan]

namespace {

template <class Plan>
std::vector<double> losses() {
  auto const tokens = hd::character_vocabulary(rhyme).encode(rhyme);
  hd::random_windows const sampler(tokens.size(), mine::model::context, 1);
  std::vector<double> result;
  hd::run<Plan>(hd::threads, [&](auto& rank) {
    hd::trainer<mine::model, Plan> trainer{rank, {.seed = 1, .learning_rate = 5e-3, .clip = 1}};
    hd::token_batch batch(trainer.shape(), mine::model::context);
    for (std::size_t step = 0; step < 60; ++step) {
      batch.fill(sampler, tokens, step, trainer.data_rank());
      double const mean = trainer.step(batch).loss.mean();
      if (rank.rank() == 0) result.push_back(mean);
    }
  });
  return result;
}

}  // namespace

int main() {
  std::printf("%s\n", hd::describe<mine::model, split>().c_str());
  // [compare]
  auto const alone = losses<serial>();
  auto const shared = losses<split>();
  double worst = 0;
  for (std::size_t step = 0; step < alone.size(); ++step) {
    worst = std::fmax(worst, std::fabs(shared[step] - alone[step]));
    if (step % 10 == 0) std::printf("step %2zu  one rank %.12f  two ranks %.12f\n", step, alone[step], shared[step]);
  }
  std::printf("greatest difference %.1e\n", worst);
  // [/compare]
  return worst < 1e-9 && alone.back() < 2.2 ? 0 : 1;
}
