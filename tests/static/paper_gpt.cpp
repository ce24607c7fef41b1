// SPDX-License-Identifier: Apache-2.0
// Parameters of the GPTs that the papers on large models print: rows ZER-09x, MEG-001..007, PTD-… of
// shared/paper-values.csv. The counts are the ledger's; nothing is allocated.
// (pipeline_bubble rows are checked in tests/pipeline; MEG-013..019 in megatron.cpp.)
#include <doctest/doctest.h>

#include "paper.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace paper_gpt {
namespace {

template <std::size_t L, std::size_t H, std::size_t A, std::size_t V, std::size_t S>
constexpr std::size_t count = parameters_of<gpt<L, H, A, V, S>>;

// PTD-001: eq. 2 leaves out the final norm's 2h, and nothing else.
template <std::size_t L, std::size_t H, std::size_t A, std::size_t V, std::size_t S>
constexpr bool by_equation_2 = count<L, H, A, V, S> == gpt_parameters(letters<L, H, V, S>) + 2 * H;
static_assert(by_equation_2<1, 8, 2, 16, 4> && by_equation_2<24, 2304, 24, 51200, 2048>);

// PTD-004, 006, 007, 009, 011, 013 (table 1).
static_assert(within(billions(count<24, 2304, 24, 51200, 2048>), 1.7, 0.051));
static_assert(within(billions(count<36, 4096, 32, 51200, 2048>), 7.5, 0.051));
static_assert(within(billions(count<40, 6144, 48, 51200, 2048>), 18.4, 0.051));
static_assert(within(billions(count<60, 10240, 80, 51200, 2048>), 76.1, 0.051));
static_assert(within(billions(count<96, 16384, 128, 51200, 2048>), 310.1, 0.051));
static_assert(within(billions(count<128, 25600, 160, 51200, 2048>), 1008.0, 0.051));
// PTD-071, 072, 074 (§5.2–5.6). They do not print heads, which change no count.
static_assert(within(billions(count<32, 20480, 128, 51200, 2048>), 162.2, 0.05));
static_assert(within(billions(count<32, 3840, 32, 51200, 2048>), 5.9, 0.05));
static_assert(within(billions(count<80, 12288, 96, 51200, 2048>), 145, 1));

// MEG-001, 003 (table 1), 005 (table 2).
static_assert(within(billions(count<40, 1536, 16, 51200, 1024>), 1.2, 0.05));
static_assert(within(billions(count<64, 2304, 24, 51200, 1024>), 4.2, 0.05));
static_assert(within(millions(count<24, 1024, 16, 51200, 1024>), 355, 1));

// MEG-007 (table 4): a BERT, whose parameters are those of the same modules. The library has no such model, since
// attention that looks both ways and the look-up of a segment are missing; neither changes a count. The pooler and the
// transform of the masked-word head, which read the same value, stand in a row here.
struct segments : dim_name<"segments"> {};
struct pooled : dim_name<"pooled"> {};
template <class Embed>
struct segment_table : primitive {
  using parameters = parameter_list<parameter<"weight", dims<dim<segments, 2>, Embed>, normal(0.02), true>>;
  template <class Input>
  using output = Input;
  template <class>
  struct kernel : kernel_traits {};
};
template <std::size_t Layers, std::size_t Width, std::size_t Heads, std::size_t Vocabulary, std::size_t Context>
struct bert {
  static constexpr std::size_t context = Context, vocabulary = Vocabulary;
  using parts = detail::gpt2_parts<gpt2_config{
      .vocabulary = Vocabulary, .context = Context, .layers = Layers, .heads = Heads, .width = Width}>;
  using embed_dim = typename parts::embed_dim;
  using vocab_dim = typename parts::vocab_dim;
  using pooled_dim = dim<pooled, Width>;
  using module = sequential<
      named<"words", embedding<vocab_dim, embed_dim, normal(0.02), "words">>,
      named<"positions", position_embedding<typename parts::sequence_dim, embed_dim>>,
      named<"segments", segment_table<embed_dim>>, named<"norm", layer_norm<embed_dim>>,
      named<"h", repeat<dim<layers, Layers>, typename parts::block>>, named<"pooler", linear<embed_dim, pooled_dim>>,
      named<"transform", linear<pooled_dim, embed_dim>>, named<"head_norm", layer_norm<embed_dim>>,
      named<"head", linear<embed_dim, vocab_dim, biased::yes, normal(0.02), "words">>, cross_entropy<vocab_dim>>;
};
static_assert(within(millions(parameters_of<bert<24, 2048, 32, 30522, 512>>), 1300, 50));
// The published BERT-base and BERT-large have 110M and 340M (arXiv 1810.04805 section 3).
static_assert(within(millions(parameters_of<bert<12, 768, 12, 30522, 512>>), 110, 5));
static_assert(within(millions(parameters_of<bert<24, 1024, 16, 30522, 512>>), 340, 5));

// ZER-091, 093, 095, 097, 099 (table 5), which prints layers and width: GPT-2's vocabulary and context.
static_assert(within_share(billions(count<48, 1600, 16, 50257, 1024>), 1.5, 0.05));
static_assert(within_share(billions(count<88, 6144, 32, 50257, 1024>), 40, 0.05));
static_assert(within_share(billions(count<100, 8192, 64, 50257, 1024>), 80, 0.05));
static_assert(within_share(billions(count<150, 8192, 64, 50257, 1024>), 120, 0.05));
static_assert(within_share(billions(count<212, 8192, 64, 50257, 1024>), 170, 0.05));

// MEG-009, 011 (§5.1): the vocabulary is padded to a multiple of 128 per rank.
static_assert(padded_size(50257, 8, 128) == 51200);
static_assert(padded_size(50257, 2, 128) == 50432);
// … and what is stored is the padded size, while parameters count what has a meaning.
template <std::size_t Ranks>
struct megatron_padding : plan<mesh<axis<tp, Ranks>>, padding<pad<vocab, 128>>> {};
template <std::size_t Ranks>
using stored = basic_ledger<on<gpt<2, 1024, 16, 50257, 1024>, megatron_padding<Ranks>>>;
static_assert(entry_of<on<gpt<2, 1024, 16, 50257, 1024>, megatron_padding<8>>>("wte.weight").size == 51200 / 8 * 1024);
static_assert(entry_of<on<gpt<2, 1024, 16, 50257, 1024>, megatron_padding<2>>>("wte.weight").size == 50432 / 2 * 1024);
static_assert(stored<8>::parameters == count<2, 1024, 16, 50257, 1024>);

}  // namespace

TEST_CASE("equation 2 holds for every depth and width of a grid") {
  CHECK(by_equation_2<1, 16, 4, 65, 8>);
  CHECK(by_equation_2<3, 16, 4, 65, 8>);
  CHECK(by_equation_2<3, 48, 4, 65, 8>);
}

}  // namespace paper_gpt
