// SPDX-License-Identifier: Apache-2.0
// nvcc's front end must read the declarations as the host compilers do: it once chose other specialisations without a
// word. Whole models are counted, so a module that comes out differently shows. A green compilation is the pass.
#include <heddle/models/gpt2.hpp>
#include <heddle/models/llama.hpp>
#include <heddle/models/with_frozen.hpp>
#include <heddle/plan/ledger.hpp>
#include <heddle/tensor/no_scratch.hpp>
#include <heddle/train/run.hpp>
#include <heddle/train/trainer.hpp>

namespace hd = heddle;

/// Sizes of scratch are all that constants ask a backend for.
struct sizes_only : hd::no_scratch {
  template <std::size_t...>
  static constexpr std::size_t attention_scratch() {
    return 0;
  }
  template <std::size_t...>
  static constexpr std::size_t attention_backward_scratch() {
    return 0;
  }
};

struct one_rank : hd::plan<> {};
struct three_d : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>, hd::micro_batch<4>,
                          hd::accumulate<3>> {};
using gpt2_124m = hd::gpt2<hd::gpt2_config{}>;
using llama_7b = hd::llama<hd::llama_config{}>;

static_assert(hd::count_parameters<hd::resolved<gpt2_124m, one_rank, sizes_only>>() == 124439808);
static_assert(hd::count_parameters<hd::resolved<gpt2_124m, three_d, sizes_only>>() == 124439808);
static_assert(hd::count_parameters<hd::resolved<llama_7b, one_rank, sizes_only>>() == 6738415616);

using tuned = hd::with_frozen<gpt2_124m, "wte", "lm_head", "wpe", "h.attn">;
static_assert(hd::count_all_parameters<hd::resolved<tuned, three_d, sizes_only>>().all == 124439808);
static_assert(hd::count_all_parameters<hd::resolved<tuned, three_d, sizes_only>>().trained ==
              12 * (8 * 768 * 768 + 5 * 768 + 4 * 768) + 2 * 768);
// All but the last norm: no backward reaches the layers.
using ended = hd::with_frozen<gpt2_124m, "wte", "lm_head", "wpe", "h">;
static_assert(hd::stage_partition<hd::resolved<ended, three_d, sizes_only>>::stage<hd::stage_kind::middle>::saved == 0);

using middle = hd::stage_partition<hd::resolved<gpt2_124m, three_d, sizes_only>>::stage<hd::stage_kind::middle>;
constexpr hd::traffic_table forward = [] {
  hd::traffic_table t{};
  middle::count_forward(t, {});
  return t;
}();
// Six layers of a stage, two pairs each, over the third axis.
static_assert(forward.of(2, hd::comm::operation::all_gather).calls == 12 &&
              forward.of(2, hd::comm::operation::reduce_scatter).calls == 12);
