// SPDX-License-Identifier: Apache-2.0
// Laws of layouts and op rules, for every layout of small tensors on meshes of up to three axes.
#include <doctest/doctest.h>

#include <heddle/layout/names.hpp>

#include "laws/rules.hpp"

using namespace heddle;
using namespace heddle::laws;

namespace {

using mesh_4 = mesh<axis<tp, 4>>;
using mesh_2_2 = mesh<axis<dp, 2>, axis<tp, 2>>;
using mesh_2_3 = mesh<axis<dp, 2>, axis<tp, 3>>;
using mesh_2_2_2 = mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>;
using mesh_2_3_2 = mesh<axis<dp, 2>, axis<pp, 3>, axis<tp, 2>>;

using two = dims<dim<batch, 12>, dim<embed, 24>>;
using three = dims<dim<batch, 8>, dim<sequence, 12>, dim<embed, 8>>;
using indivisible = dims<dim<batch, 12>, dim<embed, 10>>;

/// Stored longer than they are, so that the last of twelve blocks hold nothing real.
struct padded {
  static constexpr dimension_list value = [] {
    dimension_list d = dims<dim<vocab, 19>, dim<embed, 5>>::value;
    d.dim[0].stored = 24;
    d.dim[1].stored = 12;
    return d;
  }();
};

template <class Law>
void check_for_all_layouts() {
  CHECK(failing_layouts<Law, on<mesh<>, two>>() == 0);
  CHECK(failing_layouts<Law, on<mesh_4, three>>() == 0);
  CHECK(failing_layouts<Law, on<mesh_2_3, two>>() == 0);
  CHECK(failing_layouts<Law, on<mesh_2_3, padded>>() == 0);
  CHECK(failing_layouts<Law, on<mesh_2_2_2, three>>() == 0);
  CHECK(failing_layouts<Law, on<mesh_2_3_2, padded>>() == 0);
  // Every split may pad, and some do.
  CHECK(failing_layouts<Law, on<mesh_4, indivisible, true>>() == 0);
  CHECK(failing_layouts<Law, on<mesh_2_3, indivisible, true>>() == 0);
  CHECK(failing_layouts<Law, on<mesh_2_3_2, indivisible, true>>() == 0);
  CHECK(failing_layouts<Law, on<mesh_2_3_2, padded, true>>() == 0);
}

// Up to two axes by the compiler, too.
static_assert(holds_for_all_layouts<blocks_cover, on<mesh_2_3, padded>>());
static_assert(holds_for_all_layouts<blocks_cover, on<mesh_2_3, indivisible, true>>());
static_assert(holds_for_all_layouts<restriction_keeps_blocks, on<mesh_2_2, two>>());
static_assert(holds_for_all_layouts<cotangent_is_complete, on<mesh_2_2, two>>());

// Products: of matrices, with a dimension that both operands and the result have, and of a vector.
template <class Mesh, std::size_t Size, bool Padded = false>
using matrices = product_on<Mesh, dims<dim<batch, Size>, dim<embed, Size>>, dims<dim<mlp, Size>, dim<embed, Size>>,
                            dims<dim<batch, Size>, dim<mlp, Size>>, Padded>;
template <class Mesh>
using batched = product_on<Mesh, dims<dim<heads, 8>, dim<sequence, 8>, dim<head_dim, 8>>,
                           dims<dim<heads, 8>, dim<head_dim, 8>>, dims<dim<heads, 8>, dim<sequence, 8>>>;
template <class Mesh>
using scaled =
    product_on<Mesh, dims<dim<batch, 12>, dim<embed, 12>>, dims<dim<embed, 12>>, dims<dim<batch, 12>, dim<embed, 12>>>;

template <class Product>
void check_product() {
  CHECK(Product::failing_pairs() == 0);
  CHECK(Product::failing_placements() == 0);
}

}  // namespace

TEST_CASE("the blocks of all ranks cover each dimension once") { check_for_all_layouts<blocks_cover>(); }
TEST_CASE("the parts of all ranks cover a tensor, and its index maps say where") {
  check_for_all_layouts<parts_cover>();
}
TEST_CASE("a restricted layout has the blocks of the whole") { check_for_all_layouts<restriction_keeps_blocks>(); }
TEST_CASE("a cotangent is complete, and its own cotangent") { check_for_all_layouts<cotangent_is_complete>(); }
TEST_CASE("a pointwise function of parts is the whole's exactly where the rule is legal") {
  check_for_all_layouts<pointwise_of_parts>();
}
TEST_CASE("a sum over dimensions of an op's space, of parts, is the whole's in the rule's layout") {
  check_for_all_layouts<sum_of_parts>();
}
TEST_CASE("a product of parts is the whole's in the rule's layout alone, and in none where the rule refuses") {
  check_product<matrices<mesh_4, 4>>();
  check_product<matrices<mesh_2_2, 4>>();
  check_product<matrices<mesh_2_3, 6>>();
  check_product<matrices<mesh_2_3, 7, true>>();
  check_product<matrices<mesh_2_2_2, 8>>();
  check_product<batched<mesh_2_2_2>>();
  check_product<scaled<mesh_2_3_2>>();
}
