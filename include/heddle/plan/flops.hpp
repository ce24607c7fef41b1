// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <heddle/layout/names.hpp>
#include <heddle/models/model_concepts.hpp>
#include <heddle/nn/attention.hpp>
#include <heddle/nn/forward_only.hpp>
#include <heddle/nn/frozen.hpp>
#include <heddle/nn/named.hpp>
#include <heddle/nn/repeat.hpp>
#include <heddle/nn/residual.hpp>
#include <heddle/nn/sequential.hpp>
#include <heddle/plan/stage_memory.hpp>

namespace heddle {

/// Floating-point operations of products, a multiplication and an addition counted as two. Everything else (norms,
/// softmax, GELU, biases, look-ups, the optimizer) counts nothing, as in the papers (arXiv 2104.04473, appendix; arXiv
/// 2205.05198, appendix A; arXiv 2204.02311, appendix B), so that counts can be compared with theirs.
struct flop_count {
  std::uint64_t products = 0;   ///< of activations with parameters: 2mnk
  std::uint64_t attention = 0;  ///< of queries with keys and of scores with values, over the full square of positions
  std::uint64_t spared = 0;     ///< of those of a backward: what nobody reads, since parameters are frozen
  [[nodiscard]] constexpr std::uint64_t total() const { return products + attention; }
  constexpr void add(flop_count const& other, std::uint64_t times = 1) {
    products += other.products * times;
    attention += other.attention * times;
    spared += other.spared * times;
  }
  friend constexpr bool operator==(flop_count const&, flop_count const&) = default;
};

/// Operations of one forward.
struct forward_flops {
  flop_count layers{};  ///< of repeated blocks
  flop_count ends{};    ///< of everything else: the head
  [[nodiscard]] constexpr std::uint64_t total() const { return layers.total() + ends.total(); }
  friend constexpr bool operator==(forward_flops const&, forward_flops const&) = default;
};

/// What is computed a second time in backward instead of being kept.
enum class recomputed : unsigned char {
  nothing,
  attention,  ///< its two products: selective recomputation (arXiv 2205.05198 §5)
  layers      ///< the forward of every repeated block: full recomputation (arXiv 2104.04473 §3.5)
};

/// Operations of forward and backward together. A product's backward is two products of its size, one for each operand;
/// so is each of attention's; where the parameters are frozen there is one, for the input. With `recomputed::nothing`
/// these are *model* FLOPs, else *hardware* FLOPs (arXiv 2205.05198 §6.3, arXiv 2204.02311 appendix B).
[[nodiscard]] constexpr std::uint64_t training_flops(forward_flops const& f, recomputed again = recomputed::nothing) {
  std::uint64_t const model = 3 * f.total() - f.layers.spared - f.ends.spared;
  if (again == recomputed::attention) return model + f.layers.attention + f.ends.attention;
  return again == recomputed::layers ? model + f.layers.total() : model;
}

namespace detail {

template <class Kernel>
concept CountedKernel = requires {
  { Kernel::flops } -> std::convertible_to<flop_count>;
};
template <class Kernel>
concept ProductKernel = requires {
  { Kernel::m* Kernel::n* Kernel::k } -> std::convertible_to<std::uint64_t>;
};

/// Without the gradients of frozen parameters, where the kernel leaves them, and without the backward of what comes
/// before everything that is trained.
template <class Plan, class Kernel>
constexpr flop_count without_spared(flop_count f) {
  if (!goes_back_under<Plan>)
    f.spared = 2 * f.total();
  else if (!trains_under<Plan> && Kernel::skips_gradients)
    f.spared = f.products;
  return f;
}

template <class Module, class Kernel>
struct op_flops {
  static constexpr flop_count value = [] {
    flop_count f{};
    if constexpr (CountedKernel<Kernel>)
      f = Kernel::flops;
    else if constexpr (ProductKernel<Kernel>)
      f.products = std::uint64_t{2} * Kernel::m * Kernel::n * Kernel::k;
    return f;
  }();
};
template <class Sequence, class Heads, std::size_t Group, class HeadDim, class Kernel>
struct op_flops<causal_attention<Sequence, Heads, Group, HeadDim>, Kernel> {
  static constexpr std::uint64_t square = std::uint64_t{Kernel::sequence_length} * Kernel::sequence_length;
  static constexpr flop_count value = {0, 4 * Kernel::batch_size* Kernel::kv_heads* Group* square* Kernel::width, 0};
};

/// `value`, and the dimensions of the `output`, of a module for an input. Instantiates nothing of `placed`.
template <class Module, class Plan, class Input>
struct flop_walk {
  static_assert(
      Primitive<Module>,
      "forward_flops_of<Module, Plan, Input>: 'Module' must be a primitive, sequential, residual, repeat or named; "
      "specialise heddle::detail::flop_walk for a composition of your own");
  using place = op_place<Module, Plan, Input>;
  using output = typename place::output_dims;
  using kernel = typename Module::template kernel<place>;
  static constexpr forward_flops value = {{}, without_spared<Plan, kernel>(op_flops<Module, kernel>::value)};
};
template <NamedModule Module, class Plan, class Input>
struct flop_walk<Module, Plan, Input> : flop_walk<typename Module::named_module, Plan, Input> {};
template <class Module, class Plan, class Input>
struct flop_walk<frozen<Module>, Plan, Input> : flop_walk<Module, freeze_t<Plan>, Input> {};
template <class Module, class Plan, class Input>
struct flop_walk<forward_only<Module>, Plan, Input> : flop_walk<Module, forward_plan<Plan>, Input> {};
template <class Branch, class Plan, class Input>
struct flop_walk<residual<Branch>, Plan, Input> : flop_walk<Branch, Plan, Input> {};
template <class Layers, class Block, class Plan, class Input>
struct flop_walk<repeat<Layers, Block>, Plan, Input> {
  using output = Input;
  static constexpr forward_flops value = [] {
    constexpr forward_flops one = flop_walk<Block, Plan, Input>::value;
    constexpr layout of_layers = place(Plan::mesh::value, Plan::rules::value, dims<Layers>::value);
    constexpr std::size_t copies = Layers::size / ways_of(Plan::mesh::value, of_layers, id_v<typename Layers::name>);
    forward_flops all{};
    all.layers.add(one.layers, copies);
    all.layers.add(one.ends, copies);
    return all;
  }();
};
template <class Last, class Plan, class Input>
struct flop_walk<sequential<Last>, Plan, Input> : flop_walk<Last, Plan, Input> {};
template <class First, class Second, class... Rest, class Plan, class Input>
struct flop_walk<sequential<First, Second, Rest...>, Plan, Input> {
 private:
  using first = flop_walk<First, Plan, Input>;
  using rest = flop_walk<sequential<Second, Rest...>, Plan, typename first::output>;

 public:
  using output = typename rest::output;
  static constexpr forward_flops value = [] {
    forward_flops all = first::value;
    all.layers.add(rest::value.layers);
    all.ends.add(rest::value.ends);
    return all;
  }();
};

/// One rank, one sequence, and no backend: kernels are only asked for their sizes.
template <class Model>
using alone = module_plan<mesh<>, rules<>, float, padding<>, dims<dim<batch, 1>, dim<sequence, Model::context>>, void>;

}  // namespace detail

/// Operations of one forward of a module on one rank, found by walking its primitives; the arguments are those of
/// `placed`. Of a product 2mnk with the local extents, padding included; of causal attention
/// 4·batch·heads·sequence²·head_dim. The kernel of a module of your own says what it computes as
/// `static constexpr heddle::flop_count flops`, else it counts nothing.
template <class Module, class Plan, class Input>
inline constexpr forward_flops forward_flops_of = detail::flop_walk<Module, Plan, Input>::value;

/// Operations of a model's forward on one sequence, whatever the plan: padding does not count.
template <LanguageModel Model>
inline constexpr forward_flops flops_per_sequence =
    forward_flops_of<typename detail::pipeline_cut<typename Model::module>::all, detail::alone<Model>,
                     typename detail::alone<Model>::tokens>;

/// Operations of a training step on every rank of a pipeline stage, padding included, `R` a `resolved` plan: 64 bits
/// hold a rank's. **Law.** Summed over all ranks they are `global_batch_size` times those of one sequence, where
/// nothing is padded and every product is split over every axis but the pipeline's (tests/static/paper_flops.cpp).
template <class R>
[[nodiscard]] constexpr std::uint64_t flops_of_step(std::size_t stage, recomputed again = recomputed::nothing) {
  return detail::with_stage_kind<R>(stage, [&](auto kind) {
    using partition = stage_partition<R>;
    constexpr stage_kind here = decltype(kind)::value;
    using module = typename partition::template module<here>;
    using input = typename partition::template stage<here>::input;
    return R::plan::micro_batches * training_flops(forward_flops_of<module, typename R::modules, input>, again);
  });
}

}  // namespace heddle
