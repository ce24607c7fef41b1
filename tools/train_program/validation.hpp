// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <heddle/train/context.hpp>
#include <heddle/train/sampler.hpp>
#include <heddle/train/stage_runner.hpp>
#include <vector>

/// The loss over a text in windows that follow one another, evenly spaced ones where not all are wanted. The last
/// window and the last global batch may be shorter: what is missing counts nowhere.
template <class Trainer, heddle::TokenSource Source>
class validation {
 public:
  validation(Trainer& trainer, Source const& source)
      : trainer_(&trainer),
        source_(&source),
        windows_((source.size() - 1 + Trainer::context - 1) / Trainer::context),
        tokens_(Trainer::local_tokens),
        targets_(Trainer::local_tokens) {}

  [[nodiscard]] std::size_t windows() const { return windows_; }

  /// Nats per token over `count` of the windows; `validated` is told how many are done, after each global batch.
  /// Collective.
  double loss(std::size_t count, std::function<void(std::size_t)> const& validated = {}) {
    if (count > windows_) count = windows_;
    heddle::loss_sum total;
    for (std::size_t first = 0; first < count; first += Trainer::global_batch_size) {
      for (std::size_t i = 0; i < Trainer::local_sequences; ++i) read(first + trainer_->global_sequence(i), count, i);
      heddle::loss_sum const part = trainer_->evaluate(tokens_, targets_);
      total.sum += part.sum;
      total.count += part.count;
      if (validated) validated(first + Trainer::global_batch_size < count ? first + Trainer::global_batch_size : count);
    }
    return total.mean();
  }

 private:
  void read(std::size_t window, std::size_t count, std::size_t local) {
    constexpr std::size_t context = Trainer::context;
    std::int32_t* const tokens = tokens_.data() + local * context;
    std::int32_t* const targets = targets_.data() + local * context;
    std::size_t have = 0;  // targets in this window
    if (window < count) {
      std::size_t const begin = window * windows_ / count * context;
      std::size_t const left = source_->size() - 1 - begin;
      have = left < context ? left : context;
      source_->copy(begin, have, tokens);
      source_->copy(begin + 1, have, targets);
    }
    for (std::size_t t = have; t < context; ++t) {
      tokens[t] = 0;
      targets[t] = heddle::ignored_target;
    }
  }

  Trainer* trainer_;
  Source const* source_;
  std::size_t windows_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> targets_;
};
