// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/names.hpp>
#include <heddle/layout/rules.hpp>
#include <heddle/plan/plan.hpp>
#include <heddle/precision/element.hpp>

namespace heddle {

/// What modules are placed under: the part of a plan that they can see. Plans that differ in schedule, accumulation or
/// optimizer share it, and with it the code of every module.
template <class Mesh, class Rules, class Element, class Pads, class Tokens, class Backend, std::size_t LogitBytes = 0>
struct module_plan {
  using mesh = Mesh;
  using rules = Rules;
  using element = Element;
  using backend = Backend;
  /// Dimensions of the token ids of one micro-batch over all data ranks: [batch, sequence].
  using tokens = Tokens;
  /// The most bytes of the logits at a time; 0 keeps them whole from forward to backward.
  static constexpr std::size_t logit_bytes = LogitBytes;

  /// Token ids and targets are split over the batch's axes only: every rank is given whole sequences.
  static constexpr layout token_layout = place(mesh::value, rules::value, tokens::value, {1, {{tokens::value.dim[1]}}});

  /// The dimensions with the sizes in which they are stored: padded where the plan asks for it.
  static constexpr dimension_list stored(dimension_list d) {
    for (std::size_t k = 0; k < d.rank; ++k)
      d.dim[k].stored = Pads::stored(d.dim[k], detail::ways_for(mesh::value, rules::value, d.dim[k].name));
    return d;
  }
};

/// A plan together with the model it is for and the backend it runs on.
template <class Model, class PlanType, class BackendType>
struct resolved {
  using model = Model;
  using plan = PlanType;
  static constexpr precision_policy precision = PlanType::precision_value;
  using backend = typename detail::computing_backend<BackendType, precision.compute>::type;
  using mesh = typename PlanType::mesh;
  using rules = typename PlanType::rules;
  using elements = element_types<element_on<backend, precision.storage>, element_on<backend, PlanType::gradient_format>,
                                 element_on<backend, precision.reduction>, element_on<backend, precision.master>>;
  /// Of parameters and activations.
  using element = typename elements::value;
  using batch_dim = dim<batch, PlanType::micro_batch_size * PlanType::data_ways>;
  using tokens = dims<batch_dim, dim<sequence, Model::context>>;
  using modules = module_plan<mesh, rules, element, typename PlanType::pads, tokens, backend, PlanType::logit_bytes>;
  static constexpr layout token_layout = modules::token_layout;
  static constexpr dimension_list stored(dimension_list const& d) { return modules::stored(d); }
};

}  // namespace heddle
