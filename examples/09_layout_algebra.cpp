// SPDX-License-Identifier: Apache-2.0
// Layouts and redistributions alone: no model, no trainer. For a program that has its own kernels.
#include <cstdio>
#include <heddle/comm/threads.hpp>
#include <heddle/layout/describe.hpp>
#include <heddle/layout/layout_of.hpp>
#include <heddle/layout/names.hpp>
#include <heddle/layout/op_rules.hpp>
#include <heddle/layout/redistribution.hpp>
#include <heddle/tensor/local_index_map.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/tensor/redistribute.hpp>
#include <heddle/tensor/traffic.hpp>
#include <vector>

namespace hd = heddle;

// [layouts]
using grid = hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::tp, 2>>;
using activation = hd::dims<hd::dim<hd::batch, 4>, hd::dim<hd::sequence, 8>, hd::dim<hd::embed, 6>>;

constexpr hd::layout pending = hd::layout_of<grid, hd::split<hd::batch, hd::dp>, hd::partial<hd::tp>>::value;
constexpr hd::layout shared = hd::layout_of<grid, hd::split<hd::batch, hd::dp>, hd::split<hd::sequence, hd::tp>>::value;
static_assert(hd::local_size(grid::value, activation::value, pending) == 2 * 8 * 6);
static_assert(hd::local_size(grid::value, activation::value, shared) == 2 * 4 * 6);
// [/layouts]

// [rules]
// Rules place a tensor: the first that claims an axis gets it. The same rules place the whole iteration space of an op,
// and an op's result is partial over the axes of the dimensions that it lacks.
using rules = hd::rules<hd::shard<hd::mlp, hd::tp>, hd::shard<hd::batch, hd::dp>, hd::shard<hd::sequence, hd::tp>>;
using hidden = hd::dims<hd::dim<hd::batch, 4>, hd::dim<hd::sequence, 8>, hd::dim<hd::mlp, 24>>;
using weight = hd::dims<hd::dim<hd::embed, 6>, hd::dim<hd::mlp, 24>>;
constexpr hd::op_placement down =
    hd::place_op(grid::value, rules::value, union_of(hidden::value, union_of(weight::value, activation::value)));
static_assert(down.operand(weight::value) == hd::layout_of<grid, hd::split<hd::mlp, hd::tp>>::value);
static_assert(down.sum(activation::value) == pending);                                      // Megatron's g
static_assert(hd::place(grid::value, rules::value, activation::value) == shared);           // what comes next
static_assert(down.sum(weight::value).is_partial(grid::value.index_of(hd::id_v<hd::dp>)));  // data parallelism
// [/rules]

// [path]
constexpr hd::redistribution path = hd::find_redistribution(grid::value, activation::value, pending, shared);
static_assert(path.count == 1 && path.step[0].kind == hd::step_kind::reduce_scatter);
static_assert(path.cost == 2 * 8 * 6 / 2);  // elements that each rank sends
// [/path]

namespace {

void show(hd::layout const& from, hd::layout const& to) {
  auto const found = hd::find_redistribution(grid::value, activation::value, from, to);
  std::printf("%-34s -> %-34s %-36s %zu elements sent\n", describe(grid::value, activation::value, from).c_str(),
              describe(grid::value, activation::value, to).c_str(),
              found.exists ? describe(grid::value, found).c_str() : "none", found.cost);
}

// [execute]
/// Sums two halves of a tensor over tp and leaves each rank its positions; returns how many elements were wrong.
std::size_t reduce_and_scatter(hd::mesh_communicator<grid, hd::comm::thread_communicator>& rank) {
  std::vector<float> in(path.from_size), out(path.to_size);
  std::vector<float> scratch(hd::redistribution_scratch(grid::value, path));
  // Element i of the global tensor is i, as a sum of two parts: the first tp rank has i - 1, the second 1.
  hd::for_each_run(hd::local_index_map(grid::value, activation::value, pending, rank.at()),
                   [&](std::size_t begin, std::size_t count, std::uint64_t global) {
                     for (std::size_t k = 0; k < count; ++k)
                       in[begin + k] = rank.coordinate<hd::tp>() == 0 ? float(global + k) - 1 : 1;
                   });
  hd::redistribute(rank, path, in.data(), out.data(), scratch.data());
  std::size_t wrong = 0;
  hd::for_each_run(hd::local_index_map(grid::value, activation::value, shared, rank.at()),
                   [&](std::size_t begin, std::size_t count, std::uint64_t global) {
                     for (std::size_t k = 0; k < count; ++k) wrong += out[begin + k] != float(global + k) ? 1 : 0;
                   });
  return wrong;
}
// [/execute]

}  // namespace

int main() {
  constexpr hd::layout whole{};
  constexpr hd::layout by_embed =
      hd::layout_of<grid, hd::split<hd::batch, hd::dp>, hd::split<hd::embed, hd::tp>>::value;
  constexpr hd::layout by_both = hd::layout_of<grid, hd::split<hd::batch, hd::tp, hd::dp>>::value;
  show(pending, shared);
  show(shared, by_embed);
  show(shared, whole);
  show(whole, shared);
  show(by_both, shared);
  show(shared, pending);

  std::vector<std::size_t> wrong(grid::size);
  hd::comm::run_threads(grid::size, [&](hd::comm::thread_communicator& world) {
    hd::mesh_communicator<grid, hd::comm::thread_communicator> rank(world);
    wrong[rank.rank()] = reduce_and_scatter(rank);
  });
  std::size_t total = 0;
  for (std::size_t w : wrong) total += w;
  std::printf("executed on %zu thread ranks: %zu wrong elements\n", grid::size, total);
  return total == 0 ? 0 : 1;
}
