// SPDX-License-Identifier: Apache-2.0
// Rest layouts are a choice, not a second code path: with optimizer state, then reduced gradients, then parameters
// split over the data ranks, plans train as before; memory and traffic follow from the layouts.
#include "equivalence.hpp"

namespace hd = heddle;

/// Splits a layout over dp along the first dimension that the ranks divide.
constexpr hd::layout split_over_data(hd::mesh_value const& mesh, hd::dimension_list const& dims, hd::layout l) {
  std::size_t const a = mesh.index_of(hd::id_v<hd::dp>);
  auto const extent = hd::local_extents(mesh, dims, l);
  for (std::size_t k = 0; k < dims.rank; ++k)
    if (extent[k] % mesh.axis[a].size == 0) {
      l.split(a, dims.dim[k].name);
      return l;
    }
  return l;
}

enum class split_from { state, gradient, parameter };

template <split_from From>
struct split_at_rest {
  static constexpr hd::rest_layouts of(hd::mesh_value const& mesh, hd::dimension_list const& dims,
                                       hd::layout const& compute) {
    hd::layout const split = split_over_data(mesh, dims, compute);
    return {From == split_from::parameter ? split : compute, From == split_from::state ? compute : split, split};
  }
};

template <std::size_t Data, std::size_t Stages, std::size_t Tensor, split_from From>
struct resting : equivalence::row<hd::mesh<hd::axis<hd::dp, Data>, hd::axis<hd::pp, Stages>, hd::axis<hd::tp, Tensor>>,
                                  true, hd::one_f_one_b, 2> {
  using rest_policy = split_at_rest<From>;
};
struct state_split : resting<2, 1, 1, split_from::state> {};
struct gradient_split : resting<2, 2, 2, split_from::gradient> {};
struct parameter_split : resting<2, 2, 2, split_from::parameter> {};
struct parameter_split_4 : resting<4, 1, 1, split_from::parameter> {};

/// Every element of state, gradient and parameter is on one of the four ranks.
constexpr bool shared_by_four() {
  using parameters = hd::stage_parameters<hd::resolved<equivalence::gpt2_tied, parameter_split_4, hd::host_backend>,
                                          hd::stage_kind::whole>;
  for (std::size_t n = 0; n < parameters::count; ++n) {
    auto const& e = parameters::entry[n];
    if (4 * e.size != e.dims.size() || 4 * e.state_size != e.dims.size() || 4 * e.reduction.to_size != e.dims.size() ||
        e.gather.to_size != e.dims.size() || e.reduction.count != 1 ||
        e.reduction.step[0].kind != hd::step_kind::reduce_scatter || e.gather.step[0].kind != hd::step_kind::all_gather)
      return false;
  }
  return true;
}
static_assert(shared_by_four());

TEST_CASE("optimizer state split over dp2") { equivalence::compare_with_serial<equivalence::gpt2_tied, state_split>(); }
TEST_CASE("state and gradients split over dp2 under pp2 and tp2, untied and padded") {
  equivalence::compare_with_serial<equivalence::gpt2_untied, gradient_split>();
}
TEST_CASE("everything split over dp2 under pp2 and tp2, with tied embeddings") {
  equivalence::compare_with_serial<equivalence::gpt2_tied, parameter_split>();
}
TEST_CASE("everything split over dp4") {
  equivalence::compare_with_serial<equivalence::gpt2_tied, parameter_split_4>();
}
