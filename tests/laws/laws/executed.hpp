// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <heddle/tensor/redistribute.hpp>
#include <heddle/tensor/traffic.hpp>
#include <limits>
#include <string>
#include <vector>

#include "../../comm/ranks.hpp"
#include "layouts.hpp"
#include "parts.hpp"
#include "paths.hpp"

// Laws of redistributions as they are executed, on ranks of any kind, against the global tensor of parts.hpp.
namespace heddle::laws {

template <class Ranks, class Rank>
std::vector<double> redistributed(Rank& rank, redistribution const& path, std::vector<double> const& in) {
  testing::array<Ranks, double> const from(in), out(path.to_size, -1e9);
  // A guard behind the scratch: what is asked for must be enough.
  std::size_t const room = redistribution_scratch(Rank::mesh::value, path);
  testing::array<Ranks, double> const scratch(room + 1, 1e9);
  redistribute(rank, path, from.read().data(), out.span().data(), scratch.span().data());
  return scratch.values()[room] == 1e9 ? out.values() : std::vector<double>{};
}

/// Σ over the whole tensor of x·y, from one rank's parts: x in layout l (its summands add up), y complete with the same
/// splits. Where both are replicated only the first rank counts. The caller sums over all ranks.
inline double pairing(mesh_value const& mesh, layout const& l, coordinates const& at, std::vector<double> const& x,
                      std::vector<double> const& y) {
  for (std::size_t a = 0; a < mesh.axes; ++a)
    if (l.axis[a].kind == placement::replicated && at[a] != 0) return 0;
  double total = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] == x[i] && y[i] == y[i]) total += x[i] * y[i];
  return total;
}

/// The paths that plans have.
struct by_search {
  static constexpr redistribution find(mesh_value const& mesh, dimension_list const& dims, layout const& a,
                                       layout const& b) {
    return find_redistribution(mesh, dims, a, b);
  }
};

/// What went wrong, counted over all ranks and pairs.
struct findings {
  std::atomic<std::size_t> pairs{0}, wrong_values{0}, wrong_traffic{0}, not_restored{0}, not_dual{0},
      not_dual_of_copies{0}, not_alike_together{0};
};

/// The paths from layout `a` to all others at once: beside other work where `beside`. What arrives, and what is sent,
/// is what it is one by one.
template <class Ranks, class Paths, class Case, class Rank>
void execute_together(Rank& rank, layout const& a, bool beside, findings& found) {
  constexpr mesh_value const& mesh = Case::mesh;
  dimension_list const& dims = Case::dims;
  using buffer = testing::array<Ranks, double>;
  std::vector<double> const part = part_of_tensor(mesh, dims, a, a, rank.at());
  buffer const in(part);
  std::vector<redistribution> paths;
  std::vector<std::vector<double>> expected;
  std::vector<buffer> out, scratch;
  for (std::size_t j = 0; j < Case::layouts.count; ++j) {
    redistribution const path = Paths::find(mesh, dims, a, Case::layouts.at[j]);
    if (!path.exists || path.empty()) continue;
    paths.push_back(path);
    expected.push_back(redistributed<Ranks>(rank, path, part));
    out.emplace_back(path.to_size, -1e9);
    scratch.emplace_back(redistribution_scratch(mesh, path) + 1, 1e9);
  }
  traffic_table sent{};
  std::array<comm::communication_counters, max_axes> before{};
  for (std::size_t x = 0; x < mesh.axes; ++x) before[x] = rank.along(x).counters();
  redistributions_in_flight<typename Ranks::communicator, double> all(rank, paths.size());
  for (std::size_t k = 0; k < paths.size(); ++k) {
    count_redistribution<double>(sent, mesh, rank.at(), paths[k]);
    all.add(paths[k], in.read().data(), out[k].span().data(), scratch[k].span().data());
  }
  if (beside) {
    all.begin();
    all.finish();
  } else {
    all.run();
  }
  all.finish();  // of nothing
  for (std::size_t k = 0; k < paths.size(); ++k) {
    std::vector<double> const got = out[k].values();
    if (scratch[k].values().back() != 1e9 ||
        std::memcmp(got.data(), expected[k].data(), got.size() * sizeof(double)) != 0)
      ++found.not_alike_together;
  }
  for (std::size_t x = 0; x < mesh.axes; ++x) {
    comm::communication_counters const here = rank.along(x).counters() - before[x];
    for (std::size_t op = 0; op < comm::operation_count; ++op)
      if (here.of[op].calls != sent.at[x][op].calls || here.of[op].bytes_sent != sent.at[x][op].bytes)
        ++found.not_alike_together;
  }
}

/// Every path between all pairs of layouts, or every `stride`-th one, on one set of ranks.
template <class Ranks, class Paths, class Mesh, class Case>
void execute_pairs(findings& found, std::size_t stride) {
  constexpr mesh_value const& mesh = Case::mesh;
  dimension_list const& dims = Case::dims;
  Ranks::run(Mesh::size, [&](typename Ranks::communicator& world) {
    mesh_communicator<Mesh, typename Ranks::communicator> rank(world);
    coordinates const at = rank.at();
    auto const total = [&](double value) {
      testing::array<Ranks, double> const sum(1, value);
      world.all_reduce(sum.span(), comm::reduction::sum);
      return sum.first();
    };
    for (std::size_t i = 0; i < Case::layouts.count; ++i) {
      layout const& a = Case::layouts.at[i];
      if (i % stride == 0) execute_together<Ranks, Paths, Case>(rank, a, i / stride % 2 == 0, found);
      std::vector<double> const in = part_of_tensor(mesh, dims, a, a, at);
      for (std::size_t j = 0; j < Case::layouts.count; ++j) {
        layout const& b = Case::layouts.at[j];
        if ((i * Case::layouts.count + j) % stride != 0) continue;
        redistribution const path = Paths::find(mesh, dims, a, b);
        if (!path.exists) continue;
        if (world.rank() == 0) ++found.pairs;

        traffic_table expected{};
        count_redistribution<double>(expected, mesh, at, path);
        std::array<comm::communication_counters, max_axes> before{};
        for (std::size_t x = 0; x < mesh.axes; ++x) before[x] = rank.along(x).counters();
        std::vector<double> const out = redistributed<Ranks>(rank, path, in);
        for (std::size_t x = 0; x < mesh.axes; ++x) {
          comm::communication_counters const sent = rank.along(x).counters() - before[x];
          for (std::size_t op = 0; op < comm::operation_count; ++op)
            if (sent.of[op].calls != expected.at[x][op].calls || sent.of[op].bytes_sent != expected.at[x][op].bytes)
              ++found.wrong_traffic;
        }
        if (!same_elements(out, part_of_tensor(mesh, dims, a, b, at))) ++found.wrong_values;

        // There and back. Only complete values can come back.
        if (!a.has_partial()) {
          redistribution const back = Paths::find(mesh, dims, b, a);
          if (!same_elements(redistributed<Ranks>(rank, back, out), in)) ++found.not_restored;
        }
        // <R x, y> = <x, R* y>, for a complete cotangent y.
        layout const b_star = cotangent(b), a_star = cotangent(a);
        std::vector<double> y;
        for (std::int64_t const g : cut(mesh, dims, b, at))
          y.push_back(g < 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(g * g % 13 + 1));
        std::vector<double> const y_star = redistributed<Ranks>(rank, Paths::find(mesh, dims, b_star, a_star), y);
        if (total(pairing(mesh, b, at, out, y)) != total(pairing(mesh, a, at, in, y_star))) ++found.not_dual;

        // The same where every copy of R x is used on its own, and so has a cotangent of its own: that arrives partial
        // over the axes where R x is replicated (f and g of arXiv 1909.08053 are one such pair).
        layout copies = b_star;
        for (std::size_t x = 0; x < mesh.axes; ++x)
          if (b.axis[x].kind == placement::replicated) copies.make_partial(x);
        double used = 0;
        for (std::size_t n = 0; n < y.size(); ++n) {
          y[n] += static_cast<double>(world.rank() * 3 + n % 2);
          if (y[n] == y[n] && out[n] == out[n]) used += out[n] * y[n];
        }
        std::vector<double> const all_star = redistributed<Ranks>(rank, Paths::find(mesh, dims, copies, a_star), y);
        if (total(used) != total(pairing(mesh, a, at, in, all_star))) ++found.not_dual_of_copies;
      }
    }
  });
}

template <class Paths, class Mesh, class Case, class Ranks = testing::thread_ranks>
void check_pairs_executed(std::size_t stride = 1) {
  findings found{};
  execute_pairs<Ranks, Paths, Mesh, Case>(found, stride);
  CHECK(found.pairs > 0);
  CHECK(found.wrong_values == 0);
  CHECK(found.wrong_traffic == 0);
  CHECK(found.not_restored == 0);
  CHECK(found.not_dual == 0);
  CHECK(found.not_dual_of_copies == 0);
  CHECK(found.not_alike_together == 0);
}
template <class Mesh, class Dims, bool Padded = false, class Ranks = testing::thread_ranks>
void check_executed(std::size_t stride = 1) {
  check_pairs_executed<by_search, Mesh, on<Mesh, Dims, Padded>, Ranks>(stride);
}

}  // namespace heddle::laws
