// SPDX-License-Identifier: Apache-2.0
#pragma once
// What programs that train on the host with thread ranks need: models, plans, trainer, data. Metrics, loss curves and
// sets of plans have headers of their own (train/metrics.hpp, train/loss_svg.hpp, plan/plan_set.hpp). A library
// includes what it uses.
#if __cplusplus < 202002L
#error "heddle: the language must be C++20; compile with -std=c++20"
#endif
#include <heddle/backend/host.hpp>
#include <heddle/backend/host/compile_flags.hpp>
#include <heddle/models/gpt2.hpp>
#include <heddle/models/llama.hpp>
#include <heddle/models/with_frozen.hpp>
#include <heddle/optim/adamw.hpp>
#include <heddle/pipeline/gpipe.hpp>
#include <heddle/pipeline/one_f_one_b.hpp>
#include <heddle/plan/flop_formulas.hpp>
#include <heddle/plan/flops.hpp>
#include <heddle/plan/ledger.hpp>
#include <heddle/plan/plan.hpp>
#include <heddle/plan/report.hpp>
#include <heddle/plan/time_estimates.hpp>
#include <heddle/plan/zero_estimates.hpp>
#include <heddle/train/corpus.hpp>
#include <heddle/train/learning_rate.hpp>
#include <heddle/train/run.hpp>
#include <heddle/train/sampler.hpp>
#include <heddle/train/text.hpp>
#include <heddle/train/token_batches.hpp>
#include <heddle/train/token_file.hpp>
#include <heddle/train/trainer.hpp>
#include <string>

namespace heddle {

/// Trains `Model` under `PlanType` on the host.
template <class Model, class PlanType>
using trainer = basic_trainer<Model, PlanType, host_backend>;

/// A plan's constants for a model on the host: `ledger<model, plan>::peak_bytes`.
template <class Model, class PlanType>
using ledger = basic_ledger<resolved<Model, PlanType, host_backend>>;

/// The idle share of the pipeline's time.
template <class Model, class PlanType>
inline constexpr ratio bubble = ledger<Model, PlanType>::bubble;

/// A plan for a model as text, to print before training: mesh, rules, layouts, memory, traffic, bubble; and a line for
/// each flag that this program should not have been compiled with.
template <class Model, class PlanType>
std::string describe() {
  return describe_plan<resolved<Model, PlanType, host_backend>>() + describe_host_flags();
}

}  // namespace heddle
