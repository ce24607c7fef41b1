// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/plan/parameters.hpp>

namespace heddle {

/// Parameters that the first and the last stage both hold (a tied embedding): replicated over those two stages only, so
/// their gradients are partial over the two. What one stage would refuse of two uses, two stages refuse too.
template <class R>
struct shared_parameters {
  using partition = stage_partition<R>;
  static constexpr bool pipelined = partition::stages > 1;

 private:
  /// Names of the first parameter that both ends declare without a tie, and of the first whose two ends disagree.
  struct faults {
    parameter_name repeated{}, unlike{};
    detail::contradiction frozen{};
  };
  static constexpr faults between_ends = [] {
    faults f{};
    if constexpr (pipelined) {
      using first = stage_parameters<R, stage_kind::first>;
      using last = stage_parameters<R, stage_kind::last>;
      for (std::size_t n = 0; n < first::count; ++n) {
        std::size_t const k = last::find(first::entry[n].id);
        // The layers' own parameters have the same names on every stage, and are others.
        if (k == last::count || (first::entry[n].stacked && last::entry[k].stacked)) continue;
        bool const tied = first::entry[n].tied && last::entry[k].tied;
        if (!tied && f.repeated.length == 0) f.repeated = last::entry[k].name;
        if (tied && !detail::can_share(first::entry[n], last::entry[k]) && f.unlike.length == 0)
          f.unlike = last::entry[k].name;
        if (tied) f.frozen.find(first::entry[n], last::entry[k].name, last::entry[k].trainable);
      }
    }
    return f;
  }();
  static constexpr parameter_name repeated = between_ends.repeated, unlike = between_ends.unlike;
  static_assert(detail::declared_once<detail::as_fixed_string<repeated.length>(repeated), repeated.length == 0>::value);
  static_assert(detail::tied_alike<detail::as_fixed_string<unlike.length>(unlike), unlike.length == 0>::value);
  static constexpr parameter_name frozen_use = between_ends.frozen.frozen, trained_use = between_ends.frozen.trained;
  static_assert(detail::tied_trained_alike<detail::as_fixed_string<frozen_use.length>(frozen_use),
                                           detail::as_fixed_string<trained_use.length>(trained_use),
                                           frozen_use.length == 0>::value);

 public:
  /// Whether entry n of stage `Kind` has a copy on the other end of the pipeline.
  template <stage_kind Kind>
  static constexpr bool is_shared(std::size_t n) {
    if constexpr (!pipelined || Kind == stage_kind::middle || Kind == stage_kind::whole) {
      return false;
    } else {
      using mine = stage_parameters<R, Kind>;
      using other = stage_parameters<R, Kind == stage_kind::first ? stage_kind::last : stage_kind::first>;
      return !mine::entry[n].stacked && other::find(mine::entry[n].id) < other::count;
    }
  }
  static constexpr std::size_t count = [] {
    std::size_t shared = 0;
    if constexpr (pipelined)
      for (std::size_t n = 0; n < stage_parameters<R, stage_kind::first>::count; ++n)
        shared += is_shared<stage_kind::first>(n);
    return shared;
  }();
};

/// Parameters of a model, each counted once, padding excluded.
struct parameter_counts {
  std::size_t all = 0;      ///< what papers call its size
  std::size_t trained = 0;  ///< all but those within `frozen`
};
template <class R>
constexpr parameter_counts count_all_parameters() {
  using partition = stage_partition<R>;
  parameter_counts total{};
  auto const add = [&](auto const& entries, std::size_t count, auto const& skip) {
    for (std::size_t n = 0; n < count; ++n)
      if (!skip(n)) {
        total.all += entries[n].dims.size();
        total.trained += entries[n].trainable ? entries[n].dims.size() : 0;
      }
  };
  if constexpr (partition::stages == 1) {
    using p = stage_parameters<R, stage_kind::whole>;
    add(p::entry, p::count, [](std::size_t) { return false; });
  } else {
    using first = stage_parameters<R, stage_kind::first>;
    using last = stage_parameters<R, stage_kind::last>;
    add(first::entry, first::count, [](std::size_t) { return false; });
    // The stacked ones are the same layers' parameters again.
    add(last::entry, last::count, [](std::size_t n) {
      return last::entry[n].stacked || shared_parameters<R>::template is_shared<stage_kind::last>(n);
    });
  }
  return total;
}
template <class R>
constexpr std::size_t count_parameters() {
  return count_all_parameters<R>().all;
}

}  // namespace heddle
