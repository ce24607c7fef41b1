// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <heddle/backend/host.hpp>
#include <heddle/comm/threads.hpp>
#include <heddle/nn/named.hpp>
#include <heddle/nn/repeat.hpp>
#include <heddle/nn/residual.hpp>
#include <heddle/nn/sequential.hpp>
#include <heddle/plan/resolved.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/train/context.hpp>
#include <memory>
#include <span>

/// Any placed module with its types forgotten, so that one harness that is compiled once looks at all of them.
namespace heddle::testing {

/// The module on one rank.
class live_module {
 public:
  virtual ~live_module() = default;
  /// `x` is tokens or elements, as the module wants.
  virtual void forward(frame<double> const& f, void const* x, double* y) = 0;
  virtual void backward(frame<double> const& f, void const* x, double const* y, double const* dy, double* dx) = 0;
  /// With `base` added: only where the subject says that it adds.
  virtual void forward_onto(frame<double> const& f, double const* base, void const* x, double* y) = 0;
  virtual void backward_onto(frame<double> const& f, void const* x, double const* y, double const* dy,
                             double const* base, double* dx) = 0;
  virtual void redistribute(redistribution const& path, double const* in, double* out, double* scratch) = 0;
  virtual void set_targets(std::int32_t const* targets) = 0;
  /// Whether what follows is a step or an evaluation.
  virtual void set_training(bool training) = 0;
  [[nodiscard]] virtual coordinates const& at() const = 0;
};

struct subject {
  mesh_value mesh;
  dimension_list in, out, tokens;
  layout in_layout, out_layout, token_layout;
  bool reads_tokens = false;
  bool is_loss = false;
  bool needs_input = false, needs_output = false, in_place = false, identity_cotangent = false;
  bool adds_forward = false, adds_backward = false;
  bool gives_output_in_backward = false;  ///< of a step: a loss in chunks
  std::size_t saved = 0, forward_scratch = 0, backward_scratch = 0;
  std::span<parameter_use const> uses;
  /// Runs a function on each rank of the mesh.
  void (*on_ranks)(std::function<void(live_module&)> const&) = nullptr;
};

/// The seed and the step of every random mask here.
inline constexpr std::uint64_t mask_seed = 11, mask_step = 3;

template <class Plan, class Placed>
class live_module_of final : public live_module {
 public:
  explicit live_module_of(comm::thread_communicator& world) : mesh_(world), context_(mesh_, 1) {
    context_.begin_step(mask_seed, mask_step, true);
  }
  void forward(frame<double> const& f, void const* x, double* y) override {
    Placed::forward(context_, f, static_cast<input_type const*>(x), y);
  }
  void backward(frame<double> const& f, void const* x, double const* y, double const* dy, double* dx) override {
    Placed::backward(context_, f, static_cast<input_type const*>(x), y, dy, dx);
  }
  void forward_onto([[maybe_unused]] frame<double> const& f, [[maybe_unused]] double const* base,
                    [[maybe_unused]] void const* x, [[maybe_unused]] double* y) override {
    if constexpr (detail::AddsForward<Placed>)
      Placed::forward_onto(context_, f, base, static_cast<input_type const*>(x), y);
  }
  void backward_onto([[maybe_unused]] frame<double> const& f, [[maybe_unused]] void const* x,
                     [[maybe_unused]] double const* y, [[maybe_unused]] double const* dy,
                     [[maybe_unused]] double const* base, [[maybe_unused]] double* dx) override {
    if constexpr (detail::AddsBackward<Placed>)
      Placed::backward_onto(context_, f, static_cast<input_type const*>(x), y, dy, base, dx);
  }
  void redistribute(redistribution const& path, double const* in, double* out, double* scratch) override {
    heddle::redistribute(mesh_, path, in, out, scratch);
  }
  void set_targets(std::int32_t const* targets) override { context_.begin_micro_batch(0, targets); }
  void set_training(bool training) override { context_.begin_step(mask_seed, mask_step, training); }
  [[nodiscard]] coordinates const& at() const override { return mesh_.at(); }

  static constexpr bool reads_tokens = std::same_as<typename Placed::input, typename Plan::tokens>;

 private:
  using input_type = std::conditional_t<reads_tokens, std::int32_t, double>;
  mesh_communicator<typename Plan::mesh, comm::thread_communicator> mesh_;
  step_context<double, typename Plan::backend, comm::thread_communicator> context_;
};

/// Rows of the logits at a time; 0 where they are whole.
template <class Placed>
inline constexpr std::size_t logit_rows_of = [] {
  if constexpr (requires { Placed::logit_rows; })
    return Placed::logit_rows;
  else
    return std::size_t{0};
}();

/// `Module` under the rules on the mesh, for an input of the dimensions `Input`.
template <class Module, class Input, class Mesh, class Rules, class Tokens, std::size_t LogitBytes = 0,
          class Backend = host_backend>
subject const& subject_of() {
  using plan = module_plan<Mesh, Rules, double, padding<pad<vocab>>, Tokens, Backend, LogitBytes>;
  using here = placed<Module, plan, Input>;
  using live = live_module_of<plan, here>;
  static subject const result = {
      .mesh = Mesh::value,
      .in = plan::stored(Input::value),
      .out = plan::stored(here::output::value),
      .tokens = Tokens::value,
      .in_layout = here::input_layout,
      .out_layout = here::output_layout,
      .token_layout = plan::token_layout,
      .reads_tokens = live::reads_tokens,
      .is_loss = here::output::rank == 0,
      .needs_input = here::needs_input,
      .needs_output = here::needs_output,
      .in_place = here::in_place,
      .identity_cotangent = here::identity_cotangent,
      .adds_forward = detail::AddsForward<here>,
      .adds_backward = detail::AddsBackward<here>,
      .gives_output_in_backward = logit_rows_of<here> != 0,
      .saved = here::saved,
      .forward_scratch = here::forward_scratch,
      .backward_scratch = here::backward_scratch,
      .uses = here::uses,
      .on_ranks =
          [](std::function<void(live_module&)> const& work) {
            comm::run_threads(Mesh::size, [&](comm::thread_communicator& world) {
              live one(world);
              work(one);
            });
          },
  };
  return result;
}

}  // namespace heddle::testing
