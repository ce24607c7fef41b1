// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/detail/joined_text.hpp>
#include <heddle/models/model_concepts.hpp>
#include <heddle/plan/plan.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/train/batch_of_plan.hpp>
#include <heddle/train/sampler.hpp>
#include <heddle/train/token_file.hpp>
#include <iterator>
#include <string>

namespace heddle {

/// How `token_batches` goes through a file.
struct token_batches_options {
  std::uint64_t seed = 1;        ///< of the order of windows
  std::uint64_t first_step = 0;  ///< where to go on: the steps taken so far
  std::uint64_t epochs = 1;      ///< passes over the file in all
};

/// One rank's batches of a prepared token file, as a range: `for (auto const& b : token_batches<model,
/// plan>("corpus.bin", rank)) trainer.step(b);`. Windows of the model's context are shuffled anew in each epoch; global
/// batches are the same under every plan, and depend on the seed and the step alone, so a run resumes by `first_step`.
/// What does not fill a last global batch is left out. All ranks get the same number of batches.
///
/// **Errors.** heddle::error for a file that is malformed, has too few tokens, or more identities than the model; for
/// more epochs than can be counted in batches.
template <LanguageModel Model, Plan PlanType>
class token_batches {
 public:
  static constexpr batch_shape shape = batch_shape_of<PlanType>;

  template <class Communicator>
  token_batches(std::string const& path, mesh_communicator<typename PlanType::mesh, Communicator> const& rank,
                token_batches_options const& options = {})
      : source_(path),
        sampler_(source_.size(), Model::context, shape.global_batch(), epoch_windows::order::shuffled, options.seed),
        batch_(shape, Model::context),
        data_rank_(data_rank_of<PlanType>(rank.at())),
        first_(options.first_step),
        last_(counted(options.epochs, sampler_.batches())) {
    if (source_.vocabulary() > Model::vocabulary)
      throw error(detail::joined_text({"token_batches: ", path, " has a vocabulary of ", source_.vocabulary(),
                                       " and the model one of ", Model::vocabulary,
                                       "; use a model with at least as many token identities"}));
  }

  /// Batches that are left.
  [[nodiscard]] std::uint64_t size() const { return first_ < last_ ? last_ - first_ : 0; }

  /// Single-pass: a batch is overwritten by the next.
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = token_batch;
    using difference_type = std::ptrdiff_t;
    using pointer = token_batch const*;
    using reference = token_batch const&;

    iterator(token_batches* from, std::uint64_t step) : from_(from), step_(step) { fill(); }
    reference operator*() const { return from_->batch_; }
    pointer operator->() const { return &from_->batch_; }
    iterator& operator++() {
      ++step_;
      fill();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(iterator const& a, iterator const& b) { return a.step_ == b.step_; }

   private:
    void fill() {
      if (step_ < from_->last_) from_->batch_.fill(from_->sampler_, from_->source_, step_, from_->data_rank_);
    }
    token_batches* from_;
    std::uint64_t step_;
  };
  iterator begin() { return {this, first_ < last_ ? first_ : last_}; }
  iterator end() { return {this, last_}; }

 private:
  static std::uint64_t counted(std::uint64_t epochs, std::uint64_t batches) {
    std::uint64_t const most = ~std::uint64_t{0} / batches;
    if (epochs > most)
      throw error(detail::joined_text({"token_batches: 'epochs' is ", epochs, ", which at ", batches,
                                       " batches an epoch are more batches than can be counted; give at most ", most}));
    return epochs * batches;
  }

  token_file source_;
  epoch_windows sampler_;
  token_batch batch_;
  std::size_t data_rank_;
  std::uint64_t first_;
  std::uint64_t last_;
};

}  // namespace heddle
