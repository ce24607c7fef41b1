// SPDX-License-Identifier: Apache-2.0
#include <heddle/nn/attention.hpp>
#include <heddle/nn/cross_entropy.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/nn/rotary.hpp>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace attention_test {
namespace {
using heads_dim = dim<heads, 2>;
using width_dim = dim<head_dim, 4>;
template <std::size_t Group>
using qkv_input = activations<heads_dim, dim<qkv, Group + 2>, width_dim>;

/// `Module<Length>` for sequences of that length on one rank of two tensor-parallel ones.
template <template <std::size_t> class Module, std::size_t Length, class... Dims>
using of_length = placed<typename Module<Length>::type,
                         module_plan<mesh<axis<tp, 2>>, megatron_rules, float, padding<>,
                                     dims<batch_dim, dim<sequence, Length>>, host_backend>,
                         dims<batch_dim, dim<sequence, Length>, Dims...>>;
template <class Long, class Short>
constexpr bool at_most_twice() {
  return Long::saved <= 2 * Short::saved && Long::forward_scratch <= 2 * Short::forward_scratch &&
         Long::backward_scratch <= 2 * Short::backward_scratch;
}

/// Attention alone, and between its projections, where the composition keeps queries, keys, values and results.
template <std::size_t Length>
struct alone {
  using type = causal_attention<dim<sequence, Length>, heads_dim, 3, width_dim>;
};
template <std::size_t Length>
struct branch {
  using attention = typename alone<Length>::type;
  using type =
      sequential<named<"qkv", linear<embed_dim, dims<heads_dim, typename attention::qkv_dim, width_dim>>>, attention,
                 named<"proj", linear<dims<heads_dim, typename attention::group_dim, width_dim>, embed_dim>>>;
};
template <std::size_t Length>
using attention_of = of_length<alone, Length, heads_dim, dim<qkv, 5>, width_dim>;
template <std::size_t Length>
using branch_of = of_length<branch, Length, embed_dim>;
template <std::size_t Length>
constexpr bool linear_memory() {
  return at_most_twice<attention_of<2 * Length>, attention_of<Length>>() &&
         at_most_twice<branch_of<2 * Length>, branch_of<Length>>();
}
// Memory is linear in the sequence: no matrix of scores in scratch, none saved. (A tile is a constant, which a doubled
// length does not double.)
static_assert(linear_memory<128>() && linear_memory<1024>() && linear_memory<8192>());
static_assert(attention_of<8192>::saved == 4 * 1 * 3 * 8192);  // a number for each query of batch × heads

}  // namespace

TEST_CASE("causal_attention: multi-head") {
  check_module<causal_attention<sequence_dim, heads_dim, 1, width_dim>, qkv_input<1>>();
}
TEST_CASE("causal_attention: grouped-query") {
  check_module<causal_attention<sequence_dim, heads_dim, 3, width_dim>, qkv_input<3>>();
}
TEST_CASE("rotary: multi-head and grouped-query") {
  check_module<rotary<sequence_dim, heads_dim, 1, width_dim>, qkv_input<1>>();
  check_module<rotary<sequence_dim, heads_dim, 2, width_dim>, qkv_input<2>>();
}
TEST_CASE("cross_entropy: ignored targets, padded vocabulary") {
  check_module<cross_entropy<vocab_dim>, activations<vocab_dim>>();
}

}  // namespace attention_test
