// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/claim.hpp>
#include <heddle/layout/op_rules.hpp>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

/// An op as reasons need it: its iteration space under the rules, and what its algorithm needs whole or completes.
struct placed_op {
  op_placement op{};
  dimension_list whole{}, reduced{};
};

/// Why a value lies as it does over one mesh axis, in words, from the rules alone: nothing here knows a module.
class reason {
 public:
  /// How an op meets a value.
  enum class role : unsigned char {
    operand,   ///< reads it
    sum,       ///< makes it, as a sum over the dimensions that it lacks: a result, a cotangent, a gradient
    cotangent  ///< reads it as the cotangent of such a sum
  };

  reason(mesh_value const& mesh, rule_list const& rules, std::vector<std::string> names)
      : mesh_(mesh), rules_(rules), names_(std::move(names)) {}

  [[nodiscard]] std::string axis(std::size_t a) const { return std::string(mesh_.axis[a].text); }

  /// The placement of the value's own dimensions; `kept` are those that it keeps whole.
  [[nodiscard]] std::string between_ops(std::string const& value, dimension_list const& dims,
                                        dimension_list const& kept, std::size_t a) const {
    std::size_t const r = claiming_rule(mesh_, rules_, dims, kept, a);
    if (r != rules_.count)
      return "between ops " + names_[r] + " splits the " + dimension_of(dims, r) + " of " + value + " over " + axis(a);
    if (std::size_t const k = withheld_dimension(mesh_, rules_, dims, kept, a); k != dims.rank)
      return "every rank is given its " + std::string(dims.dim[k].text) + " of " + value + " whole";
    return "between ops no rule splits a dimension of " + value + " over " + axis(a);
  }

  /// The placement of the op's iteration space, and what follows from it for the value.
  [[nodiscard]] std::string in_op(placed_op const& o, role r, std::string const& value, dimension_list const& dims,
                                  std::size_t a) const {
    std::size_t const rule = claiming_rule(mesh_, rules_, o.op.space, o.whole, a);
    if (rule == rules_.count) {
      std::size_t const k = withheld_dimension(mesh_, rules_, o.op.space, o.whole, a);
      if (k != o.op.space.rank) return "the op needs " + std::string(o.op.space.dim[k].text) + " whole";
      return "no rule splits a dimension of the op over " + axis(a);
    }
    std::string const claimed = dimension_of(o.op.space, rule), by = names_[rule];
    std::string const over = " over " + axis(a);
    if (dims.has(rules_.rule[rule].dim)) return "in the op " + by + " splits its " + claimed + over;
    std::size_t const lost = claiming_rule(mesh_, rules_, dims, o.whole, a);
    std::string const first = lost != rules_.count ? " (it comes before " + names_[lost] + ")" : "";
    if (r != role::operand && o.reduced.has(rules_.rule[rule].dim)) return completed(claimed, by, over);
    switch (r) {
      case role::operand:
        return "in the op " + by + " splits " + claimed + over + first + ", and " + value + " lacks " + claimed +
               ": every rank reads it whole" + over;
      case role::cotangent:
        return "in the op " + by + " splits " + claimed + over + first +
               ", and the output is a sum over it: each summand has the whole cotangent";
      default:
        return value + " is a sum over " + claimed + ", which " + by + " splits" + over + " in the op" + first +
               ": it comes out partial" + over;
    }
  }

  /// A reduction that the op's algorithm asks for over axis `a`.
  [[nodiscard]] std::string own_sum(placed_op const& o, std::size_t a) const {
    std::size_t const rule = claiming_rule(mesh_, rules_, o.op.space, o.whole, a);
    if (rule != rules_.count && o.reduced.has(rules_.rule[rule].dim))
      return completed(dimension_of(o.op.space, rule), names_[rule], " over " + axis(a));
    return "the op's own algorithm moves this";
  }

  /// A rest layout; `chooser` is what chose it. `along` says the dimension.
  [[nodiscard]] std::string at_rest(std::string const& chooser, std::string const& value, dimension_list const& dims,
                                    layout const& rest, std::size_t a, bool along = true) const {
    if (!rest.is_split(a) || !dims.has(rest.axis[a].dim)) return value + " rests whole over " + axis(a);
    std::size_t const r = claiming_rule(mesh_, rules_, dims, {}, a);
    bool const computed = r != rules_.count && rules_.rule[r].dim == rest.axis[a].dim;
    return value + " rests split over " + axis(a) +
           (along ? " along " + std::string(dims.dim[dims.index_of(rest.axis[a].dim)].text) : "") + ", by " +
           (computed ? names_[r] : chooser);
  }

  /// Whom the pipeline's axis splits.
  [[nodiscard]] std::string layers(std::size_t a) const {
    for (std::size_t r = 0; r < rules_.count; ++r)
      if (rules_.rule[r].axis == mesh_.axis[a].name) return names_[r] + " splits the layers over " + axis(a);
    return axis(a) + " splits the layers";
  }

  /// The dimensions but the first: the layers of a stacked parameter, the batch of token ids.
  [[nodiscard]] static dimension_list without_first(dimension_list const& dims) {
    dimension_list rest{};
    for (std::size_t k = 1; k < dims.rank; ++k) rest.append(dims.dim[k]);
    return rest;
  }

 private:
  [[nodiscard]] std::string dimension_of(dimension_list const& dims, std::size_t rule) const {
    return std::string(dims.dim[dims.index_of(rules_.rule[rule].dim)].text);
  }
  [[nodiscard]] static std::string completed(std::string const& dimension, std::string const& by,
                                             std::string const& over) {
    return "its algorithm completes the sums over " + dimension + ", which " + by + " splits" + over;
  }

  mesh_value mesh_;
  rule_list rules_;
  std::vector<std::string> names_;
};

}  // namespace heddle
