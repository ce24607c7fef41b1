// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <heddle/layout/layout.hpp>
#include <initializer_list>
#include <span>

namespace heddle::detail {

/// A number of `bits` bits that spreads what the sum holds over all of them (FNV-1a on words, then a product whose top
/// bits depend on every one).
class fingerprint {
 public:
  constexpr void add(std::uint64_t word) { hash_ = (hash_ ^ word) * 1099511628211ULL; }
  constexpr void add(std::span<std::int32_t const> ids) {
    for (std::int32_t id : ids) add(static_cast<std::uint32_t>(id));
  }
  [[nodiscard]] constexpr std::uint64_t value(unsigned bits) const {
    return ((hash_ ^ (hash_ >> 29)) * 0x9e3779b97f4a7c15ULL) >> (64 - bits);
  }

 private:
  std::uint64_t hash_ = 14695981039346656037ULL;
};

/// What all ranks of a step have alike.
struct common_facts {
  double rate = 0;
  double loss_scale = 0;
};

/// A rank's summand of a number that is 0 over all ranks if all were given the same facts, and those that share
/// sequences the same ids: so that what would make replicas differ shows in a reduction that a step has anyway, on
/// every rank alike and before anything has changed.
///
/// The first rank adds its fingerprint once for each of the others, which subtract theirs; for ids the same among the
/// ranks along the axes that `tokens` does not split. Fingerprints are so short that the sums are exact in a double,
/// 32 bits up to a million ranks: unlike ones go unnoticed once in 2^32 times.
constexpr double agreement_summand(mesh_value const& mesh, layout const& tokens, coordinates const& at,
                                   common_facts const& facts, std::span<std::int32_t const> ids,
                                   std::span<std::int32_t const> more_ids) {
  std::size_t replicas = 1;
  bool is_first = true, is_first_replica = true;
  for (std::size_t a = 0; a < mesh.axes; ++a) {
    is_first = is_first && at[a] == 0;
    if (tokens.is_split(a)) continue;
    replicas *= mesh.axis[a].size;
    is_first_replica = is_first_replica && at[a] == 0;
  }
  // Twice as many summands as ranks are to fit into 53 bits.
  unsigned const of_ranks = static_cast<unsigned>(std::bit_width(mesh.size())) + 1;
  unsigned const bits = 53 - of_ranks < 32 ? 53 - of_ranks : 32;
  fingerprint of_all, of_replicas;
  for (double const fact : {facts.rate, facts.loss_scale}) of_all.add(std::bit_cast<std::uint64_t>(fact + 0.0));
  of_replicas.add(ids);
  of_replicas.add(more_ids);
  auto const others = [](bool first, std::size_t ranks) { return first ? static_cast<double>(ranks) - 1 : -1.0; };
  return others(is_first, mesh.size()) * static_cast<double>(of_all.value(bits)) +
         others(is_first_replica, replicas) * static_cast<double>(of_replicas.value(bits));
}

}  // namespace heddle::detail
