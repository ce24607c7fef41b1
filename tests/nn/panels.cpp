// SPDX-License-Identifier: Apache-2.0
// The loss with its logits in panels: the same numbers as with the logits whole, under any placement, and their memory.
#include <heddle/nn/cross_entropy.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/nn/norm.hpp>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace panels_test {
namespace {
constexpr initializer start = normal(1);
using head = product<dims<embed_dim>, dims<vocab_dim>, start>;
using biased_head = linear<embed_dim, vocab_dim, biased::yes, start>;
using inner = dim<mlp, 14>;
using loss = cross_entropy<vocab_dim>;

/// With panels of `Columns`: gradients by differences, and equal to the whole logits on one rank under each placement.
template <class Module, std::size_t Columns>
void check_panels() {
  using input = activations<embed_dim>;
  using two = mesh<axis<dp, 2>, axis<tp, 2>>;
  subject const& whole = subject_of<Module, input, mesh<>, megatron_rules, tokens>();
  subject const& one = subject_of<Module, input, mesh<>, megatron_rules, tokens, Columns>();
  check_gradients(one);
  check_same(whole, one, "one rank");
  check_same(whole, subject_of<Module, input, two, megatron_rules, tokens, Columns>(), "dp2 tp2");
  check_same(whole, subject_of<Module, input, two, megatron_sequence_rules, tokens, Columns>(),
             "dp2 tp2, sequence rule");
  // Two columns to each rank but the last, which has one real and one of padding.
  check_same(whole, subject_of<Module, input, mesh<axis<tp, 7>>, megatron_rules, tokens, 1>(), "tp7");
}
}  // namespace

TEST_CASE("panels that divide the columns, that do not, and of one column") {
  check_panels<sequential<head, loss>, 4>();
  check_panels<sequential<head, loss>, 6>();
  check_panels<sequential<head, loss>, 1>();
}
TEST_CASE("a head with a bias, and one that ends a chain of its own") {
  check_panels<sequential<named<"head", biased_head>, loss>, 5>();
  check_panels<sequential<sequential<rms_norm<embed_dim>, product<dims<embed_dim>, dims<inner>, start>,
                                     product<dims<inner>, dims<vocab_dim>, start>>,
                          loss>,
               5>();
}
TEST_CASE("where no product gives the columns, the logits stay whole: after a second bias, or a sum over ranks") {
  check_panels<sequential<biased_head, named<"second", bias<dims<vocab_dim>>>, loss>, 5>();
  using row_parallel = sequential<product<dims<inner>, dims<vocab_dim>, start>, bias<dims<vocab_dim>>, loss>;
  using two = mesh<axis<tp, 2>>;
  check_same(subject_of<row_parallel, activations<inner>, mesh<>, megatron_rules, tokens>(),
             subject_of<row_parallel, activations<inner>, two, megatron_rules, tokens, 2>(), "tp2");
}
TEST_CASE("the logits do not stand whole, and stay whole where a panel holds them") {
  using input = activations<embed_dim>;
  auto const check = []<class Module>(std::type_identity<Module>) {
    subject const& whole = subject_of<Module, input, mesh<>, megatron_rules, tokens>();
    subject const& parts = subject_of<Module, input, mesh<>, megatron_rules, tokens, 2>();
    subject const& same = subject_of<Module, input, mesh<>, megatron_rules, tokens, 13>();
    constexpr std::size_t rows = batch_dim::size * sequence_dim::size;
    CHECK(whole.saved - parts.saved == slot<double>(rows * 13));
    // Whole, the logits' gradient stands in scratch; in panels of two they, and it, are a panel.
    CHECK(whole.backward_scratch >= slot<double>(rows * 13));
    CHECK(parts.backward_scratch < slot<double>(rows * 13));
    CHECK(same.saved == whole.saved);
    CHECK(same.backward_scratch == whole.backward_scratch);
  };
  check(std::type_identity<sequential<named<"norm", rms_norm<embed_dim>>, head, loss>>{});
  check(std::type_identity<sequential<named<"norm", rms_norm<embed_dim>>, named<"head", biased_head>, loss>>{});
}

}  // namespace panels_test
