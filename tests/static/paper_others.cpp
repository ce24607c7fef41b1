// SPDX-License-Identifier: Apache-2.0
// Parameters of published checkpoints and of nanoGPT: rows PRM-…, NPT-…, GPI-009/011, DAL-005/006 of
// shared/paper-values.csv.
//
// NPT-002, 004 and 006 are in paper_flops.cpp, 017 in tests/train/text.cpp, 025 in paper_run.cpp; tests/README.md lists
// what is left out.
#include <doctest/doctest.h>

#include "paper.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace paper_others {
namespace {

// PRM-001, 002, 004: the GPT-2 checkpoints, to the parameter.
static_assert(parameters_of<gpt<12, 768, 12, 50257, 1024>> == 124439808);
static_assert(parameters_of<gpt<24, 1024, 16, 50257, 1024>> == 354823168);
static_assert(parameters_of<gpt<48, 1600, 25, 50257, 1024>> == 1557611200);
// The defaults of gpt2_config are the smallest of them.
static_assert(parameters_of<gpt2<gpt2_config{}>> == 124439808);

// PRM-006, 008, 010, 011: arXiv 2005.14165 table D.1 (13B with 40·128 = 5120; XL's 24 heads do not divide 2048).
static_assert(within_share(millions(parameters_of<gpt<24, 1024, 16, 50257, 2048>>), 356, 0.004));
static_assert(within_share(millions(parameters_of<gpt<24, 2048, 16, 50257, 2048>>), 1320, 0.004));
static_assert(within_share(millions(parameters_of<gpt<32, 4096, 32, 50257, 2048>>), 6660, 0.004));
static_assert(within_share(millions(parameters_of<gpt<40, 5120, 40, 50257, 2048>>), 12850, 0.004));
// PRM-036: matrices alone, untied, without positions: 12Ld² + 2Vd.
using gpt3_matrices = gpt2<gpt2_config{
    .vocabulary = 50257, .context = 2048, .layers = 96, .heads = 96, .width = 12288, .biased = false, .tied = false}>;
static_assert(matrix_elements<gpt3_matrices>(false) - 2048 * 12288 == 175181291520);

// DAL-005, 006 (arXiv 2102.12092 table 1): 12Ld², the matrices of the layers.
static_assert(within_share(billions(matrix_elements<gpt<64, 1920, 30, 16384, 1280>>(true)), 2.8, 0.02));
static_assert(within_share(billions(matrix_elements<gpt<64, 2688, 42, 16384, 1280>>(true)), 5.6, 0.02));

// PRM-029, 030, 032, 034: the Llamas, to the parameter.
static_assert(parameters_of<llama<llama_config{}>> == 6738415616);
static_assert(
    parameters_of<llama<llama_config{.layers = 40, .heads = 40, .kv_heads = 40, .width = 5120, .mlp = 13824}>> ==
    13015864320);
static_assert(
    parameters_of<llama<llama_config{.layers = 80, .heads = 64, .kv_heads = 8, .width = 8192, .mlp = 28672}>> ==
    68976648192);
static_assert(parameters_of<llama<llama_config{
                  .vocabulary = 128256, .layers = 80, .heads = 64, .kv_heads = 8, .width = 8192, .mlp = 28672}>> ==
              70553706496);

// NPT-001, 012, 014, 015: nanoGPT without biases. It prints sizes without the position table, a checkpoint has both.
template <std::size_t Layers, std::size_t Width, std::size_t Heads, std::size_t Vocabulary, std::size_t Context>
using nano = gpt2<gpt2_config{
    .vocabulary = Vocabulary, .context = Context, .layers = Layers, .heads = Heads, .width = Width, .biased = false}>;
static_assert(parameters_of<nano<12, 768, 12, 50257, 1024>> == 124337664);
static_assert(parameters_of<nano<6, 384, 6, 65, 256>> == 10745088);
using nano_cpu = nano<4, 128, 4, 65, 64>;
static_assert(parameters_of<nano_cpu> == 804096);
static_assert(parameters_of<nano_cpu> - entry_of<on<nano_cpu, one_rank>>("wpe.weight").dims.size() == 795904);
// NPT-008: parameters and two AdamW moments in fp32, in GB of 1e9.
static_assert(within(billions(parameters_of<gpt<12, 768, 12, 50257, 1024>> * (1 + adamw::slots) * sizeof(float)), 1.49,
                     0.005));
// The same model is as large under any plan.
struct split_up : plan<mesh<axis<dp, 2>, axis<pp, 3>, axis<tp, 4>>, micro_batch<2>> {};
static_assert(basic_ledger<on<gpt<12, 768, 12, 50257, 1024>, split_up>>::parameters == 124439808);

// GPI-009, 011 (arXiv 1811.06965 table 1): Lingvo's Transformer, which is a composition of the same modules: no table
// of positions, an untied head with a bias.
template <std::size_t Layers>
struct lingvo {
  static constexpr gpt2_config config{
      .vocabulary = 32000, .context = 1024, .layers = Layers, .heads = 16, .width = 2048};
  static constexpr std::size_t context = 1024, vocabulary = 32000;
  using parts = detail::gpt2_parts<config>;
  using embed_dim = typename parts::embed_dim;
  using vocab_dim = typename parts::vocab_dim;
  using module =
      sequential<named<"table", embedding<vocab_dim, embed_dim>>,
                 named<"h", repeat<dim<layers, Layers>, typename parts::block>>, named<"norm", layer_norm<embed_dim>>,
                 named<"head", linear<embed_dim, vocab_dim>>, cross_entropy<vocab_dim>>;
};
static_assert(within(millions(parameters_of<lingvo<13>>), 785.8, 0.05));
static_assert(within(billions(parameters_of<lingvo<415>>), 21.0, 0.05));

}  // namespace

TEST_CASE("matrices of a model are fewer than its parameters") {
  CHECK(matrix_elements<nano_cpu>(true) < matrix_elements<nano_cpu>(false));
  CHECK(matrix_elements<nano_cpu>(false) < parameters_of<nano_cpu>);
}

}  // namespace paper_others
