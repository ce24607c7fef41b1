// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/pipeline/gpipe.hpp>
#include <heddle/plan/plan.hpp>
#include <string_view>

// The plans of tools/train. `name` is what --plan takes: the type's name with '-' for '_'. All have the same global
// batch, so that their curves compare, and the format of the program (--precision).
#ifndef HEDDLE_PRECISION
#define HEDDLE_PRECISION fp32
#endif
namespace plans {

namespace hd = heddle;

using sequences = hd::global_batch<12>;
using format = hd::precision<hd::HEDDLE_PRECISION>;
template <std::size_t Ranks>
using data = hd::axis<hd::dp, Ranks>;
template <std::size_t Stages>
using stages = hd::axis<hd::pp, Stages>;
template <std::size_t Ranks>
using tensor = hd::axis<hd::tp, Ranks>;

struct serial : hd::plan<hd::mesh<>, sequences, format, hd::accumulate<3>> {
  static constexpr std::string_view name = "serial";
};
struct dp2 : hd::plan<hd::mesh<data<2>>, sequences, format, hd::accumulate<3>> {
  static constexpr std::string_view name = "dp2";
};
struct dp2_zero3 : hd::plan<hd::mesh<data<2>>, sequences, format, hd::accumulate<3>, hd::zero<3>> {
  static constexpr std::string_view name = "dp2-zero3";
};
struct dp4 : hd::plan<hd::mesh<data<4>>, sequences, format, hd::accumulate<3>> {
  static constexpr std::string_view name = "dp4";
};
struct tp2 : hd::plan<hd::mesh<tensor<2>>, sequences, format, hd::accumulate<3>> {
  static constexpr std::string_view name = "tp2";
};
struct tp2_nosequence
    : hd::plan<hd::mesh<tensor<2>>, sequences, format, hd::accumulate<3>, hd::sequence_parallel<false>> {
  static constexpr std::string_view name = "tp2-nosequence";
};
struct tp4 : hd::plan<hd::mesh<tensor<4>>, sequences, format, hd::accumulate<3>> {
  static constexpr std::string_view name = "tp4";
};
struct pp2 : hd::plan<hd::mesh<stages<2>>, sequences, format, hd::accumulate<6>> {
  static constexpr std::string_view name = "pp2";
};
struct pp4 : hd::plan<hd::mesh<stages<4>>, sequences, format, hd::accumulate<12>> {
  static constexpr std::string_view name = "pp4";
};
struct pp4_gpipe : hd::plan<hd::mesh<stages<4>>, sequences, format, hd::accumulate<12>, hd::pipeline<hd::gpipe>> {
  static constexpr std::string_view name = "pp4-gpipe";
};
struct dp2_tp2 : hd::plan<hd::mesh<data<2>, tensor<2>>, sequences, format, hd::accumulate<3>> {
  static constexpr std::string_view name = "dp2-tp2";
};
struct dp2_pp2 : hd::plan<hd::mesh<data<2>, stages<2>>, sequences, format, hd::accumulate<3>> {
  static constexpr std::string_view name = "dp2-pp2";
};
struct pp2_tp2 : hd::plan<hd::mesh<stages<2>, tensor<2>>, sequences, format, hd::accumulate<6>> {
  static constexpr std::string_view name = "pp2-tp2";
};
struct dp2_pp2_tp2 : hd::plan<hd::mesh<data<2>, stages<2>, tensor<2>>, sequences, format, hd::accumulate<3>> {
  static constexpr std::string_view name = "dp2-pp2-tp2";
};
struct dp2_pp2_tp2_gpipe
    : hd::plan<hd::mesh<data<2>, stages<2>, tensor<2>>, sequences, format, hd::accumulate<3>, hd::pipeline<hd::gpipe>> {
  static constexpr std::string_view name = "dp2-pp2-tp2-gpipe";
};

struct dp2_pp2_tp2_zero3
    : hd::plan<hd::mesh<data<2>, stages<2>, tensor<2>>, sequences, format, hd::accumulate<3>, hd::zero<3>> {
  static constexpr std::string_view name = "dp2-pp2-tp2-zero3";
};

}  // namespace plans
