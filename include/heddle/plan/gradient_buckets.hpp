// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/bytes.hpp>
#include <heddle/detail/array_view.hpp>
#include <heddle/plan/parameters.hpp>
#include <heddle/plan/plan_error.hpp>
#include <heddle/plan/policies.hpp>
#include <heddle/tensor/scattering.hpp>
#include <heddle/tensor/traffic.hpp>
#include <type_traits>

namespace heddle {

/// Gradients whose reductions are the same collectives over the same axes travel together: in buckets.
///
/// A bucket holds a piece of every rank's share, [ways, length]: `ways` ranks share what is scattered (1 where nothing
/// is). Gradients fill it in the order in which backward completes them; one that finds too little room goes on in the
/// next bucket.
struct bucket_class {
  struct step {
    step_kind kind = step_kind::all_reduce;
    std::uint8_t axis = 0;
    friend constexpr bool operator==(step const&, step const&) = default;
  };
  std::array<step, max_axes> steps{};
  std::size_t count = 0;     ///< of steps
  std::size_t ways = 1;      ///< ranks that a bucket is scattered over
  bool restores = false;     ///< what is scattered is gathered again: every rank needs all of the sum
  std::size_t total = 0;     ///< elements of this rank's share of everything, in one reduction
  std::size_t first = 0;     ///< length of the first bucket
  std::size_t length = 0;    ///< of those after it, but for the last, which has the rest
  std::size_t buffers = 0;   ///< 2 where one bucket is filled while another travels
  std::size_t in_size = 0;   ///< elements of a buffer: what is filled,
  std::size_t out_size = 0;  ///< and what the first scatter leaves
  std::size_t offset = 0;    ///< of the first buffer in the arena

  [[nodiscard]] constexpr std::size_t buckets() const {
    return total == 0 ? 0 : total <= first ? 1 : 1 + (total - first + length - 1) / length;
  }
  /// The length of bucket b.
  [[nodiscard]] constexpr std::size_t length_of(std::size_t b) const {
    if (b == 0) return total < first ? total : first;
    std::size_t const left = total - first - (b - 1) * length;
    return left < length ? left : length;
  }
};

/// The buckets of a stage, as the code that fills them reads them.
struct bucket_table {
  static constexpr std::size_t none = ~std::size_t{0};

  detail::array_view<bucket_class> of;
  detail::array_view<std::size_t> class_of;  ///< of each entry; none where it is not reduced in buckets
  std::size_t elements = 0;                  ///< of the arena, whose end is for reductions that go alone
  std::size_t alone_offset = 0;
};

namespace detail {
/// What is wrong with a plan's buckets, or void: one must hold an element of each rank that it is scattered over.
template <std::size_t Bytes, std::size_t ElementBytes, std::size_t Ways>
using bucket_fault = std::conditional_t<(Bytes >= ElementBytes * Ways), void,
                                        plan_error<bucket<Bytes>, must_be_at_least<ElementBytes * Ways>,
                                                   one_element_for_each_of_the_ranks_that_share_it<Ways>>>;
}  // namespace detail

/// The buckets of a stage: their classes, memory and traffic.
template <class R, stage_kind Kind>
struct gradient_buckets {
  using parameters = stage_parameters<R, Kind>;
  using element = typename R::elements::travelling;
  static constexpr mesh_value mesh = R::mesh::value;

 private:
  static constexpr std::size_t none = bucket_table::none;
  using unreduced =
      std::conditional_t<parameters::reduces_at_once, typename R::element, typename R::elements::gradient>;
  static constexpr std::size_t use_count = parameters::use_count;
  struct arrays {
    std::array<bucket_class, use_count> of{};
    std::size_t count = 0;
    std::array<std::size_t, use_count> class_of{};
    std::size_t alone = 0;  ///< elements for the largest reduction that is not
    std::size_t elements = 0;
  };
  /// Reductions, and perhaps after them the gathers that undo their scatters.
  static constexpr bool goes_in_buckets(redistribution const& path) {
    std::size_t scatters = 0, gathers = 0;
    for (std::size_t i = 0; i < path.count; ++i) {
      auto const& step = path.step[i];
      if (step.kind == step_kind::reduce_scatter || step.kind == step_kind::all_reduce) {
        if (gathers != 0) return false;
        scatters += step.kind == step_kind::reduce_scatter;
        continue;
      }
      if (step.kind != step_kind::all_gather || gathers == scatters) return false;
      scattering const s = scattering_of(mesh, path);
      std::size_t const undone = scatters - ++gathers;
      if (s.axis[undone] != step.axis || s.dim[undone] != step.from) return false;
    }
    return path.count != 0 && (gathers == 0 || gathers == scatters);
  }
  /// What travels alone is converted before, where it is of another type.
  static constexpr std::size_t converted(redistribution const& path) {
    return std::is_same_v<element, unreduced> ? 0 : slot<element>(path.from_size);
  }
  static constexpr arrays build() {
    arrays t{};
    for (std::size_t n = 0; n < parameters::count; ++n) {
      redistribution const& path = parameters::entry[n].reduction;
      t.class_of[n] = none;
      if (!goes_in_buckets(path)) {
        if (path.count != 0)
          t.alone = detail::larger(t.alone,
                                   slot<element>(path.to_size) + converted(path) + redistribution_scratch(mesh, path));
        continue;
      }
      bucket_class c{};
      for (std::size_t i = 0; i < path.count; ++i) {
        c.steps[c.count++] = {path.step[i].kind, path.step[i].axis};
        if (path.step[i].kind == step_kind::reduce_scatter) c.ways *= mesh.axis[path.step[i].axis].size;
        if (path.step[i].kind == step_kind::all_gather) c.restores = true;
      }
      std::size_t k = 0;
      while (k < t.count && !(t.of[k].steps == c.steps && t.of[k].count == c.count)) ++k;
      if (k == t.count) t.of[t.count++] = c;
      t.class_of[n] = k;
    }
    // Reduced at once, each use sends its own part; else all uses of a parameter have added theirs before.
    if constexpr (parameters::reduces_at_once) {
      for (std::size_t k = 0; k < use_count; ++k) add(t, parameters::of_use[k]);
    } else {
      for (std::size_t n = 0; n < parameters::count; ++n) add(t, n);
    }
    for (std::size_t k = 0; k < t.count; ++k) {
      bucket_class& c = t.of[k];
      c.length = at_least_one(R::plan::bucket_bytes / sizeof(element) / c.ways);
      c.first = at_least_one((R::plan::bucket_bytes < MiB ? R::plan::bucket_bytes : MiB) / sizeof(element) / c.ways);
      c.buffers = c.buckets() > 1 ? 2 : 1;
      std::size_t longest = c.length_of(0);
      if (c.buckets() > 1) longest = detail::larger(longest, c.length_of(1));
      c.in_size = slot<element>(c.ways * longest);
      for (std::size_t i = 0; i < c.count && c.out_size == 0; ++i)
        if (c.steps[i].kind == step_kind::reduce_scatter)
          c.out_size = slot<element>(c.ways / mesh.axis[c.steps[i].axis].size * longest);
      c.offset = t.elements;
      t.elements += c.buffers * (c.in_size + c.out_size);
    }
    t.elements += slot<element>(t.alone);
    return t;
  }
  static constexpr void add(arrays& t, std::size_t n) {
    if (t.class_of[n] != none)
      t.of[t.class_of[n]].total +=
          parameters::entry[n].copies * scattering_of(mesh, parameters::entry[n].reduction).size;
  }
  /// Of a bucket that is refused below, so that this is all there is to read.
  static constexpr std::size_t at_least_one(std::size_t n) { return n == 0 ? 1 : n; }
  static constexpr arrays built = build();
  /// Elements that the smallest bucket has: 0 where nothing is reduced.
  static constexpr std::size_t least() {
    std::size_t most = 0;
    for (std::size_t k = 0; k < built.count; ++k) most = detail::larger(most, built.of[k].ways);
    return most;
  }
  static_assert(detail::without_fault<detail::bucket_fault<R::plan::bucket_bytes, sizeof(element), least()>>::value);

 public:
  static constexpr std::size_t count = built.count;
  static constexpr std::array<bucket_class, use_count> of = built.of;
  static constexpr std::array<std::size_t, use_count> class_of = built.class_of;
  static constexpr std::size_t elements = built.elements;
  static constexpr bucket_table table = {
      {of.data(), count}, {class_of.data(), parameters::count}, elements, elements - slot<element>(built.alone)};
  /// Reductions in a step.
  static constexpr std::size_t passes = parameters::reduces_at_once ? R::plan::micro_batches : 1;

  /// Adds what the rank at `at` sends in a step.
  static constexpr void count_step(traffic_table& t, coordinates const& at) {
    for (std::size_t k = 0; k < count; ++k) count_class(t, at, k);
    if constexpr (parameters::reduces_at_once) {
      for (std::size_t k = 0; k < use_count; ++k) count_alone(t, at, parameters::of_use[k]);
    } else {
      for (std::size_t n = 0; n < parameters::count; ++n) count_alone(t, at, n);
    }
  }
  /// What of that are the buckets of class k.
  static constexpr void count_class(traffic_table& t, coordinates const& at, std::size_t k) {
    bucket_class const& c = of[k];
    std::size_t const n = c.buckets();
    count_bucket(t, at, c, c.length_of(0), 1);
    if (n > 2) count_bucket(t, at, c, c.length, n - 2);
    if (n > 1) count_bucket(t, at, c, c.length_of(n - 1), 1);
  }

 private:
  static constexpr void count_bucket(traffic_table& t, coordinates const& at, bucket_class const& c, std::size_t length,
                                     std::size_t times) {
    std::size_t whole = c.ways * length;
    for (std::size_t i = 0; i < c.count; ++i) {
      std::size_t const a = c.steps[i].axis, ways = mesh.axis[a].size;
      if (c.steps[i].kind == step_kind::all_gather) whole *= ways;
      t.add(a, operation_of(c.steps[i].kind), times * passes,
            times * passes * elements_sent(c.steps[i].kind, whole, ways, at[a]) * sizeof(element));
      if (c.steps[i].kind == step_kind::reduce_scatter) whole /= ways;
    }
  }
  static constexpr void count_alone(traffic_table& t, coordinates const& at, std::size_t n) {
    if (class_of[n] != none) return;
    traffic_table one{};
    count_redistribution<element>(one, mesh, at, parameters::entry[n].reduction);
    t.add(one, passes * parameters::entry[n].copies);
  }
};

}  // namespace heddle
