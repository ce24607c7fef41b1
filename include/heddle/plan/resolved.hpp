// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/names.hpp>
#include <heddle/layout/rules.hpp>
#include <heddle/plan/plan.hpp>

namespace heddle {

/// A plan together with the model it is for and the backend it runs on: what modules are placed under. The batch
/// dimension is that of one micro-batch over all data ranks.
template <class Model, class PlanType, class BackendType>
struct resolved {
  using model = Model;
  using plan = PlanType;
  using backend = BackendType;
  using mesh = typename PlanType::mesh;
  using rules = typename PlanType::rules;
  using element = typename PlanType::element;
  using batch_dim = dim<batch, PlanType::micro_batch_size * PlanType::data_ways>;
  using sequence_dim = dim<sequence, Model::context>;
  using tokens = dims<batch_dim, sequence_dim>;

  /// Token ids and targets are split over the batch's axes only: every rank is given whole sequences.
  static constexpr layout token_layout = place(mesh::value, rules::value, tokens::value, dims<sequence_dim>::value);

  /// The dimensions with the sizes in which they are stored: padded where the plan asks for it.
  static constexpr dimension_list stored(dimension_list d) {
    for (std::size_t k = 0; k < d.rank; ++k)
      d.dim[k].stored = PlanType::pads::stored(d.dim[k], detail::ways_for(mesh::value, rules::value, d.dim[k].name));
    return d;
  }
};

}  // namespace heddle
