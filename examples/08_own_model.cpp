// SPDX-License-Identifier: Apache-2.0
// A model without attention, with a dimension of its own that rules of its own split.
#include <cstdio>
#include <heddle/heddle.hpp>

#include "rhyme.hpp"

namespace hd = heddle;

// [module]
namespace mine {

/// y[…, t, c] = mean of x[…, 0 … t, c]: what the average attention network has in attention's place (Zhang et al.,
/// arXiv 1805.00631 §3.1). It looks along the sequence, so the sequence must be whole.
template <class Sequence, class Width>
struct running_mean : hd::primitive {
  using parameters = hd::parameter_list<>;
  static constexpr hd::dimension_list whole = hd::dims<Sequence>::value;
  template <class Input>
  using output = Input;

  template <class Place>
  struct kernel : hd::kernel_traits {
    using T = typename Place::element;
    static constexpr std::size_t width = Place::template extent<typename Width::name>;
    static constexpr std::size_t length = Place::template extent<typename Sequence::name>;
    static constexpr std::size_t sequences = Place::input_size / (length * width);

    template <class Context>
    static void forward(Context&, hd::frame<T> const&, T const* x, T* y) {
      for (std::size_t n = 0; n < sequences; ++n)
        for (std::size_t c = 0; c < width; ++c) {
          T sum = 0;
          for (std::size_t t = 0; t < length; ++t) {
            std::size_t const i = (n * length + t) * width + c;
            sum += x[i];
            y[i] = sum / T(t + 1);
          }
        }
    }
    template <class Context>
    static void backward(Context&, hd::frame<T> const&, T const*, T const*, T const* dy, T* dx) {
      for (std::size_t n = 0; n < sequences; ++n)
        for (std::size_t c = 0; c < width; ++c) {
          T sum = 0;
          for (std::size_t t = length; t-- > 0;) {
            std::size_t const i = (n * length + t) * width + c;
            sum += dy[i] / T(t + 1);
            dx[i] = sum;
          }
        }
    }
  };
};

}  // namespace mine
// [/module]

// [model]
namespace mine {

struct channels : hd::dim_name<"channels"> {};

using width = hd::dim<hd::embed, 32>;
using hidden = hd::dim<hd::mlp, 64>;
using mixed = hd::dim<channels, 64>;
using positions = hd::dim<hd::sequence, 32>;
using characters = hd::dim<hd::vocab, alphabet_size>;

using mix = hd::sequential<hd::named<"norm_1", hd::rms_norm<width>>, hd::named<"in", hd::linear<width, mixed>>,
                           hd::gelu, running_mean<positions, mixed>, hd::named<"out", hd::linear<mixed, width>>>;
using feed_forward =
    hd::sequential<hd::named<"norm_2", hd::rms_norm<width>>,
                   hd::named<"gate_up", hd::linear<width, hd::dims<hd::gate_up_dim, hidden>, hd::biased::no>>,
                   hd::swiglu<hidden>, hd::named<"down", hd::linear<hidden, width, hd::biased::no>>>;

struct averaging_network {
  static constexpr std::size_t context = positions::size;
  static constexpr std::size_t vocabulary = characters::size;
  using module =
      hd::sequential<hd::named<"embedding", hd::embedding<characters, width>>,
                     hd::named<"position", hd::position_embedding<positions, width>>,
                     hd::named<"layer", hd::repeat<hd::dim<hd::layers, 4>,
                                                   hd::sequential<hd::residual<mix>, hd::residual<feed_forward>>>>,
                     hd::named<"norm", hd::rms_norm<width>>,
                     hd::named<"head", hd::linear<width, characters, hd::biased::no>>, hd::cross_entropy<characters>>;
};
static_assert(hd::LanguageModel<averaging_network>);

}  // namespace mine
// [/model]

// [plan]
struct plan
    : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>,
               hd::rules<hd::shard<mine::channels, hd::tp>, hd::shard<hd::mlp, hd::tp>, hd::shard<hd::vocab, hd::tp>,
                         hd::shard<hd::batch, hd::dp>, hd::shard<hd::layers, hd::pp>, hd::shard<hd::sequence, hd::tp>>,
               hd::global_batch<16>, hd::accumulate<4>> {};
// [/plan]

int main() {
  std::printf("%s\n", hd::describe<mine::averaging_network, plan>().c_str());
  auto const tokens = hd::character_vocabulary(rhyme).encode(rhyme);
  hd::random_windows const sampler(tokens.size(), mine::averaging_network::context, 1);
  double loss = 0;
  hd::run<plan>(hd::threads, [&](auto& rank) {
    hd::trainer<mine::averaging_network, plan> trainer{rank, {.seed = 1, .learning_rate = 5e-3, .clip = 1}};
    hd::token_batch batch(trainer.shape(), mine::averaging_network::context);
    for (std::size_t step = 0; step < 100; ++step) {
      batch.fill(sampler, tokens, step, trainer.data_rank());
      double const mean = trainer.step(batch).loss.mean();
      if (rank.rank() != 0) continue;
      if (step % 20 == 0) std::printf("step %3zu  loss %.4f\n", step, mean);
      loss = mean;
    }
  });
  std::printf("last      loss %.4f\n", loss);
  return loss < 1.5 ? 0 : 1;
}
