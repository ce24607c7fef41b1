// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <heddle/nn/op.hpp>

namespace heddle {

/// A block repeated along the dimension `Layers`, which the rules may split: a pipeline stage then holds its share of
/// the layers. The parameters of all copies are stacked: a parameter of the block gets `Layers` as its leading
/// dimension. The block is instantiated once, whatever the depth.
template <class Layers, class Block>
struct repeat {};

template <class Layers, class Block, class Plan, class Input>
struct placed<repeat<Layers, Block>, Plan, Input> {
  using block = placed<Block, Plan, Input>;
  using element = typename Plan::element;
  using input = Input;
  using output = Input;
  static_assert(
      std::same_as<typename block::output, Input>,
      "repeat<Layers, Block>: the output of 'Block' must have the dimensions of its input; make the block end "
      "where it began");

  static constexpr mesh_value mesh = Plan::mesh::value;
  static constexpr dimension_list layer_dims = {1, {{Layers::value}}};
  static constexpr layout layer_layout = place(mesh, Plan::rules::value, layer_dims);
  static constexpr std::size_t local_layers = Layers::size / ways_of(mesh, layer_layout, Layers::value.name);

  static constexpr layout input_layout = block::input_layout;
  static constexpr layout output_layout = block::output_layout;
  static constexpr std::size_t size = local_size(mesh, Plan::stored(Input::value), input_layout);

  static constexpr auto uses = [] {
    auto stacked = block::uses;
    for (auto& u : stacked) {
      dimension_list d = layer_dims;
      for (std::size_t k = 0; k < u.dims.rank; ++k) d.append(u.dims.dim[k]);
      u.dims = d;
      u.stacked = true;
      for (std::size_t a = 0; a != mesh.axes; ++a)
        if (layer_layout.is_split(a)) {
          u.compute.axis[a] = layer_layout.axis[a];
          u.gradient.axis[a] = layer_layout.axis[a];
        }
    }
    return stacked;
  }();
  static constexpr std::array<parameter_unit, uses.size() == 0 ? 0 : 1> units = [] {
    std::array<parameter_unit, uses.size() == 0 ? 0 : 1> one{};
    if constexpr (uses.size() != 0) one[0] = {0, uses.size(), local_layers, detail::goes_back_under<Plan>};
    return one;
  }();
  static constexpr bool needs_input = block::needs_input;
  static constexpr bool needs_output = block::needs_output;
  static constexpr bool in_place = false;
  static constexpr bool identity_cotangent = false;
  static constexpr std::size_t sites = block::sites;

  // The values between layers are kept where the block's backward reads them; otherwise two areas alternate.
  static constexpr bool keeps_values = block::needs_input || block::needs_output;
  static constexpr std::size_t between = slot<element>(size);
  static constexpr std::size_t saved_values = keeps_values ? (local_layers - 1) * between : 0;
  static constexpr std::size_t saved = saved_values + local_layers * block::saved;
  static constexpr std::size_t areas = local_layers > 2 ? 2 : local_layers - 1;
  static constexpr std::size_t forward_scratch = (keeps_values ? 0 : areas * between) + block::forward_scratch;
  static constexpr std::size_t backward_scratch = areas * between + block::backward_scratch;

  template <class Context>
  static void forward(Context& c, frame<element> const& f, element const* x, element* y) {
    element* const work = f.scratch + (keeps_values ? 0 : areas * between);
    element const* from = x;
    for (std::size_t layer = 0; layer < local_layers; ++layer) {
      element* const to = layer + 1 == local_layers ? y : value_after(f, layer);
      if constexpr (use_count != 0)
        if (!f.asked) c.before_forward(f.use, layer);
      layer_frame const here(c, f, layer, work);
      block::forward(c, here.get(), from, to);
      from = to;
    }
  }

  template <class Context>
  static void backward(Context& c, frame<element> const& f, element const* x, element const* y, element const* dy,
                       element* dx) {
    element* const work = f.scratch + areas * between;
    element const* d_from = dy;
    for (std::size_t layer = local_layers; layer-- > 0;) {
      element* const d_to = layer == 0 ? dx : f.scratch + layer % 2 * (areas - 1) * between;
      element const* const block_x = layer == 0 ? x : value_after(f, layer - 1);
      element const* const block_y = layer + 1 == local_layers ? y : value_after(f, layer);
      if constexpr (use_count != 0)
        if (!f.asked) c.before_backward(f.use, layer);
      layer_frame const here(c, f, layer, work);
      block::backward(c, here.get(), block_x, block_y, d_from, d_to);
      if constexpr (use_count != 0)
        if (!f.asked) c.after_backward(f.use, layer);
      d_from = d_to;
    }
  }

  static constexpr void count_forward(traffic_table& t, coordinates const& at) {
    traffic_table one{};
    block::count_forward(one, at);
    t.add(one, local_layers);
  }
  static constexpr void count_backward(traffic_table& t, coordinates const& at) {
    traffic_table one{};
    block::count_backward(one, at);
    t.add(one, local_layers);
  }

 private:
  static element* value_after(frame<element> const& f, std::size_t layer) {
    return keeps_values ? f.saved + layer * between : f.scratch + layer % 2 * (areas == 2 ? 1 : 0) * between;
  }

  static constexpr std::size_t use_count = block::uses.size();
  static constexpr std::array<std::size_t, use_count> stride = [] {
    std::array<std::size_t, use_count> s{};
    for (std::size_t k = 0; k < use_count; ++k) s[k] = local_size(mesh, block::uses[k].dims, block::uses[k].compute);
    return s;
  }();

  /// The frame of one layer: its slice of every stacked parameter, its saved memory, its global number.
  class layer_frame {
   public:
    template <class Context>
    layer_frame(Context const& c, frame<element> const& f, std::size_t layer, element* work) : frame_(f) {
      for (std::size_t k = 0; k < use_count; ++k) {
        // What was brought for this layer alone stands where the pointer leads.
        parameter_[k] = f.parameter[k] + (f.asked ? layer : c.parameter_slot(f.use + k, layer)) * stride[k];
        if (block::uses[k].trainable)
          gradient_[k] = f.gradient[k] + (f.asked ? layer : c.gradient_slot(f.use + k, layer)) * stride[k];
      }
      frame_.asked = true;
      frame_.parameter = parameter_.data();
      frame_.gradient = gradient_.data();
      frame_.saved = f.saved + saved_values + layer * block::saved;
      frame_.scratch = work;
      frame_.layer =
          f.layer * Layers::size + local_layers * block_of(mesh, layer_layout, Layers::value.name, c.at()) + layer;
    }
    layer_frame(layer_frame const&) = delete;
    layer_frame& operator=(layer_frame const&) = delete;
    [[nodiscard]] frame<element> const& get() const { return frame_; }

   private:
    std::array<element const*, use_count> parameter_{};
    std::array<element*, use_count> gradient_{};
    frame<element> frame_;
  };
};

}  // namespace heddle
