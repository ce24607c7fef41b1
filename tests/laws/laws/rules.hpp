// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/layout/op_rules.hpp>
#include <heddle/tensor/local_index_map.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "layouts.hpp"
#include "parts.hpp"
#include "paths.hpp"

// Laws of a single layout, and of the op rules: what ranks compute from their parts is what one rank computes.
namespace heddle::laws {

constexpr bool same_block(block_range const& a, block_range const& b) {
  return a.origin == b.origin && a.extent == b.extent && a.valid == b.valid;
}

/// The blocks of a dimension, in their order, are equally long, and cover it once: its real indices, and where no axis
/// pads the stored ones, too. A block is held by as many ranks as any other, and all of them agree on it.
struct blocks_cover {
  static constexpr bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
    if (splits_evenly(mesh, dims, l) != divides(mesh, dims, l)) return false;
    if (!divides(mesh, dims, l)) return true;
    if (local_size(mesh, dims, l) != local_elements(mesh, dims, l)) return false;
    for (std::size_t k = 0; k < dims.rank; ++k)
      if (!holds_for(mesh, dims, l, k)) return false;
    return true;
  }

 private:
  static constexpr bool holds_for(mesh_value const& mesh, dimension_list const& dims, layout const& l, std::size_t k) {
    dimension const& d = dims.dim[k];
    std::size_t const ways = ways_of(mesh, l, d.name), extent = extent_of(mesh, dims, l, k).extent;
    bool pads = false;
    for (auto const& on : l.axis) pads = pads || (on.padded && on.dim == d.name);
    if (local_extents(mesh, dims, l)[k] != extent || (!pads && extent * ways != d.stored)) return false;
    std::size_t covered = 0;
    for (std::size_t block = 0; block < ways; ++block) {
      std::size_t holders = 0;
      block_range held{};
      for (std::size_t r = 0; r < mesh.size(); ++r) {
        coordinates const at = mesh.coordinates_of(r);
        if (block_of(mesh, l, d.name, at) != block) continue;
        block_range const mine = local_block(mesh, d, l, at);
        if (holders++ == 0) held = mine;
        if (!same_block(mine, held)) return false;
      }
      if (holders * ways != mesh.size() || held.extent != extent || held.valid > extent) return false;
      if (pads ? held.valid != 0 && held.origin != covered : held.origin != block * extent) return false;
      covered += held.valid;
    }
    return covered == d.size;
  }
};

/// Dimensions k of `dims` whose bit is set in `chosen`.
constexpr dimension_list some_of(dimension_list const& dims, unsigned chosen) {
  dimension_list some{};
  for (std::size_t k = 0; k < dims.rank; ++k)
    if ((chosen >> k & 1U) != 0) some.append(dims.dim[k]);
  return some;
}

/// Restricted to some dimensions, a layout gives each of them the block that it had, splits no other, and is partial
/// where it was. Restricting twice is restricting to what is in both.
struct restriction_keeps_blocks {
  static constexpr bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
    unsigned const all = 1U << dims.rank;
    if (restrict_to(l, dims) != l) return false;
    for (unsigned kept = 0; kept < all; ++kept) {
      layout const r = restrict_to(l, some_of(dims, kept));
      for (std::size_t a = 0; a < mesh.axes; ++a)
        if (r.is_partial(a) != l.is_partial(a)) return false;
      for (std::size_t k = 0; k < dims.rank; ++k)
        for (std::size_t n = 0; n < mesh.size(); ++n) {
          dimension const& d = dims.dim[k];
          block_range const expected = (kept >> k & 1U) != 0 ? local_block(mesh, d, l, mesh.coordinates_of(n))
                                                             : block_range{0, d.stored, d.size};
          if (!same_block(local_block(mesh, d, r, mesh.coordinates_of(n)), expected)) return false;
        }
      for (unsigned again = 0; again < all; ++again)
        if (restrict_to(r, some_of(dims, again)) != restrict_to(l, some_of(dims, kept & again))) return false;
    }
    return true;
  }
};

/// A cotangent is complete, has the blocks of its value, and is a complete value's layout itself; so the cotangent of a
/// cotangent is that cotangent. A part of a tensor's dimensions has the cotangent's part.
struct cotangent_is_complete {
  static constexpr bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
    layout const c = cotangent(l);
    if (c.has_partial() || cotangent(c) != c || (c == l) == l.has_partial()) return false;
    for (std::size_t k = 0; k < dims.rank; ++k)
      for (std::size_t n = 0; n < mesh.size(); ++n)
        if (!same_block(local_block(mesh, dims.dim[k], c, mesh.coordinates_of(n)),
                        local_block(mesh, dims.dim[k], l, mesh.coordinates_of(n))))
          return false;
    for (unsigned kept = 0; kept < 1U << dims.rank; ++kept)
      if (cotangent(restrict_to(l, some_of(dims, kept))) != restrict_to(c, some_of(dims, kept))) return false;
    return true;
  }
};

/// The compiler checks every layout.
template <class Law, class Case>
constexpr bool holds_for_all_layouts() {
  for (std::size_t n = 0; n < Case::layouts.count; ++n)
    if (!Law::holds(Case::mesh, Case::dims, Case::layouts.at[n])) return false;
  return true;
}
/// The same at run time. Returns how many layouts break the law. (Not constexpr: g++ would fold it for half a minute.)
template <class Law, class Case>
std::size_t failing_layouts() {
  std::size_t failing = 0;
  for (std::size_t n = 0; n < Case::layouts.count; ++n)
    failing += Law::holds(Case::mesh, Case::dims, Case::layouts.at[n]) ? 0 : 1;
  return failing;
}

/// A part of a tensor, or all of it: the global indices along each dimension, -1 for padding, and the values.
struct block {
  dimension_list dims{};
  std::vector<std::vector<std::int64_t>> index{};
  std::vector<double> value{};
};

inline std::vector<std::vector<std::int64_t>> indices_of(mesh_value const& mesh, dimension_list const& dims,
                                                         layout const& l, coordinates const& at) {
  std::vector<std::vector<std::int64_t>> index;
  for (std::size_t k = 0; k < dims.rank; ++k) index.push_back(cut(mesh, some_of(dims, 1U << k), l, at));
  return index;
}

/// What each rank holds of the tensor of parts.hpp; padding is zero, as redistributions leave it.
inline std::vector<block> blocks_of(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
  std::vector<block> blocks;
  for (std::size_t r = 0; r < mesh.size(); ++r) {
    coordinates const at = mesh.coordinates_of(r);
    blocks.push_back({dims, indices_of(mesh, dims, l, at), part_of_tensor(mesh, dims, l, l, at)});
    for (double& x : blocks.back().value) x = x == x ? x : 0;
  }
  return blocks;
}
/// The whole tensor, without padding.
inline block whole_of(dimension_list const& dims) {
  dimension_list real = dims;
  for (std::size_t k = 0; k < dims.rank; ++k) real.dim[k].stored = dims.dim[k].size;
  block whole = blocks_of(mesh_value{}, real, {})[0];
  whole.dims = dims;
  return whole;
}

/// Whether the blocks of all ranks are that tensor in layout `l`: each is where it must be, and the summands add up.
inline bool make_up(mesh_value const& mesh, layout const& l, std::vector<block> const& blocks, block const& whole) {
  for (std::size_t r = 0; r < mesh.size(); ++r)
    if (blocks[r].index != indices_of(mesh, whole.dims, l, mesh.coordinates_of(r))) return false;
  for (std::size_t r = 0; r < mesh.size(); ++r) {
    coordinates const at = mesh.coordinates_of(r);
    std::vector<double> sum(blocks[r].value.size(), 0);
    for (std::size_t n = 0; n < mesh.size(); ++n) {
      bool adds = true;
      for (std::size_t a = 0; a < mesh.axes; ++a)
        adds = adds && (l.is_partial(a) || mesh.coordinates_of(n)[a] == at[a]);
      for (std::size_t i = 0; adds && i < sum.size(); ++i) sum[i] += blocks[n].value[i];
    }
    std::vector<std::int64_t> const global = cut(mesh, whole.dims, l, at);
    for (std::size_t i = 0; i < sum.size(); ++i)
      if (global[i] >= 0 && sum[i] != whole.value[static_cast<std::size_t>(global[i])]) return false;
  }
  return true;
}

/// Σ a·b over the dimensions that `result` lacks. Nothing where the two hold different indices of a common dimension.
inline std::optional<block> contract(block const& a, block const& b, dimension_list const& result) {
  dimension_list const space = union_of(a.dims, b.dims);
  std::vector<std::vector<std::int64_t>> index;
  for (std::size_t k = 0; k < space.rank; ++k) {
    std::size_t const in_a = a.dims.index_of(space.dim[k].name), in_b = b.dims.index_of(space.dim[k].name);
    if (in_a < a.dims.rank && in_b < b.dims.rank && a.index[in_a] != b.index[in_b]) return {};
    index.push_back(in_a < a.dims.rank ? a.index[in_a] : b.index[in_b]);
  }
  block c{result, {}, {}};
  std::size_t size = 1;
  for (std::size_t k = 0; k < result.rank; ++k) {
    c.index.push_back(index[space.index_of(result.dim[k].name)]);
    size *= c.index[k].size();
  }
  c.value.assign(size, 0);
  // How far apart neighbours along a dimension of the space are in a tensor that has it; 0 in one that lacks it.
  auto const strides = [&](dimension_list const& dims) {
    std::vector<std::size_t> stride(space.rank, 0);
    std::size_t next = 1;
    for (std::size_t k = dims.rank; k-- > 0;) {
      std::size_t const in_space = space.index_of(dims.dim[k].name);
      stride[in_space] = next;
      next *= index[in_space].size();
    }
    return stride;
  };
  std::vector<std::size_t> const of_a = strides(a.dims), of_b = strides(b.dims), of_c = strides(result);
  auto const add = [&](auto const& self, std::size_t k, std::size_t i, std::size_t j, std::size_t n) -> void {
    if (k == space.rank) {
      c.value[n] += a.value[i] * b.value[j];
      return;
    }
    for (std::size_t m = 0; m < index[k].size(); ++m)
      self(self, k + 1, i + m * of_a[k], j + m * of_b[k], n + m * of_c[k]);
  };
  add(add, 0, 0, 0, 0);
  return c;
}

/// The same on each rank.
inline std::vector<block> contract(std::vector<block> const& a, std::vector<block> const& b,
                                   dimension_list const& result) {
  std::vector<block> c;
  for (std::size_t r = 0; r < a.size(); ++r) {
    std::optional<block> here = contract(a[r], b[r], result);
    if (!here) return {};
    c.push_back(std::move(*here));
  }
  return c;
}

/// Every element of a tensor is held by as many ranks as its layout says, at the place that its index map says.
struct parts_cover {
  static bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
    if (!divides(mesh, dims, l)) return true;
    std::size_t parts = 1;
    for (std::size_t k = 0; k < dims.rank; ++k) parts *= ways_of(mesh, l, dims.dim[k].name);
    std::vector<std::size_t> holders(dims.size(), 0);
    for (std::size_t r = 0; r < mesh.size(); ++r) {
      std::vector<std::int64_t> const expected = cut(mesh, dims, l, mesh.coordinates_of(r));
      std::vector<std::int64_t> mapped(expected.size(), -1);
      for_each_run(local_index_map(mesh, dims, l, mesh.coordinates_of(r)),
                   [&](std::size_t begin, std::size_t count, std::uint64_t global) {
                     for (std::size_t i = 0; i < count; ++i) mapped[begin + i] = static_cast<std::int64_t>(global + i);
                   });
      if (mapped != expected) return false;
      for (std::int64_t const g : expected)
        if (g >= 0) ++holders[static_cast<std::size_t>(g)];
    }
    for (std::size_t const n : holders)
      if (n * parts != mesh.size()) return false;
    return true;
  }
};

/// A function of each element, computed from parts, is the whole's in the layout that the rule gives. Where the rule
/// refuses it is not.
struct pointwise_of_parts {
  static bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
    if (!divides(mesh, dims, l)) return true;
    return right(mesh, dims, l, linearity::linear, [](double x) { return -3 * x; }) &&
           right(mesh, dims, l, linearity::non_linear, [](double x) { return x * x; });
  }

 private:
  template <class F>
  static bool right(mesh_value const& mesh, dimension_list const& dims, layout const& l, linearity kind, F f) {
    pointwise_result const rule = pointwise(l, kind);
    std::vector<block> blocks = blocks_of(mesh, dims, l);
    block whole = whole_of(dims);
    for (block& one : blocks)
      for (double& x : one.value) x = f(x);
    for (double& x : whole.value) x = f(x);
    return make_up(mesh, rule.result, blocks, whole) == rule.legal;
  }
};

/// A sum over the dimensions that a result lacks, of parts that lie as an op's space does, is the whole's in the layout
/// that the rule gives. What is pending there is complete in an operand of the same dimensions.
struct sum_of_parts {
  static bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
    if (!divides(mesh, dims, l) || l.has_partial()) return true;  // no rule places a sum
    op_placement const op{dims, l};
    std::vector<block> const unit(mesh.size(), block{{}, {}, {1}});
    for (unsigned kept = 0; kept < 1U << dims.rank; ++kept) {
      dimension_list const result = some_of(dims, kept);
      if (cotangent(op.sum(result)) != op.operand(result)) return false;
      if (!make_up(mesh, op.sum(result), contract(blocks_of(mesh, dims, l), unit, result),
                   *contract(whole_of(dims), unit[0], result)))
        return false;
    }
    return true;
  }
};

/// A product of two operands, A and B, that has the dimensions `Result`.
template <class Mesh, class A, class B, class Result, bool Padded = false>
struct product_on {
  using of_a = on<Mesh, A, Padded>;
  using of_b = on<Mesh, B, Padded>;
  using of_result = on<Mesh, Result, Padded>;

  /// Pairs of layouts for which the rule is not right: what ranks compute from their parts is the product in the layout
  /// that it gives and in no other; where it refuses, in none. (Of two pending sums it refuses also what would do.)
  static std::size_t failing_pairs() {
    block const whole = *contract(whole_of(A::value), whole_of(B::value), Result::value);
    std::vector<std::vector<block>> b;
    for (std::size_t j = 0; j < of_b::layouts.count; ++j)
      b.push_back(blocks_of(Mesh::value, B::value, of_b::layouts.at[j]));
    std::size_t failing = 0;
    for (std::size_t i = 0; i < of_a::layouts.count; ++i) {
      std::vector<block> const a = blocks_of(Mesh::value, A::value, of_a::layouts.at[i]);
      for (std::size_t j = 0; j < of_b::layouts.count; ++j)
        failing += holds(whole, a, of_a::layouts.at[i], b[j], of_b::layouts.at[j]) ? 0 : 1;
    }
    return failing;
  }

  /// Placements of the op's whole space for which the two rules disagree: operands that lie as `op_placement` says have
  /// a product that lies as it says.
  static std::size_t failing_placements() {
    using space = on<Mesh, union_type, Padded>;
    std::size_t failing = 0;
    for (std::size_t n = 0; n < space::layouts.count; ++n) {
      if (space::layouts.at[n].has_partial()) continue;
      op_placement const op{union_type::value, space::layouts.at[n]};
      contraction_result const product =
          contraction(A::value, op.operand(A::value), B::value, op.operand(B::value), Result::value);
      failing += product.legal && product.result == op.sum(Result::value) ? 0 : 1;
    }
    return failing;
  }

 private:
  struct union_type {
    static constexpr dimension_list value = union_of(A::value, B::value);
  };

  static bool holds(block const& whole, std::vector<block> const& a, layout const& in_a, std::vector<block> const& b,
                    layout const& in_b) {
    if (!divides(Mesh::value, A::value, in_a) || !divides(Mesh::value, B::value, in_b)) return true;
    contraction_result const rule = contraction(A::value, in_a, B::value, in_b, Result::value);
    if (in_a.has_partial() && in_b.has_partial()) return !rule.legal;
    std::vector<block> const c = contract(a, b, Result::value);
    std::size_t right = 0;
    for (std::size_t n = 0; n < of_result::layouts.count && !c.empty(); ++n) {
      layout const& candidate = of_result::layouts.at[n];
      if (!make_up(Mesh::value, candidate, c, whole)) continue;
      if (!rule.legal || !(rule.result == candidate)) return false;
      ++right;
    }
    return right == (rule.legal ? 1U : 0U);
  }
};

}  // namespace heddle::laws
