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
#elif defined(REJECT_EQUAL_NAMES)   // expect: plan_set<Plans...>: names must differ; rename one of the two plans
inline constexpr std::size_t size = plan_set<alone, again>::size;
#elif defined(REJECT_PAD_OF_NONE)   // expect: pad<Name, Multiple>: 'Multiple' must be at least 1
inline constexpr std::size_t multiple = pad<vocab, 0>::multiple;
#elif defined(REJECT_GPT2_HEADS)    // expect: gpt2<config>: 'width' must be a multiple of 'heads'
using module = gpt2<gpt2_config{.heads = 5, .width = 64}>::module;
#elif defined(REJECT_LLAMA_HEADS)   // expect: llama<config>: 'width' must be a multiple of 'heads'
using module = llama<llama_config{.heads = 5, .kv_heads = 5, .width = 64}>::module;
#elif defined(REJECT_LLAMA_GROUPS)  // expect: llama<config>: 'heads' must be a multiple of 'kv_heads'
using module = llama<llama_config{.heads = 8, .kv_heads = 3, .width = 64}>::module;
#else
using module = llama<llama_config{.heads = 8, .kv_heads = 4, .width = 64}>::module;
static_assert(plan_set<alone>::size == 1 && pad<vocab, 2>::multiple == 2);
#endif
