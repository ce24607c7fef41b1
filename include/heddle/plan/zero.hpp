// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/plan/rest_layouts.hpp>

namespace heddle {

/// The rest layouts of ZeRO-DP (Rajbhandari et al., arXiv 1910.02054 §5): optimizer state and reduced gradients (stage
/// 1), then parameters (3) are split over the axes of the bit set `Axes`, where the compute layout leaves them
/// replicated. Stage 2 is stage 1 whose gradients do not stand unreduced, unit by unit: in steps of one micro-batch,
/// or where the plan reduces per micro-batch.
///
/// Each parameter is split along one of its own dimensions, so that rows stay rows and columns columns: the first whose
/// local extent the ranks divide, else the one that needs the smallest share of padding, which then holds zeros. A rank
/// may find its whole part to be padding; it takes part in every collective all the same. A parameter without
/// dimensions has nothing to split, and stays whole.
///
/// **Moves**, per rank and step, of Ψ parameters over n ranks: stages 1 and 2 a reduce-scatter of gradients and an
/// all-gather of updated parameters, 2Ψ(n−1)/n; stage 3 an all-gather of parameters before forward and before backward,
/// and the reduce-scatter, 3Ψ(n−1)/n (§7).
template <std::size_t Stage, unsigned Axes>
struct zero_rest {
  static constexpr bool partitions_gradients = Stage >= 2;

  static constexpr rest_layouts of(mesh_value const& mesh, dimension_list const& dims, layout const& compute) {
    layout const part = split_over(mesh, dims, compute);
    return {Stage >= 3 ? part : compute, Stage >= 1 ? part : compute, Stage >= 1 ? part : compute};
  }

 private:
  static constexpr layout split_over(mesh_value const& mesh, dimension_list const& dims, layout l) {
    std::size_t ways = 1;
    for (std::size_t a = 0; a < mesh.axes; ++a)
      if (takes(l, a)) ways *= mesh.axis[a].size;
    if (ways == 1 || dims.rank == 0) return l;
    auto const extent = local_extents(mesh, dims, l);
    std::size_t best = 0;
    for (std::size_t k = 0; k < dims.rank; ++k) {
      if (extent[k] % ways == 0) {
        best = k;
        break;
      }
      // Padded over real: a/b < c/d without division.
      if (padded(extent[k], ways) * extent[best] < padded(extent[best], ways) * extent[k]) best = k;
    }
    layout const before = l;
    for (std::size_t a = 0; a < mesh.axes; ++a)
      if (takes(before, a)) l.split(a, dims.dim[best].name, extent[best] % ways != 0);
    return l;
  }
  static constexpr bool takes(layout const& l, std::size_t a) {
    return (Axes >> a & 1U) != 0 && l.axis[a].kind == placement::replicated;
  }
  static constexpr std::size_t padded(std::size_t extent, std::size_t ways) {
    return block_extent(extent, ways) * ways;
  }
};

/// The stage of `zero` that chose a rest policy, and the axes that it splits over; 0 for any other.
template <class RestPolicy>
inline constexpr std::size_t zero_stage_of = 0;
template <std::size_t Stage, unsigned Axes>
inline constexpr std::size_t zero_stage_of<zero_rest<Stage, Axes>> = Stage;
template <class RestPolicy>
inline constexpr unsigned zero_axes_of = 0;
template <std::size_t Stage, unsigned Axes>
inline constexpr unsigned zero_axes_of<zero_rest<Stage, Axes>> = Axes;

}  // namespace heddle
