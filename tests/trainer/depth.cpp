// SPDX-License-Identifier: Apache-2.0
// known-faults CT-4: instantiation depth does not grow with the size of a model. Compiled with -ftemplate-depth=200.
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

template <std::size_t Layers>
using deep = gpt2<gpt2_config{.vocabulary = 13, .context = 4, .layers = Layers, .heads = 1, .width = 4}>;
struct one : plan<precision<fp64>> {};
struct stages : plan<mesh<axis<pp, 4>>, accumulate<4>, precision<fp64>> {};

// Parameters of a layer of width d: 12·d² + 13·d.
constexpr std::size_t per_layer = 12 * 16 + 13 * 4;
static_assert(ledger<deep<256>, one>::parameters - ledger<deep<64>, one>::parameters == 192 * per_layer);
static_assert(ledger<deep<256>, stages>::parameters == ledger<deep<256>, one>::parameters);

/// An op with 128 parameters.
template <std::size_t... Index>
constexpr auto many(std::index_sequence<Index...>) {
  return parameter_list<parameter<"weight", dims<dim<mlp, 1 + Index % 4>>, zeros, true>...>{};
}
static_assert(decltype(many(std::make_index_sequence<128>{}))::size == 128);

/// A hundred modules in a row, which is longer than any model's list of parts.
constexpr std::size_t chain_length = 100;
template <std::size_t>
using link = residual<scaled<unit_dim, ones, "w">>;
template <std::size_t... Index>
constexpr auto chain(std::index_sequence<Index...>) {
  return std::type_identity<model_of<1, scalar<ones>, link<Index>..., weighted_loss<>>>{};
}
using long_chain = decltype(chain(std::make_index_sequence<chain_length>{}))::type;

}  // namespace

TEST_CASE("256 layers run") {
  auto const result = train<deep<256>, one>({}, 1, [](std::size_t, std::size_t, std::size_t t) {
    return example{static_cast<std::int32_t>(t), static_cast<std::int32_t>(t + 1)};
  });
  CHECK(result.step[0].loss.count == 4);
  CHECK(result.step[0].gradient_norm > 0);
}
TEST_CASE("a long chain runs") {
  auto const result = train<long_chain, one>({.learning_rate = 0}, 1, [](std::size_t, std::size_t, std::size_t) {
    return example{0, 1};
  });
  // y = (1 + w)^n with w = 1.
  CHECK(result.step[0].loss.sum == std::ldexp(1.0, chain_length));
}
