// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/tensor/random_key.hpp>
#include <span>
#include <type_traits>
#include <vector>

/// Draws one of the first `size` tokens by their logits, at temperature 1; `word` is uniform over 32 bits.
template <class T>
std::int32_t draw(T const* logits, std::size_t size, std::uint32_t word) {
  double most = static_cast<double>(logits[0]), sum = 0;
  for (std::size_t v = 1; v < size; ++v) most = std::fmax(most, static_cast<double>(logits[v]));
  for (std::size_t v = 0; v < size; ++v) sum += std::exp(static_cast<double>(logits[v]) - most);
  double left = heddle::uniform<double>(word) * sum;
  for (std::size_t v = 0; v + 1 < size; ++v) {
    left -= std::exp(static_cast<double>(logits[v]) - most);
    if (left < 0) return static_cast<std::int32_t>(v);
  }
  return static_cast<std::int32_t>(size - 1);
}

/// `count` tokens that follow `first`, drawn one by one from the model; the window of its context slides. Identities
/// are below `vocabulary`, that of the text. Collective; the first rank draws, so all return the same; fewer where it
/// finds that it is to `stop`. The prompt is aligned to the left: attention is causal, so what stands behind it does
/// not matter.
template <class Trainer, class Rank, class Stop>
std::vector<std::int32_t> sample(Trainer& trainer, Rank& rank, std::size_t count, std::int32_t first,
                                 std::size_t vocabulary, std::size_t model_vocabulary, std::uint64_t seed,
                                 Stop const& stop) {
  constexpr std::size_t context = Trainer::context;
  constexpr std::uint64_t site = 0x73616D706C65;  // "sample": a stream of its own
  heddle::random_stream const random(heddle::random_key{seed, 0, site});
  std::vector<std::int32_t> text{first};
  std::vector<std::int32_t> tokens(Trainer::local_tokens);
  using memory = heddle::memory_of<std::remove_cvref_t<decltype(rank.world())>>;  // where ranks exchange numbers
  typename memory::template arena<std::int32_t> const drawn(1);
  while (text.size() <= count) {
    std::size_t const length = text.size() < context ? text.size() : context;
    for (std::size_t t = 0; t < length; ++t) tokens[t] = text[text.size() - length + t];
    auto const logits = trainer.logits(tokens);
    std::int32_t next = draw(logits.data() + (length - 1) * model_vocabulary, vocabulary, random.word(text.size()));
    constexpr std::int32_t no_more = -1;
    if (stop()) next = no_more;
    memory::from_host(&next, drawn.data(), 1);
    rank.world().broadcast(std::span<std::int32_t>(drawn.data(), 1), 0);
    memory::to_host(drawn.data(), &next, 1);
    if (next == no_more) break;
    text.push_back(next);
  }
  return {text.begin() + 1, text.end()};
}
