// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <heddle/detail/joined_text.hpp>
#include <heddle/detail/philox.hpp>
#include <heddle/error.hpp>
#include <heddle/train/token_source.hpp>
#include <span>
#include <string>
#include <vector>

namespace heddle {

/// Says where sequence `g` of the global batch of step `step` begins in a token source: tokens start … start + context
/// − 1, with targets one further. A pure function of (step, g), so that every plan, every rank and every resumed run
/// sees the same global batches, and the step's number is the whole state to save.
template <class Sampler>
concept TokenSampler = requires(Sampler const& sampler, std::uint64_t step, std::size_t g) {
  { sampler.start(step, g) } -> std::same_as<std::size_t>;
  { sampler.context() } -> std::same_as<std::size_t>;
};

namespace detail {

/// The sampler's own stream of Philox: its key differs from that of weights and dropout of the same seed.
constexpr philox_key sampler_key(std::uint64_t seed) {
  return {{static_cast<std::uint32_t>(seed) ^ 0x746F6B65u, static_cast<std::uint32_t>(seed >> 32) ^ 0x6E732121u}};
}

constexpr philox_block sampler_block(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  return philox4x32({{static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32), static_cast<std::uint32_t>(b),
                      static_cast<std::uint32_t>(b >> 32)}},
                    sampler_key(seed));
}

/// floor(x · range / 2^64): x spread over [0, range), with a bias below range / 2^64.
constexpr std::uint64_t scale_to(std::uint64_t x, std::uint64_t range) {
  std::uint64_t const low = 0xFFFFFFFFu;
  std::uint64_t const xl = x & low, xh = x >> 32, rl = range & low, rh = range >> 32;
  std::uint64_t const middle = xh * rl + (xl * rl >> 32);
  return xh * rh + (middle >> 32) + ((xl * rh + (middle & low)) >> 32);
}

/// Where `i` goes in a permutation of 0 … n − 1 that (seed, epoch) chooses, without a table: a Feistel network on the
/// next even number of bits, walked until it is back below n (Black and Rogaway, CT-RSA 2002, "cycle walking").
constexpr std::uint64_t permuted(std::uint64_t i, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) {
  unsigned half = 1;
  while (half < 32 && (std::uint64_t{1} << 2 * half) < n) ++half;
  std::uint64_t const mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = i >> half, right = i & mask;
    for (std::uint64_t round = 0; round < 6; ++round) {
      auto const block = sampler_block(seed, ~epoch, right << 8 | round);
      std::uint64_t const next = left ^ (block.word[0] & mask);
      left = right;
      right = next;
    }
    i = left << half | right;
  } while (i >= n);
  return i;
}

}  // namespace detail

/// Windows that follow one another without overlap: floor((tokens − 1) / context), for each needs one token more as
/// its last target.
constexpr std::size_t whole_windows(std::size_t tokens, std::size_t context) {
  return tokens == 0 || context == 0 ? 0 : (tokens - 1) / context;
}

/// Global batches in one pass over the tokens; 0 where they do not fill one. It takes only what all ranks know alike,
/// so all ranks get the same count, and none waits for a batch that another does not have.
constexpr std::size_t batches_per_epoch(std::size_t tokens, std::size_t context, std::size_t global_batch) {
  return global_batch == 0 ? 0 : whole_windows(tokens, context) / global_batch;
}

/// nanoGPT's sampling: each sequence begins anywhere in [0, tokens − context − 1], drawn by Philox from (seed, step,
/// g).
class random_windows {
 public:
  /// An error where not even one window fits.
  constexpr random_windows(std::size_t tokens, std::size_t context, std::uint64_t seed)
      : choices_(tokens > context ? tokens - context : 0), context_(context), seed_(seed) {
    if (context == 0 || choices_ == 0)
      throw error(detail::joined_text({"random_windows: a window of context ", context, " needs ", context,
                                       " + 1 tokens and a context of at least 1, but there are ", tokens,
                                       " tokens; give a longer text or a shorter context"}));
  }

  constexpr std::size_t context() const { return context_; }
  constexpr std::size_t start(std::uint64_t step, std::size_t g) const {
    auto const block = detail::sampler_block(seed_, step, g);
    return static_cast<std::size_t>(
        detail::scale_to(std::uint64_t{block.word[0]} << 32 | block.word[1], std::uint64_t{choices_}));
  }

 private:
  std::size_t choices_;
  std::size_t context_;
  std::uint64_t seed_;
};

/// Passes over the tokens in windows that do not overlap, each at most once an epoch, in order or shuffled anew for
/// each epoch. Windows that do not fill a last global batch are left out (other ones each epoch, when shuffled). Steps
/// count from the beginning of training, never from a resume: epoch = step / batches(), so any number of resumes is
/// right.
class epoch_windows {
 public:
  enum class order { in_sequence, shuffled };

  /// An error where the tokens do not fill one global batch.
  constexpr epoch_windows(std::size_t tokens, std::size_t context, std::size_t global_batch,
                          order how = order::in_sequence, std::uint64_t seed = 0)
      : windows_(whole_windows(tokens, context)),
        context_(context),
        global_batch_(global_batch),
        batches_(batches_per_epoch(tokens, context, global_batch)),
        how_(how),
        seed_(seed) {
    if (batches_ == 0)
      throw error(
          detail::joined_text({"epoch_windows: ", tokens, " tokens give 0 batches of ", global_batch,
                               " sequences of context ", context, "; a batch needs ", global_batch, " x ", context,
                               " + 1 tokens, both at least 1: give a longer text or a smaller batch"}));
  }

  constexpr std::size_t context() const { return context_; }
  constexpr std::size_t global_batch() const { return global_batch_; }

  /// Global batches of one epoch.
  constexpr std::size_t batches() const { return batches_; }
  constexpr std::uint64_t epoch(std::uint64_t step) const { return step / batches_; }

  /// An error where `g` is not below the global batch.
  constexpr std::size_t start(std::uint64_t step, std::size_t g) const {
    if (g >= global_batch_)
      throw error(detail::joined_text({"epoch_windows: there is no sequence ", g, " in a global batch of ",
                                       global_batch_, "; make the sampler with the plan's global batch"}));
    std::uint64_t window = step % batches_ * global_batch_ + g;
    if (how_ == order::shuffled) window = detail::permuted(window, windows_, seed_, epoch(step));
    return static_cast<std::size_t>(window) * context_;
  }

 private:
  std::size_t windows_;
  std::size_t context_;
  std::size_t global_batch_;
  std::size_t batches_;
  order how_;
  std::uint64_t seed_;
};

/// How a global batch is dealt out: micro-batches first, then data ranks, then the rows of a micro-batch. So the
/// `batch` dimension of one micro-batch, split over the data ranks, is a run of consecutive sequences.
struct batch_shape {
  std::size_t data_ranks = 1;     ///< product of the axes that split `batch`
  std::size_t micro_batches = 1;  ///< per rank and step
  std::size_t rows = 1;           ///< sequences of a rank's micro-batch

  constexpr std::size_t global_batch() const { return data_ranks * micro_batches * rows; }

  /// Global index of the first of the `rows` consecutive sequences that rank `data_rank` reads for `micro_batch`.
  constexpr std::size_t first_sequence(std::size_t micro_batch, std::size_t data_rank) const {
    return (micro_batch * data_ranks + data_rank) * rows;
  }
  friend constexpr bool operator==(batch_shape const&, batch_shape const&) = default;
};

/// Reads sequences first_sequence … first_sequence + rows − 1 of the global batch of `step`. `tokens` and `targets` are
/// [rows, context], row-major; target t is token t + 1. Allocates nothing (a token source of the library does neither).
template <TokenSampler Sampler, TokenSource Source>
void read_sequences(Sampler const& sampler, Source const& source, std::uint64_t step, std::size_t first_sequence,
                    std::size_t rows, std::int32_t* tokens, std::int32_t* targets) {
  std::size_t const context = sampler.context();
  for (std::size_t row = 0; row < rows; ++row, tokens += context, targets += context) {
    std::size_t const start = sampler.start(step, first_sequence + row);
    source.copy(start, context, tokens);
    for (std::size_t t = 0; t + 1 < context; ++t) targets[t] = tokens[t + 1];
    source.copy(start + context, 1, targets + (context - 1));
  }
}

/// One rank's tokens and targets of a step, [micro_batch][rows, context]; allocated once, refilled for each step.
class token_batch {
 public:
  token_batch(batch_shape shape, std::size_t context)
      : shape_(shape),
        context_(context),
        tokens_(shape.micro_batches * shape.rows * context),
        targets_(tokens_.size()) {}

  batch_shape const& shape() const { return shape_; }
  std::size_t context() const { return context_; }
  /// All of it, [micro_batches, rows, context].
  std::span<std::int32_t const> tokens() const { return tokens_; }
  std::span<std::int32_t const> targets() const { return targets_; }

  /// Fills all micro-batches of `data_rank` for `step`; an error where the sampler's context is another one.
  template <TokenSampler Sampler, TokenSource Source>
  void fill(Sampler const& sampler, Source const& source, std::uint64_t step, std::size_t data_rank) {
    if (sampler.context() != context_ || data_rank >= shape_.data_ranks)
      throw error(detail::joined_text({"token_batch: holds context ", context_, " for data ranks below ",
                                       shape_.data_ranks, ", but the sampler's context is ", sampler.context(),
                                       " and the data rank ", data_rank, "; make sampler and batch from one plan"}));
    for (std::size_t m = 0; m < shape_.micro_batches; ++m)
      read_sequences(sampler, source, step, shape_.first_sequence(m, data_rank), shape_.rows,
                     tokens_.data() + offset(m), targets_.data() + offset(m));
  }

  /// [rows, context] of one micro-batch.
  std::int32_t const* tokens(std::size_t micro_batch) const { return tokens_.data() + offset(micro_batch); }
  std::int32_t const* targets(std::size_t micro_batch) const { return targets_.data() + offset(micro_batch); }

 private:
  std::size_t offset(std::size_t micro_batch) const { return micro_batch * shape_.rows * context_; }

  batch_shape shape_;
  std::size_t context_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> targets_;
};

}  // namespace heddle
