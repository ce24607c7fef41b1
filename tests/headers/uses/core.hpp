// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/layout/describe.hpp>
#include <heddle/layout/layout_of.hpp>
#include <heddle/layout/path_search.hpp>
#include <heddle/models/gpt2.hpp>
#include <heddle/models/llama.hpp>
#include <heddle/pipeline/gpipe.hpp>
#include <heddle/pipeline/one_f_one_b.hpp>
#include <heddle/pipeline/schedule_table.hpp>
#include <heddle/plan/ledger.hpp>
#include <heddle/tensor/local_index_map.hpp>
#include <heddle/tensor/no_scratch.hpp>
#include <heddle/tensor/random_key.hpp>

/// What host and CUDA files of one program use alike: each file compiles all of it, and they must share it.
namespace uses {

namespace hd = heddle;

struct sizes_only : hd::no_scratch {
  template <std::size_t...>
  static constexpr std::size_t attention_scratch() {
    return 8;
  }
  template <std::size_t...>
  static constexpr std::size_t attention_backward_scratch() {
    return 8;
  }
};

using grid = hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::tp, 2>>;
using value = hd::dims<hd::dim<hd::batch, 4>, hd::dim<hd::sequence, 8>, hd::dim<hd::embed, 6>>;
using pending = hd::layout_of<grid, hd::split<hd::batch, hd::dp>, hd::partial<hd::tp>>;
using dealt = hd::layout_of<grid, hd::split<hd::batch, hd::dp>, hd::split<hd::sequence, hd::tp>>;

struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>, hd::accumulate<3>> {};
using gpt = hd::gpt2<hd::gpt2_config{.vocabulary = 11, .context = 8, .layers = 2, .heads = 2, .width = 8}>;
using llama = hd::llama<hd::llama_config{
    .vocabulary = 11, .context = 8, .layers = 2, .heads = 4, .kv_heads = 2, .width = 8, .mlp = 12}>;

template <class Model>
double constants() {
  using ledger = hd::basic_ledger<hd::resolved<Model, plan, sizes_only>>;
  return static_cast<double>(ledger::parameters + ledger::peak_bytes + ledger::traffic({}).bytes());
}
template <class Schedule>
double program() {
  using table = hd::schedules::schedule_table<Schedule, 3, 4>;
  return static_cast<double>(table::actions(1).size() + table::peak_in_flight(0) + table::slot_of(0, 3));
}

inline double layouts() {
  hd::redistribution const path = hd::find_redistribution(grid::value, value::value, pending::value, dealt::value);
  double sum = static_cast<double>(path.cost + hd::redistribution_scratch(grid::value, path));
  hd::for_each_run(hd::local_index_map(grid::value, value::value, dealt::value, grid::value.coordinates_of(3)),
                   [&](std::size_t begin, std::size_t count, std::uint64_t global) {
                     sum += static_cast<double>(begin + count + global);
                   });
  return sum + static_cast<double>(describe(grid::value, value::value, dealt::value).size());
}
inline double numbers() {
  hd::random_stream const stream({.seed = 1, .step = 2, .site = 3});
  return hd::normal(stream.word(5), stream.word(5, 1)) + hd::uniform<double>(stream.word(6));
}

inline double core() {
  return constants<gpt>() + constants<llama>() + program<hd::gpipe>() + program<hd::one_f_one_b>() + layouts() +
         numbers();
}

}  // namespace uses
