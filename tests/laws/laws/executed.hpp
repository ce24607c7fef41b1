// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>
#include <algorithm>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <heddle/comm/threads.hpp>
#include <heddle/tensor/redistribute.hpp>
#include <heddle/tensor/traffic.hpp>
#include <limits>
#include <string>
#include <vector>

#include "layouts.hpp"

// Laws of redistributions as they are executed, on thread ranks, against a global tensor that is cut by a plain
// formula. All values are small whole numbers in double: every sum is exact and every comparison is of bits.
namespace heddle::laws {

/// The value of a global element, and one rank's summand of it where it is partial over `ways` ranks together.
constexpr double element_value(std::size_t global) { return static_cast<double>((global * 7 + 3) % 101); }
constexpr double summand(std::size_t global, std::size_t part, std::size_t ways) {
  auto const noise = [&](std::size_t p) { return static_cast<double>((global * 5 + p * 11) % 17) - 8; };
  if (part != 0) return noise(part);
  double first = element_value(global);
  for (std::size_t p = 1; p < ways; ++p) first -= noise(p);
  return first;
}

/// A rank's part of a tensor: which global element each local one is; -1 for padding.
inline std::vector<std::int64_t> cut(mesh_value const& mesh, dimension_list const& dims, layout const& l,
                                     coordinates const& at) {
  std::vector<std::int64_t> local{0};
  for (std::size_t k = 0; k < dims.rank; ++k) {
    // Each axis, from the most significant, cuts what is left of the dimension; what it pads has no index.
    std::size_t begin = 0, length = dims.dim[k].stored, end = dims.dim[k].size;
    for (std::size_t order = 0; order < mesh.axes; ++order)
      for (std::size_t a = 0; a < mesh.axes; ++a)
        if (l.axis[a].kind == placement::split && l.axis[a].dim == dims.dim[k].name && l.axis[a].order == order) {
          length = length / mesh.axis[a].size + (length % mesh.axis[a].size != 0);
          begin += length * at[a];
          end = std::min(end, begin + length);
        }
    std::vector<std::int64_t> next;
    for (std::int64_t const outer : local)
      for (std::size_t i = begin; i < begin + length; ++i)
        next.push_back(outer < 0 || i >= end
                           ? -1
                           : outer * static_cast<std::int64_t>(dims.dim[k].size) + static_cast<std::int64_t>(i));
    local = next;
  }
  return local;
}

/// The number of a rank among those whose summands make up a value that is partial over `axes`, and how many there are.
struct part_of_sum {
  std::size_t part = 0;
  std::size_t ways = 1;
};
constexpr part_of_sum part_over(mesh_value const& mesh, layout const& l, coordinates const& at) {
  part_of_sum p{};
  for (std::size_t a = 0; a < mesh.axes; ++a)
    if (l.axis[a].kind == placement::partial) {
      p.part = p.part * mesh.axis[a].size + at[a];
      p.ways *= mesh.axis[a].size;
    }
  return p;
}

/// What the rank at `at` holds of global element `g` when the value was made under `made` and is now in `now`: the sum
/// over the axes that have been completed since.
inline double held(mesh_value const& mesh, layout const& made, layout const& now, coordinates const& at,
                   std::size_t g) {
  double total = 0;
  for (std::size_t r = 0; r < mesh.size(); ++r) {
    coordinates const other = mesh.coordinates_of(r);
    bool counts = true;
    for (std::size_t a = 0; a < mesh.axes; ++a) {
      bool const completed = made.axis[a].kind == placement::partial && now.axis[a].kind != placement::partial;
      counts = counts && (other[a] == at[a] || completed);
    }
    part_of_sum const p = part_over(mesh, made, other);
    if (counts) total += summand(g, p.part, p.ways);
  }
  return total;
}

/// This rank's part of the tensor, and NaN where there is padding: it must never reach a real element.
inline std::vector<double> part_of_tensor(mesh_value const& mesh, dimension_list const& dims, layout const& made,
                                          layout const& now, coordinates const& at) {
  std::vector<double> values;
  for (std::int64_t const g : cut(mesh, dims, now, at))
    values.push_back(g < 0 ? std::numeric_limits<double>::quiet_NaN()
                           : held(mesh, made, now, at, static_cast<std::size_t>(g)));
  return values;
}

/// Equal wherever the second, made by `part_of_tensor`, is a real element.
inline bool same_elements(std::vector<double> const& got, std::vector<double> const& expected) {
  if (got.size() != expected.size()) return false;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (expected[i] == expected[i] && !(got[i] == expected[i])) return false;
  return true;
}

template <class Communicator>
std::vector<double> redistributed(Communicator& rank, redistribution const& path, std::vector<double> const& in) {
  std::vector<double> out(path.to_size, -1e9);
  // A guard behind the scratch: what is asked for must be enough.
  std::size_t const room = redistribution_scratch(Communicator::mesh::value, path);
  std::vector<double> scratch(room + 1, 1e9);
  redistribute(rank, path, in.data(), out.data(), scratch.data());
  if (scratch[room] != 1e9) out.clear();
  return out;
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

/// What went wrong, counted over all ranks and pairs.
struct findings {
  std::atomic<std::size_t> pairs{0}, wrong_values{0}, wrong_traffic{0}, not_restored{0}, not_dual{0},
      not_dual_of_copies{0}, not_alike_together{0};
};

/// The paths from layout `a` to all others at once: beside other work where `beside`. What arrives, and what is sent,
/// is what it is one by one.
template <class Case, class Rank>
void execute_together(Rank& rank, layout const& a, bool beside, findings& found) {
  constexpr mesh_value const& mesh = Case::mesh;
  dimension_list const& dims = Case::dims;
  std::vector<double> const in = part_of_tensor(mesh, dims, a, a, rank.at());
  std::vector<redistribution> paths;
  std::vector<std::vector<double>> expected, out, scratch;
  for (std::size_t j = 0; j < Case::layouts.count; ++j) {
    redistribution const path = find_redistribution(mesh, dims, a, Case::layouts.at[j]);
    if (!path.exists || path.empty()) continue;
    paths.push_back(path);
    expected.push_back(redistributed(rank, path, in));
    out.emplace_back(path.to_size, -1e9);
    scratch.emplace_back(redistribution_scratch(mesh, path) + 1, 1e9);
  }
  traffic_table sent{};
  std::array<comm::communication_counters, max_axes> before{};
  for (std::size_t x = 0; x < mesh.axes; ++x) before[x] = rank.along(x).counters();
  redistributions_in_flight<comm::thread_communicator, double> all(rank, paths.size());
  for (std::size_t k = 0; k < paths.size(); ++k) {
    count_redistribution<double>(sent, mesh, rank.at(), paths[k]);
    all.add(paths[k], in.data(), out[k].data(), scratch[k].data());
  }
  if (beside) {
    all.begin();
    all.finish();
  } else {
    all.run();
  }
  all.finish();  // of nothing
  for (std::size_t k = 0; k < paths.size(); ++k)
    if (scratch[k].back() != 1e9 || std::memcmp(out[k].data(), expected[k].data(), out[k].size() * sizeof(double)) != 0)
      ++found.not_alike_together;
  for (std::size_t x = 0; x < mesh.axes; ++x) {
    comm::communication_counters const here = rank.along(x).counters() - before[x];
    for (std::size_t op = 0; op < comm::operation_count; ++op)
      if (here.of[op].calls != sent.at[x][op].calls || here.of[op].bytes_sent != sent.at[x][op].bytes)
        ++found.not_alike_together;
  }
}

/// Every path between all pairs of layouts, on one set of thread ranks.
template <class Mesh, class Case>
void execute_all_pairs(findings& found) {
  constexpr mesh_value const& mesh = Case::mesh;
  dimension_list const& dims = Case::dims;
  comm::run_threads(Mesh::size, [&](comm::thread_communicator& world) {
    mesh_communicator<Mesh, comm::thread_communicator> rank(world);
    coordinates const at = rank.at();
    auto const total = [&](double value) {
      world.all_reduce(std::span<double>(&value, 1), comm::reduction::sum);
      return value;
    };
    for (std::size_t i = 0; i < Case::layouts.count; ++i) {
      layout const& a = Case::layouts.at[i];
      execute_together<Case>(rank, a, i % 2 == 0, found);
      std::vector<double> const in = part_of_tensor(mesh, dims, a, a, at);
      for (std::size_t j = 0; j < Case::layouts.count; ++j) {
        layout const& b = Case::layouts.at[j];
        redistribution const path = find_redistribution(mesh, dims, a, b);
        if (!path.exists) continue;
        if (world.rank() == 0) ++found.pairs;

        traffic_table expected{};
        count_redistribution<double>(expected, mesh, at, path);
        std::array<comm::communication_counters, max_axes> before{};
        for (std::size_t x = 0; x < mesh.axes; ++x) before[x] = rank.along(x).counters();
        std::vector<double> const out = redistributed(rank, path, in);
        for (std::size_t x = 0; x < mesh.axes; ++x) {
          comm::communication_counters const sent = rank.along(x).counters() - before[x];
          for (std::size_t op = 0; op < comm::operation_count; ++op)
            if (sent.of[op].calls != expected.at[x][op].calls || sent.of[op].bytes_sent != expected.at[x][op].bytes)
              ++found.wrong_traffic;
        }
        if (!same_elements(out, part_of_tensor(mesh, dims, a, b, at))) ++found.wrong_values;

        // There and back. Only complete values can come back.
        if (!a.has_partial()) {
          redistribution const back = find_redistribution(mesh, dims, b, a);
          if (!same_elements(redistributed(rank, back, out), in)) ++found.not_restored;
        }
        // <R x, y> = <x, R* y>, for a complete cotangent y.
        layout const b_star = cotangent(b), a_star = cotangent(a);
        std::vector<double> y;
        for (std::int64_t const g : cut(mesh, dims, b, at))
          y.push_back(g < 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(g * g % 13 + 1));
        std::vector<double> const y_star = redistributed(rank, find_redistribution(mesh, dims, b_star, a_star), y);
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
        std::vector<double> const all_star = redistributed(rank, find_redistribution(mesh, dims, copies, a_star), y);
        if (total(used) != total(pairing(mesh, a, at, in, all_star))) ++found.not_dual_of_copies;
      }
    }
  });
}

template <class Mesh, class Dims, bool Padded = false>
void check_executed() {
  findings found{};
  execute_all_pairs<Mesh, on<Mesh, Dims, Padded>>(found);
  CHECK(found.pairs > 0);
  CHECK(found.wrong_values == 0);
  CHECK(found.wrong_traffic == 0);
  CHECK(found.not_restored == 0);
  CHECK(found.not_dual == 0);
  CHECK(found.not_dual_of_copies == 0);
  CHECK(found.not_alike_together == 0);
}

}  // namespace heddle::laws
