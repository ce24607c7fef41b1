// SPDX-License-Identifier: Apache-2.0
// The rule that claims an axis is the one by which `place` splits it: for every set of dimensions, and of those
// withheld.
#include <doctest/doctest.h>

#include <heddle/layout/claim.hpp>
#include <heddle/layout/names.hpp>

using namespace heddle;

namespace claim_test {
namespace {

using world = mesh<axis<dp, 2>, axis<pp, 1>, axis<cp, 3>, axis<tp, 4>>;
using order = rules<shard<heads, tp>, shard<mlp, tp>, shard<batch, dp>, shard<sequence, cp>, shard<sequence, tp>,
                    shard<embed, dp>, shard<layers, pp>>;
constexpr mesh_value m = world::value;
constexpr rule_list r = order::value;
constexpr dimension_list all =
    dims<dim<batch, 8>, dim<sequence, 24>, dim<embed, 12>, dim<heads, 4>, dim<mlp, 48>, dim<layers, 2>>::value;

constexpr dimension_list subset(unsigned set) {
  dimension_list some{};
  for (std::size_t k = 0; k < all.rank; ++k)
    if ((set >> k & 1U) != 0) some.append(all.dim[k]);
  return some;
}

/// The law of claiming_rule, and that a withheld dimension would have claimed the axis.
constexpr bool holds(dimension_list const& d, dimension_list const& whole) {
  layout const l = place(m, r, d, whole);
  for (std::size_t a = 0; a < m.axes; ++a) {
    std::size_t const rule = claiming_rule(m, r, d, whole, a);
    if (l.is_split(a) != (rule < r.count)) return false;
    if (l.is_split(a) && (l.axis[a].dim != r.rule[rule].dim || r.rule[rule].axis != m.axis[a].name)) return false;
    std::size_t const k = withheld_dimension(m, r, d, whole, a);
    if (k != d.rank && (!whole.has(d.dim[k].name) || !place(m, r, d).is_split(a))) return false;
  }
  return true;
}
/// In several constants, each within what compilers count to.
constexpr bool holds_with(unsigned whole) {
  for (unsigned d = 0; d < 1U << all.rank; ++d)
    if (!holds(subset(d), subset(whole))) return false;
  return true;
}
static_assert(holds_with(0) && holds_with(0b000010));
static_assert(holds_with(0b001101) && holds_with(0b010010));
static_assert(holds_with(0b101001) && holds_with(0b111111));

constexpr std::size_t on_tp = 3, on_pp = 1;
static_assert(claiming_rule(m, r, subset(0b000111), {}, on_tp) == 4);  // nothing stronger: the sequence
static_assert(claiming_rule(m, r, subset(0b001111), {}, on_tp) == 0);  // heads come first
static_assert(claiming_rule(m, r, all, {}, on_pp) == r.count);         // an axis of one rank splits nothing
static_assert(withheld_dimension(m, r, subset(0b000011), subset(0b000010), on_tp) == 1);

}  // namespace

TEST_CASE("claims are constants") { CHECK(claiming_rule(m, r, subset(0), {}, on_tp) == r.count); }

}  // namespace claim_test
