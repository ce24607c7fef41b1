// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "equivalence.hpp"

namespace equivalence {

/// One rank, the same global batch.
template <std::size_t MicroBatches>
struct serial : heddle::plan<heddle::accumulate<MicroBatches>, heddle::micro_batch<rows_per_micro_batch>,
                             heddle::precision<heddle::fp64>> {};

template <class Model, std::size_t MicroBatches>
serial_run const& serial_reference() {
  static serial_run const reference = [] {
    serial_run run;
    using plan = serial<MicroBatches>;
    heddle::run<plan>(heddle::threads, [&](auto& rank) {
      using trainer_type = heddle::trainer<Model, plan>;
      trainer_type trainer(rank, options<trainer_type>());
      train(trainer, Model::vocabulary, run.loss, run.norm);
      for (std::size_t n = 0; n < trainer.parameter_count(); ++n) {
        auto const p = trainer.parameter(n);
        std::size_t const size = p.entry->size;
        whole_parameter& whole = run.parameter[std::string(p.entry->name.view())];
        whole.value.assign(p.value, p.value + size);
        if (p.gradient != nullptr) whole.gradient.assign(p.gradient, p.gradient + size);
      }
    });
    return run;
  }();
  return reference;
}

}  // namespace equivalence
