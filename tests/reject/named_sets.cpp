// SPDX-License-Identifier: Apache-2.0
#include <heddle/models/gpt2.hpp>
#include <heddle/models/llama.hpp>
#include <heddle/plan/plan_set.hpp>

using namespace heddle;

struct alone : plan<> {
  static constexpr std::string_view name = "alone";
};
struct again : plan<micro_batch<2>> {
  static constexpr std::string_view name = "alone";
};
struct nameless : plan<> {};

#if defined(REJECT_NAMELESS_PLAN)  // expect: plan_set<Plans...>: each plan must be a NamedPlan
// shows: nameless
inline constexpr std::size_t size = plan_set<alone, nameless>::size;
#elif defined(REJECT_EQUAL_NAMES)        // expect: plan_set<Plans...>: names must differ; rename one of the two plans
inline constexpr std::size_t size = plan_set<alone, again>::size;
#elif defined(REJECT_PAD_OF_NONE)        // expect: pad<Name, Multiple>: 'Multiple' must be at least 1
inline constexpr std::size_t multiple = pad<vocab, 0>::multiple;
#elif defined(REJECT_GPT2_HEADS)         // expect: model_error<heddle::gpt2_config, heddle::config_width<64>
// expect: must_be_a_multiple_of_heads<5>, heddle::use_a_width_of<60, 65>
// errors: at most 1
using module = gpt2<gpt2_config{.heads = 5, .width = 64}>::module;
#elif defined(REJECT_GPT2_NARROW)        // expect: config_width<4>
// expect: must_be_a_multiple_of_heads<5>, heddle::use_a_width_of<5>
// errors: at most 1
using module = gpt2<gpt2_config{.heads = 5, .width = 4}>::module;
#elif defined(REJECT_LLAMA_HEADS)        // expect: model_error<heddle::llama_config, heddle::config_width<64>
// expect: must_be_a_multiple_of_heads<5>, heddle::use_a_width_of<60, 70>
// errors: at most 1
using module = llama<llama_config{.heads = 5, .kv_heads = 5, .width = 64}>::module;
#elif defined(REJECT_LLAMA_GROUPS)       // expect: model_error<heddle::llama_config, heddle::config_kv_heads<3>
// expect: must_divide_heads<8>, heddle::use_kv_heads_of<2, 4>
// errors: at most 1
using module = llama<llama_config{.heads = 8, .kv_heads = 3, .width = 64}>::module;
#elif defined(REJECT_LLAMA_MORE_GROUPS)  // expect: config_kv_heads<9>
// expect: must_divide_heads<8>, heddle::use_kv_heads_of<8>
// errors: at most 1
using module = llama<llama_config{.heads = 8, .kv_heads = 9, .width = 64}>::module;
#else
template <class... Modules>
constexpr std::size_t given = sizeof...(Modules);
// What the messages say to use.
static_assert(
    given<gpt2<gpt2_config{.heads = 5, .width = 5}>::module, gpt2<gpt2_config{.heads = 5, .width = 60}>::module,
          gpt2<gpt2_config{.heads = 5, .width = 65}>::module> == 3);
static_assert(given<llama<llama_config{.heads = 5, .kv_heads = 5, .width = 60}>::module,
                    llama<llama_config{.heads = 5, .kv_heads = 5, .width = 70}>::module> == 2);
static_assert(given<llama<llama_config{.heads = 8, .kv_heads = 2, .width = 64}>::module,
                    llama<llama_config{.heads = 8, .kv_heads = 4, .width = 64}>::module,
                    llama<llama_config{.heads = 8, .kv_heads = 8, .width = 64}>::module> == 3);
static_assert(plan_set<alone>::size == 1 && pad<vocab, 2>::multiple == 2);
#endif
