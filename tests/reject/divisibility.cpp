// SPDX-License-Identifier: Apache-2.0
// A size that its ranks cannot share is named in the first error, with the ranks and the nearest sizes that work.
#include <heddle/models/gpt2.hpp>
#include <heddle/models/llama.hpp>
#include <heddle/plan/legality.hpp>
#include <heddle/tensor/no_scratch.hpp>

namespace hd = heddle;

struct no_backend : hd::no_scratch {};
constexpr hd::llama_config with_2_kv_heads{
    .vocabulary = 64, .context = 16, .layers = 4, .heads = 8, .kv_heads = 2, .width = 64, .mlp = 64};
template <class Plan>
using check_grouped = hd::legal<hd::resolved<hd::llama<with_2_kv_heads>, Plan, no_backend>>;
template <hd::gpt2_config Config, class Plan>
using check = hd::legal<hd::resolved<hd::gpt2<Config>, Plan, no_backend>>;

constexpr hd::gpt2_config small{.vocabulary = 64, .context = 16, .layers = 4, .heads = 8, .width = 64};
constexpr hd::gpt2_config with_52_heads{.vocabulary = 64, .context = 16, .layers = 4, .heads = 52, .width = 416};
constexpr hd::gpt2_config with_width_50{.vocabulary = 64, .context = 16, .layers = 4, .heads = 5, .width = 50};
constexpr hd::gpt2_config with_mlp_250{
    .vocabulary = 64, .context = 16, .layers = 4, .heads = 8, .width = 64, .mlp = 250};
constexpr hd::gpt2_config with_13_tokens{.vocabulary = 13, .context = 16, .layers = 4, .heads = 8, .width = 64};
constexpr hd::gpt2_config with_context_18{.vocabulary = 64, .context = 18, .layers = 4, .heads = 8, .width = 64};
constexpr hd::gpt2_config with_6_layers{.vocabulary = 64, .context = 16, .layers = 6, .heads = 8, .width = 64};
constexpr hd::gpt2_config with_2_layers{.vocabulary = 64, .context = 16, .layers = 2, .heads = 8, .width = 64};

struct tp_8 : hd::plan<hd::mesh<hd::axis<hd::tp, 8>>> {};
struct tp_4 : hd::plan<hd::mesh<hd::axis<hd::tp, 4>>> {};
struct tp_4_unpadded : hd::plan<hd::mesh<hd::axis<hd::tp, 4>>, hd::padding<>> {};
struct embed_over_tp : hd::plan<hd::mesh<hd::axis<hd::tp, 4>>, hd::rules<hd::shard<hd::embed, hd::tp>>> {};
struct pp_4 : hd::plan<hd::mesh<hd::axis<hd::pp, 4>>> {};

struct padded_embed : hd::plan<hd::mesh<hd::axis<hd::tp, 4>>, hd::rules<hd::shard<hd::embed, hd::tp>>,
                               hd::padding<hd::pad<hd::embed>>> {};
struct padded_heads : hd::plan<hd::mesh<hd::axis<hd::tp, 4>>, hd::padding<hd::pad<hd::heads>>> {};
struct heads_whole : hd::plan<hd::mesh<hd::axis<hd::tp, 4>>, hd::rules<hd::shard<hd::mlp, hd::tp>>> {};
struct padded_layers : hd::plan<hd::mesh<hd::axis<hd::pp, 4>>, hd::padding<hd::pad<hd::layers>>> {};
struct padded_sequence : hd::plan<hd::mesh<hd::axis<hd::tp, 4>>, hd::padding<hd::pad<hd::sequence>>> {};
struct padded_mlp : hd::plan<hd::mesh<hd::axis<hd::tp, 4>>, hd::padding<hd::pad<hd::mlp>>> {};

#if defined(REJECT_HEADS)  // expect: size_of<heddle::heads, 52>, heddle::must_be_a_multiple_of<8>
// expect: must_be_a_multiple_of<8>, heddle::use_a_size_of<48, 56>
// errors: at most 1
template struct hd::legal<hd::resolved<hd::gpt2<with_52_heads>, tp_8, no_backend>>;
#elif defined(REJECT_KV_HEADS)           // expect: size_of<heddle::heads, 2>, heddle::must_be_a_multiple_of<4>
// expect: must_be_a_multiple_of<4>, heddle::use_a_size_of<4>
// errors: at most 1
constexpr auto refused = sizeof(check_grouped<tp_4>);
#elif defined(REJECT_WIDTH)              // expect: size_of<heddle::embed, 50>, heddle::must_be_a_multiple_of<4>
// expect: must_be_a_multiple_of<4>, heddle::use_a_size_of<48, 52>
// errors: at most 1
constexpr auto refused = sizeof(check<with_width_50, embed_over_tp>);
#elif defined(REJECT_MLP)                // expect: size_of<heddle::mlp, 250>, heddle::must_be_a_multiple_of<4>
// expect: must_be_a_multiple_of<4>, heddle::use_a_size_of<248, 252>
// errors: at most 1
constexpr auto refused = sizeof(check<with_mlp_250, tp_4>);
#elif defined(REJECT_VOCABULARY)         // expect: size_of<heddle::vocab, 13>, heddle::must_be_a_multiple_of<4>
// expect: must_be_a_multiple_of<4>, heddle::use_a_size_of<12, 16>
// expect: or_pad_or_shard_another_dimension_than<heddle::vocab>
// errors: at most 1
constexpr auto refused = sizeof(check<with_13_tokens, tp_4_unpadded>);
#elif defined(REJECT_SEQUENCE)           // expect: size_of<heddle::sequence, 18>, heddle::must_be_a_multiple_of<4>
// expect: must_be_a_multiple_of<4>, heddle::use_a_size_of<16, 20>
// expect: heddle::or_shard_another_dimension_than<heddle::sequence>
// errors: at most 1
constexpr auto refused = sizeof(check<with_context_18, tp_4>);
#elif defined(REJECT_LAYERS)             // expect: size_of<heddle::layers, 6>, heddle::must_be_a_multiple_of<4>
// expect: must_be_a_multiple_of<4>, heddle::use_a_size_of<4, 8>
// expect: heddle::or_shard_another_dimension_than<heddle::layers>
// errors: at most 1
constexpr auto refused = sizeof(check<with_6_layers, pp_4>);
#elif defined(REJECT_TOO_FEW_LAYERS)     // expect: size_of<heddle::layers, 2>, heddle::must_be_a_multiple_of<4>
// expect: must_be_a_multiple_of<4>, heddle::use_a_size_of<4>
// errors: at most 1
constexpr auto refused = sizeof(check<with_2_layers, pp_4>);
#elif defined(REJECT_PADDED_NORM)        // expect: size_of<heddle::embed, 50>, heddle::must_not_be_padded_to<52>
// errors: at most 1
constexpr auto refused = sizeof(check<with_width_50, padded_embed>);
#elif defined(REJECT_PADDED_LAYERS)      // expect: size_of<heddle::layers, 6>, heddle::must_not_be_padded_to<8>
// errors: at most 1
constexpr auto refused = sizeof(check<with_6_layers, padded_layers>);
#elif defined(REJECT_PADDED_SEQUENCE)    // expect: size_of<heddle::sequence, 18>, heddle::must_not_be_padded_to<20>
// expect: or_take_it_out_of_padding<heddle::sequence>
// errors: at most 1
constexpr auto refused = sizeof(check<with_context_18, padded_sequence>);
#elif defined(REJECT_GLOBAL_BATCH)       // expect: global_batch<10>, heddle::must_be_a_multiple_of<4>
// expect: must_be_a_multiple_of<4>, heddle::use_a_size_of<8, 12>
// expect: data_ranks_times_micro_batches<4, 1>
// errors: at most 1
struct refused : hd::plan<hd::mesh<hd::axis<hd::dp, 4>>, hd::global_batch<10>> {};
#elif defined(REJECT_ACCUMULATED_BATCH)  // expect: global_batch<12>, heddle::must_be_a_multiple_of<8>
// expect: must_be_a_multiple_of<8>, heddle::use_a_size_of<8, 16>
// expect: data_ranks_times_micro_batches<2, 4>
// errors: at most 1
struct refused : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::global_batch<12>, hd::accumulate<4>> {};
#else
constexpr auto accepted = sizeof(check<small, tp_8>) + sizeof(check<with_52_heads, tp_4>) +
                          sizeof(check<with_13_tokens, tp_4>) + sizeof(check<small, pp_4>) +
                          sizeof(check<small, embed_over_tp>) + sizeof(check<with_mlp_250, padded_mlp>);
static_assert(accepted > 0);
static_assert(sizeof(check_grouped<padded_heads>) + sizeof(check_grouped<heads_whole>) > 0);
struct derived : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::global_batch<16>, hd::accumulate<4>> {};
static_assert(derived::micro_batch_size == 2);
#endif
