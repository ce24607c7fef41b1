// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/models/gpt2.hpp>
#include <heddle/models/llama.hpp>
#include <heddle/plan/ledger.hpp>
#include <heddle/tensor/no_scratch.hpp>
#include <string_view>

// What the ledger says of a model without running it: nothing is allocated, whatever the size.
namespace heddle::testing {

/// A backend that only says how much scratch its kernels need.
struct counting_backend : no_scratch {
  template <std::size_t...>
  static constexpr std::size_t attention_scratch() {
    return 0;
  }
  template <std::size_t...>
  static constexpr std::size_t attention_backward_scratch() {
    return 0;
  }
};

template <class Model, class Plan>
using on = resolved<Model, Plan, counting_backend>;

struct one_rank : plan<> {};

/// Parameters of a model, padding excluded.
template <class Model>
inline constexpr std::size_t parameters_of = basic_ledger<on<Model, one_rank>>::parameters;

template <class R>
using table = stage_parameters<R, stage_kind::whole>;

/// The entry called `name`.
template <class R>
constexpr parameter_entry entry_of(std::string_view name) {
  std::size_t n = 0;
  while (table<R>::entry[n].name.view() != name) ++n;  // not constant, and so an error, where there is none
  return table<R>::entry[n];
}

/// Elements of the matrices alone (what decays), of layers or of everything.
template <class Model>
constexpr std::size_t matrix_elements(bool of_layers_only) {
  using t = table<on<Model, one_rank>>;
  std::size_t total = 0;
  for (std::size_t n = 0; n < t::count; ++n)
    if (t::entry[n].decays && (t::entry[n].stacked || !of_layers_only)) total += t::entry[n].dims.size();
  return total;
}

}  // namespace heddle::testing
