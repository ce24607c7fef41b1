// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <heddle/detail/joined_text.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/train/agreement.hpp>
#include <heddle/train/context.hpp>
#include <heddle/train/parameter_store.hpp>
#include <heddle/train/stage_interface.hpp>
#include <heddle/train/stage_program.hpp>
#include <heddle/train/step_capture.hpp>
#include <heddle/train/step_steering.hpp>
#include <heddle/train/trace.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace heddle {

/// One rank's part of a training run: the arenas, the schedule's interpreter, the gradient reduction and the optimizer
/// around the specialised code of its stage.
template <class Elements, class Optimizer, class Backend, class Communicator>
class stage_runner final : public stage_interface<Elements, Optimizer> {
  using T = typename Elements::value;
  using logit = accumulation_t<T>;
  using program = stage_program<T, Backend, Communicator>;
  using store = parameter_store<Communicator, Elements, Optimizer, Backend>;
  using groups = process_groups<Communicator>;
  using direction = typename store::direction;
  using handle = typename Communicator::handle;
  static constexpr std::size_t slots = Optimizer::slots;
  using memory = typename Backend::memory;
  template <class U>
  using arena = typename memory::template arena<U>;
  static_assert(std::is_same_v<memory, memory_of<Communicator>>,
                "trainer<Model, Plan, Backend>: the ranks' communicator and 'Backend' must have one memory, since what "
                "modules compute is sent from where it lies; run the plan on ranks of that backend, or name theirs");

 public:
  using options = typename Optimizer::options;

  /// `p` is a constant of the plan: it outlives the runner.
  stage_runner(program const& p, groups& comm, std::uint64_t seed, trace_recorder* trace, bool captures)
      : p_(&p),
        comm_(&comm),
        context_(comm, p.micro_batches),
        trace_(trace),
        stage_index_(p.parameters->stages > 1 ? comm.at()[p.parameters->pipeline_axis] : 0),
        in_flight_(p.peak_in_flight(stage_index_)),
        output_gradients_(p.output_gradients(stage_index_)),
        activations_(in_flight_ * p.slot_elements),
        scratch_(output_gradients_ * p.output_gradient_elements + p.scratch_elements),
        store_(comm, *p.parameters, seed, scratch()),
        scale_(first_state(p.scale)),
        tokens_(2 * p.token_count),
        steering_(comm),
        capture_(captures, trace),
        sent_activation_(in_flight_),
        sent_gradient_(in_flight_) {
    if (captures)
      detail::check_capture(detail::Records<memory>, store::listed, comm.mesh_of_ranks().size(),
                            comm.mesh_of_ranks().axes);
    if (p.parameters->serves()) context_.serve(&store_);
    context_.find_step_in(&steering_.data()->random_step);
  }

  step_result step(std::int32_t const* tokens, std::int32_t const* targets, step_facts<options> const& facts) override {
    begin_call();
    take_tokens(tokens, targets);
    steering_.begin({.agreement = agreement_summand(facts.learning_rate, scale_.scale),
                     .count = counted_targets(),
                     .loss_scale = scale_.scale,
                     .clip = facts.clip,
                     .random_step = program::context::key_step(facts.step)});
    store_.update().begin_step(facts.optimizer, facts.learning_rate);
    step_result result;
    capture_.run([&] { take(facts, result); });
    if constexpr (store::listed) result = conclude(facts);
    midway_ = false;
    return result;
  }

  loss_sum evaluate(std::int32_t const* tokens, std::int32_t const* targets) override {
    begin_call();
    take_tokens(tokens, targets);
    steering_.begin({.agreement = agreement_summand(0, 0),
                     .count = counted_targets(),
                     .random_step = program::context::key_step(0)});
    count_targets();
    context_.begin_step(0, 0, false);
    for (std::size_t m = 0; m < p_->micro_batches; ++m) {
      forward_through(m, m % in_flight_);
      add_loss(m % in_flight_);
    }
    store_.release();
    finish_sends();
    steering_.agree_and_sum_loss();
    step_numbers const& totals = steering_.read();
    midway_ = false;
    check_alike(totals.agreement);
    if (!std::isfinite(totals.loss))
      throw error(detail::joined_text(
          {"trainer: the loss of an evaluation is ", totals.loss,
           "; the parameters, or the data, hold numbers that are not finite: lower the learning rate, or clip"}));
    return {totals.loss, totals.count};
  }

  /// The logits of the first micro-batch of the data rank, [micro_batch, context, vocabulary], on every rank.
  void logits(std::int32_t const* tokens, std::span<logit> out) override {
    begin_call();
    take_tokens(tokens, tokens);
    steering_.begin({.agreement = agreement_summand(0, 0), .random_step = program::context::key_step(0)});
    arena<T> const all(out.size());
    context_.begin_step(0, 0, false);
    if (p_->is_last) {
      context_.begin_micro_batch(0, targets_at(0));
      if (!p_->is_first) receive_activation(0);
      p_->logits(context_, frame_of_slot(0), tokens_at(0), slot_at(0) + p_->input, all.data(), out.size());
    } else {
      forward_through(0, 0);
      finish_sends();
    }
    store_.release();
    if (p_->parameters->stages > 1)
      pipeline().broadcast(std::span<T>(all.data(), all.size()), p_->parameters->stages - 1);
    if constexpr (std::is_same_v<T, logit>) {
      memory::to_host(static_cast<T const*>(all.data()), out.data(), out.size());
    } else {
      std::vector<T> narrow(out.size());
      memory::to_host(static_cast<T const*>(all.data()), narrow.data(), out.size());
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<logit>(narrow[i]);
    }
    steering_.agree();
    double const agreed = steering_.read().agreement;
    midway_ = false;
    check_alike(agreed);
  }

  [[nodiscard]] std::size_t parameter_count() const override { return p_->parameters->entry.size(); }
  [[nodiscard]] parameter_view<Elements> parameter(std::size_t n) override { return store_.view(n); }
  void take_values() override {
    begin_call();
    store_.take_values(scratch());
    midway_ = false;
  }
  [[nodiscard]] loss_scale_state loss_scale() const override { return scale_; }
  void set_loss_scale(loss_scale_state const& state) override { scale_ = state; }
  [[nodiscard]] std::array<typename Elements::master*, slots> optimizer_state(std::size_t n) override {
    return store_.state(n);
  }
  [[nodiscard]] memory_table allocated() const override {
    return {{store_.parameter_bytes(), store_.gathered_bytes(), store_.gradient_bytes(), store_.state_bytes(),
             store_.bucket_bytes(), activations_.bytes(), scratch_.bytes(), tokens_.bytes()}};
  }
  [[nodiscard]] std::size_t steering_bytes() const override { return steering_.bytes() + store_.update_bytes(); }
  [[nodiscard]] traffic_table sent() const override {
    traffic_table t{};
    auto const add = [&](std::size_t axis, comm::communication_counters const& counted) {
      for (std::size_t k = 0; k < comm::operation_count; ++k)
        t.add(axis, static_cast<comm::operation>(k), counted.of[k].calls, counted.of[k].bytes_sent);
    };
    for (std::size_t a = 0; a != comm_->mesh_of_ranks().axes; ++a) add(a, comm_->along(a).counters());
    if (store_.ends()) add(p_->parameters->pipeline_axis, store_.ends()->counters());
    return t;
  }

 private:
  /// What an exception ended midway has left buckets half filled and messages on their way.
  void begin_call() {
    if (midway_)
      throw error(
          "trainer: an exception ended an earlier call midway, so this rank's buckets and messages are those of "
          "another step; make a new trainer, on all ranks");
    midway_ = true;
  }
  static void check_alike(double agreed) {
    if (agreed != 0)
      throw error(
          "trainer: ranks that share sequences were given different tokens or targets; fill the batches of ranks with "
          "the same data_rank() alike");
  }
  void take_tokens(std::int32_t const* tokens, std::int32_t const* targets) {
    given_tokens_ = {tokens, p_->token_count};
    given_targets_ = {targets, p_->token_count};
    std::copy_n(tokens, p_->token_count, tokens_.host());
    std::copy_n(targets, p_->token_count, tokens_.host() + p_->token_count);
    tokens_.upload();
  }
  [[nodiscard]] std::int32_t const* tokens_at(std::size_t m) const {
    return tokens_.data() + m * p_->tokens_per_micro_batch;
  }
  [[nodiscard]] std::int32_t const* targets_at(std::size_t m) const {
    return tokens_.data() + p_->token_count + m * p_->tokens_per_micro_batch;
  }

  /// All that a step does between what it is given and what is read. Under a capture it runs once: what changes from
  /// step to step lies in `tokens_` and `steering_`.
  void take(step_facts<options> const& facts, step_result& result) {
    count_targets();
    store_.begin_step();
    backwards_ = 0;
    context_.begin_step(facts.seed, facts.step, true);
    auto const actions = p_->actions(stage_index_);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i + 1 < actions.size()) expect(actions[i], actions[i + 1]);
      perform(actions[i], facts, result);
    }
  }

  [[nodiscard]] double counted_targets() const {
    double counted = 0;
    for (std::int32_t const id : given_targets_) counted += id != ignored_target;
    return counted;
  }
  /// Over all ranks and micro-batches.
  void count_targets() {
    unsigned axes = 0;
    for (std::size_t a = 0; a != comm_->mesh_of_ranks().axes; ++a) axes |= p_->token_layout.is_split(a) ? 1U << a : 0U;
    steering_.count_targets(axes);
  }

  /// Whether this rank's loss enters the total: it is on the last stage, and the first of those with the same tokens.
  [[nodiscard]] bool owns_loss() const {
    if (!p_->is_last) return false;
    for (std::size_t a = 0; a != comm_->mesh_of_ranks().axes; ++a)
      if (a != p_->parameters->pipeline_axis && !p_->output_layout.is_partial(a) && comm_->at()[a] != 0) return false;
    return true;
  }
  /// Sums to 0 over all ranks if they step by one rate and scale, and those with the same sequences have the same ids.
  [[nodiscard]] double agreement_summand(double rate, double loss_scale) const {
    return detail::agreement_summand(comm_->mesh_of_ranks(), p_->token_layout, comm_->at(), {rate, loss_scale},
                                     given_tokens_, given_targets_);
  }

  [[nodiscard]] Communicator& pipeline() { return comm_->along(p_->parameters->pipeline_axis); }

  // Memory of a micro-batch.
  [[nodiscard]] T* slot_at(std::size_t s) const { return activations_.data() + s * p_->slot_elements; }
  [[nodiscard]] T* output_gradient(std::size_t s) const {
    return scratch_.data() + (output_gradients_ == 1 ? 0 : s) * p_->output_gradient_elements;
  }
  [[nodiscard]] T* scratch() const { return scratch_.data() + output_gradients_ * p_->output_gradient_elements; }
  [[nodiscard]] frame<T> frame_of_slot(std::size_t s) const {
    return {store_.values(), store_.gradients(), slot_at(s), scratch(), p_->first_site, 0, 0, false, store_.fresh()};
  }

  void perform(schedules::action const& a, step_facts<options> const& facts, step_result& result) {
    using kind = schedules::action_kind;
    step_span<memory> const span(
        trace_, schedules::name(a.kind),
        schedules::is_compute(a.kind) || schedules::is_send(a.kind) || schedules::is_receive(a.kind)
            ? static_cast<std::int64_t>(a.micro_batch)
            : trace_event::no_number);
    std::size_t const s = p_->slot_of(stage_index_, a.micro_batch);
    switch (a.kind) {
      case kind::receive_activation:
        receive_activation(s);
        return;
      case kind::forward:
        forward(a.micro_batch, s);
        return;
      case kind::send_activation:
        send_activation(s);
        return;
      case kind::receive_gradient:
        receive_gradient(s);
        return;
      case kind::backward:
        backward(a.micro_batch, s);
        return;
      case kind::send_gradient:
        send_gradient(s);
        return;
      case kind::reduce_gradients:
        store_.finish_reduction();
        return;
      case kind::step:
        update(facts, result);
        return;
      case kind::backward_input:
      case kind::backward_weight:
        return;  // refused by stage_program_of
    }
  }
  /// While this rank waits to receive, the first parameters of what it computes next may arrive.
  void expect(schedules::action const& now, schedules::action const& next) {
    using kind = schedules::action_kind;
    if (now.kind == kind::receive_activation && next.kind == kind::forward) store_.expect(direction::forward);
    if (now.kind == kind::receive_gradient && next.kind == kind::backward) store_.expect(direction::backward);
  }

  void receive_activation(std::size_t s) {
    if (!p_->is_first) pipeline().receive(std::span<T>(slot_at(s) + p_->input, p_->input_size), stage_index_ - 1);
  }
  void send_activation(std::size_t s) {
    if (!p_->is_last)
      sent_activation_[s] =
          pipeline().send_async(std::span<T const>(slot_at(s) + p_->output, p_->output_size), stage_index_ + 1);
  }
  void receive_gradient(std::size_t s) {
    if (!p_->is_last) pipeline().receive(std::span<T>(output_gradient(s), p_->output_size), stage_index_ + 1);
  }
  void send_gradient(std::size_t s) {
    if (!p_->is_first)
      sent_gradient_[s] =
          pipeline().send_async(std::span<T const>(slot_at(s) + p_->input_gradient, p_->input_size), stage_index_ - 1);
  }
  void finish_sends() {
    for (handle& h : sent_activation_) h.wait();
    for (handle& h : sent_gradient_) h.wait();
  }

  void forward(std::size_t m, std::size_t s) {
    sent_activation_[s].wait();
    context_.begin_micro_batch(m, targets_at(m));
    p_->forward(context_, frame_of_slot(s), tokens_at(m), slot_at(s) + p_->input, slot_at(s) + p_->output);
  }
  /// In training after backward, which may be what computes it (nn/chunked_loss.hpp).
  void add_loss(std::size_t s) {
    if (owns_loss())
      Backend::add_to_total(loss_value(static_cast<T const*>(slot_at(s) + p_->output)), steering_.loss());
  }
  void forward_through(std::size_t m, std::size_t s) {
    sent_activation_[s].wait();
    receive_activation(s);
    forward(m, s);
    send_activation(s);
  }
  void backward(std::size_t m, std::size_t s) {
    sent_gradient_[s].wait();
    context_.begin_micro_batch(m, targets_at(m));
    store_.begin_backward(++backwards_ == p_->micro_batches);
    if (p_->is_last)
      memory::copy(static_cast<double const*>(&steering_.data()->seed_gradient), loss_value(output_gradient(s)), 1);
    T* const slot = slot_at(s);
    p_->backward(context_, frame_of_slot(s), tokens_at(m), slot + p_->input, slot + p_->output, output_gradient(s),
                 slot + p_->input_gradient);
    add_loss(s);
  }

  void update(step_facts<options> const& facts, step_result& result) {
    store_.release();
    finish_sends();
    store_.add_squared_norm(steering_.squared_norm());
    steering_.decide();
    if constexpr (store::listed) {
      store_.update().run(steering_.data());
    } else {
      result = conclude(facts);
      if (result.skipped) return;
      midway_ = true;
      step_numbers const& now = steering_.count_update();
      store_.update().run(facts.optimizer, update_facts{static_cast<std::size_t>(now.updates), facts.learning_rate,
                                                        now.gradient_scale, false});
    }
  }
  /// Where nothing is on its way, and nothing half changed: what is refused here may be followed by another step.
  step_result conclude(step_facts<options> const& facts) {
    step_numbers const& now = steering_.read();
    midway_ = false;
    return detail::conclude(now, facts.step, facts.learning_rate, p_->scale, scale_);
  }

  program const* p_;
  groups* comm_;
  typename program::context context_;
  trace_recorder* trace_;
  std::size_t stage_index_;
  std::size_t in_flight_;
  std::size_t output_gradients_;
  arena<T> activations_;
  arena<T> scratch_;
  store store_;
  loss_scale_state scale_;
  typename memory::template mirror<std::int32_t> tokens_;
  step_steering<Backend, Communicator> steering_;
  step_capture<memory> capture_;
  std::span<std::int32_t const> given_tokens_;   ///< of the call, where the caller has them
  std::span<std::int32_t const> given_targets_;  ///< likewise
  std::vector<handle> sent_activation_;
  std::vector<handle> sent_gradient_;
  bool midway_ = false;        ///< in a call, or one was not ended
  std::size_t backwards_ = 0;  ///< of this step
};

}  // namespace heddle
