// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <heddle/detail/number_text.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/plan/stage_traffic.hpp>
#include <heddle/tensor/arena.hpp>
#include <heddle/train/agreement.hpp>
#include <heddle/train/context.hpp>
#include <heddle/train/parameter_store.hpp>
#include <heddle/train/stage_interface.hpp>
#include <heddle/train/trace.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// The specialised code of one stage kind: arenas, forward and backward of a micro-batch, the schedule's interpreter,
/// the gradient reduction and the optimizer.
template <class R, stage_kind Kind, class Communicator>
class stage_runner final : public stage_interface<R> {
  using memory = stage_memory<R, Kind>;
  using partition = stage_partition<R>;
  using parameters = stage_parameters<R, Kind>;
  using stage = typename memory::stage;
  using table = schedule_of<R>;
  using optimizer_type = typename R::plan::optimizer_type;
  using backend = typename R::backend;
  using mesh_comm = mesh_communicator<typename R::mesh, Communicator>;
  using store = parameter_store<R, Kind, Communicator>;
  using direction = typename store::direction;
  using handle = typename Communicator::handle;
  static constexpr mesh_value mesh = R::mesh::value;
  static constexpr std::size_t slots = optimizer_type::slots;
  static constexpr std::size_t tokens_per_micro_batch = local_size(mesh, R::tokens::value, R::token_layout);

 public:
  using element = typename R::element;
  using options = typename optimizer_type::options;

  stage_runner(mesh_comm& comm, std::uint64_t seed, trace_recorder* trace)
      : comm_(&comm),
        context_(comm, R::plan::micro_batches),
        trace_(trace),
        stage_index_(partition::stage_of(comm.at())),
        in_flight_(table::peak_in_flight(stage_index_)),
        store_(comm, seed),
        output_gradients_(output_gradients_of<R>(stage_index_)),
        activations_(in_flight_ * memory::slot_elements),
        scratch_(output_gradients_ * memory::output_gradient_elements + memory::scratch_elements),
        tokens_(2 * memory::token_count),
        sent_activation_(in_flight_),
        sent_gradient_(in_flight_) {
    if constexpr (store::serves) context_.serve(&store_);
  }

  step_result step(std::int32_t const* tokens, std::int32_t const* targets, step_facts<options> const& facts) override {
    take_tokens(tokens, targets);
    store_.clear_gradients();
    backwards_ = 0;
    step_result result;
    result.loss.count = count_targets();
    seed_gradient_ = result.loss.count > 0 ? 1 / result.loss.count : 0;
    loss_ = 0;
    context_.begin_step(facts.seed, facts.step, true);
    auto const actions = table::actions(stage_index_);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i + 1 < actions.size()) expect(actions[i], actions[i + 1]);
      perform(actions[i], facts, result);
    }
    return result;
  }

  loss_sum evaluate(std::int32_t const* tokens, std::int32_t const* targets) override {
    take_tokens(tokens, targets);
    loss_sum result;
    result.count = count_targets();
    loss_ = 0;
    context_.begin_step(0, 0, false);
    for (std::size_t m = 0; m < R::plan::micro_batches; ++m) forward_through(m, m % in_flight_);
    finish_sends();
    double totals[2] = {owns_loss() ? loss_ : 0, agreement(0)};
    comm_->all_reduce((1U << mesh.axes) - 1U, std::span<double>(totals), comm::reduction::sum);
    if (totals[1] != 0)
      throw error(
          "trainer: ranks that share sequences were given different tokens or targets to evaluate; fill the "
          "batches of ranks with the same data_rank() alike");
    result.sum = totals[0];
    return result;
  }

  /// The logits of the first micro-batch of the data rank, [micro_batch, context, vocabulary], on every rank.
  void logits(std::int32_t const* tokens, std::span<element> out) override {
    take_tokens(tokens, tokens);
    context_.begin_step(0, 0, false);
    context_.begin_micro_batch(0, targets_at(0));
    if constexpr (memory::is_last) {
      using head = placed<typename detail::without_last<typename partition::template module<Kind>>::type,
                          typename R::modules, typename stage::input>;
      using vocabulary_dims = typename head::output;
      constexpr dimension_list d = R::stored(vocabulary_dims::value);
      if (std::size_t const real = d.dim[d.rank - 1].size; real != R::model::vocabulary)
        throw error("trainer: the model's 'vocabulary' is " + std::to_string(R::model::vocabulary) +
                    ", but the module before its loss gives rows of " + std::to_string(real) +
                    "; give both the same size to ask for logits");
      // As tokens lie: this rank's own sequences, also where the vocabulary has taken an axis from the batch.
      constexpr redistribution path = find_redistribution(mesh, d, head::output_layout, R::token_layout);
      std::vector<element> saved(head::saved + head::forward_scratch + path.from_size + path.to_size +
                                 redistribution_scratch(mesh, path));
      element* const work = saved.data() + head::saved;
      element* const mine = work + head::forward_scratch;
      element* const all = mine + path.from_size;
      frame<element> f = frame_at(saved.data(), work);
      if constexpr (memory::is_first) {
        head::forward(context_, f, tokens_at(0), mine);
      } else {
        element* const x = slot_at(0) + memory::input;
        comm_->along(partition::axis).receive(std::span<element>(x, memory::input_size), stage_index_ - 1);
        head::forward(context_, f, static_cast<element const*>(x), mine);
      }
      context_.redistribute(path, static_cast<element const*>(mine), all, all + path.to_size);
      drop_padding(all, d, out);
    } else {
      forward_through(0, 0);
      finish_sends();
    }
    if constexpr (partition::stages > 1) comm_->along(partition::axis).broadcast(out, partition::stages - 1);
  }

  [[nodiscard]] std::size_t parameter_count() const override { return parameters::count; }
  [[nodiscard]] parameter_view<element> parameter(std::size_t n) override { return store_.view(n); }
  [[nodiscard]] std::array<element*, slots> optimizer_state(std::size_t n) override { return store_.state(n); }
  [[nodiscard]] memory_table allocated() const override {
    return {{store_.parameter_bytes(), store_.gathered_bytes(), store_.gradient_bytes(), store_.state_bytes(),
             store_.bucket_bytes(), activations_.bytes(), scratch_.bytes(), tokens_.bytes()}};
  }
  [[nodiscard]] traffic_table sent() const override {
    traffic_table t{};
    auto const add = [&](std::size_t axis, comm::communication_counters const& counted) {
      for (std::size_t k = 0; k < comm::operation_count; ++k)
        t.add(axis, static_cast<comm::operation>(k), counted.of[k].calls, counted.of[k].bytes_sent);
    };
    for (std::size_t a = 0; a != mesh.axes; ++a) add(a, comm_->along(a).counters());
    if (store_.ends()) add(partition::axis, store_.ends()->counters());
    return t;
  }

 private:
  void take_tokens(std::int32_t const* tokens, std::int32_t const* targets) {
    std::memcpy(tokens_.data(), tokens, memory::token_count * sizeof(std::int32_t));
    std::memcpy(tokens_.data() + memory::token_count, targets, memory::token_count * sizeof(std::int32_t));
  }
  [[nodiscard]] std::int32_t const* tokens_at(std::size_t m) const {
    return tokens_.data() + m * tokens_per_micro_batch;
  }
  [[nodiscard]] std::int32_t const* targets_at(std::size_t m) const {
    return tokens_.data() + memory::token_count + m * tokens_per_micro_batch;
  }

  /// Counted targets over all ranks and micro-batches: the divisor of the loss, known before the first backward.
  double count_targets() {
    double count = 0;
    for (std::size_t i = 0; i < memory::token_count; ++i)
      count += tokens_.data()[memory::token_count + i] != ignored_target;
    unsigned axes = 0;
    for (std::size_t a = 0; a != mesh.axes; ++a) axes |= R::token_layout.is_split(a) ? 1U << a : 0U;
    comm_->all_reduce(axes, std::span<double>(&count, 1), comm::reduction::sum);
    return count;
  }

  /// Whether this rank's loss enters the total: it is on the last stage, and the first of those with the same tokens.
  [[nodiscard]] bool owns_loss() const {
    if constexpr (!memory::is_last) return false;
    for (std::size_t a = 0; a != mesh.axes; ++a)
      if (a != partition::axis && !stage::output_layout.is_partial(a) && comm_->at()[a] != 0) return false;
    return true;
  }
  /// Sums to 0 over all ranks if they step by one rate, and those with the same sequences were given the same ids.
  [[nodiscard]] double agreement(double rate) const {
    return detail::agreement_summand(mesh, R::token_layout, comm_->at(), rate, {tokens_.data(), memory::token_count},
                                     {tokens_.data() + memory::token_count, memory::token_count});
  }

  // Memory of a micro-batch.
  [[nodiscard]] element* slot_at(std::size_t s) const { return activations_.data() + s * memory::slot_elements; }
  [[nodiscard]] element* output_gradient(std::size_t s) const {
    return scratch_.data() + (output_gradients_ == 1 ? 0 : s) * memory::output_gradient_elements;
  }
  [[nodiscard]] element* scratch() const {
    return scratch_.data() + output_gradients_ * memory::output_gradient_elements;
  }
  [[nodiscard]] frame<element> frame_at(element* saved, element* scratch) const {
    return {store_.values(), store_.gradients(), saved, scratch, partition::template first_site<Kind>(), 0};
  }
  [[nodiscard]] frame<element> frame_of_slot(std::size_t s) const { return frame_at(slot_at(s), scratch()); }

  void perform(schedules::action const& a, step_facts<options> const& facts, step_result& result) {
    using kind = schedules::action_kind;
    trace_span const span(trace_, schedules::name(a.kind),
                          schedules::is_compute(a.kind) || schedules::is_send(a.kind) || schedules::is_receive(a.kind)
                              ? static_cast<std::int64_t>(a.micro_batch)
                              : trace_event::no_number);
    std::size_t const s = table::slot_of(stage_index_, a.micro_batch, a.chunk);
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
        return;  // refused below
    }
  }
  static constexpr bool splits_backward = [] {
    for (std::size_t p = 0; p < partition::stages; ++p)
      for (schedules::action const& a : table::actions(p))
        if (a.kind == schedules::action_kind::backward_input || a.kind == schedules::action_kind::backward_weight)
          return true;
    return false;
  }();
  static_assert(!splits_backward,
                "trainer<Model, Plan>: the schedule must run whole backwards, since modules do not split theirs; emit "
                "backward instead of backward_input and backward_weight");
  static_assert(table::chunks == 1,
                "trainer<Model, Plan>: the schedule must have one chunk per stage, since a stage holds one stretch of "
                "layers; use a schedule that does not interleave");

  /// While this rank waits to receive, the first parameters of what it computes next may arrive.
  void expect(schedules::action const& now, schedules::action const& next) {
    using kind = schedules::action_kind;
    if (now.kind == kind::receive_activation && next.kind == kind::forward) store_.expect(direction::forward);
    if (now.kind == kind::receive_gradient && next.kind == kind::backward) store_.expect(direction::backward);
  }

  void receive_activation(std::size_t s) {
    if constexpr (!memory::is_first)
      comm_->along(partition::axis)
          .receive(std::span<element>(slot_at(s) + memory::input, memory::input_size), stage_index_ - 1);
  }
  void send_activation(std::size_t s) {
    if constexpr (!memory::is_last)
      sent_activation_[s] =
          comm_->along(partition::axis)
              .send_async(std::span<element const>(slot_at(s) + memory::output, memory::output_size), stage_index_ + 1);
  }
  void receive_gradient([[maybe_unused]] std::size_t s) {
    if constexpr (!memory::is_last)
      comm_->along(partition::axis)
          .receive(std::span<element>(output_gradient(s), memory::output_size), stage_index_ + 1);
  }
  void send_gradient(std::size_t s) {
    if constexpr (!memory::is_first)
      sent_gradient_[s] =
          comm_->along(partition::axis)
              .send_async(std::span<element const>(slot_at(s) + memory::input_gradient, memory::input_size),
                          stage_index_ - 1);
  }
  void finish_sends() {
    for (handle& h : sent_activation_) h.wait();
    for (handle& h : sent_gradient_) h.wait();
  }

  void forward(std::size_t m, std::size_t s) {
    sent_activation_[s].wait();
    context_.begin_micro_batch(m, targets_at(m));
    element* const y = slot_at(s) + memory::output;
    if constexpr (memory::is_first)
      stage::forward(context_, frame_of_slot(s), tokens_at(m), y);
    else
      stage::forward(context_, frame_of_slot(s), static_cast<element const*>(slot_at(s) + memory::input), y);
    if constexpr (memory::is_last) loss_ += static_cast<double>(*y);
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
    store_.begin_backward(++backwards_ == R::plan::micro_batches);
    if constexpr (memory::is_last) *output_gradient(s) = static_cast<element>(seed_gradient_);
    element const* const y = slot_at(s) + memory::output;
    element const* const dy = output_gradient(s);
    if constexpr (memory::is_first)
      stage::backward(context_, frame_of_slot(s), tokens_at(m), y, dy, static_cast<element*>(nullptr));
    else
      stage::backward(context_, frame_of_slot(s), static_cast<element const*>(slot_at(s) + memory::input), y, dy,
                      slot_at(s) + memory::input_gradient);
  }

  void update(step_facts<options> const& facts, step_result& result) {
    finish_sends();
    double totals[step_scalars] = {store_.squared_norm(), owns_loss() ? loss_ : 0, agreement(facts.learning_rate)};
    comm_->all_reduce((1U << mesh.axes) - 1U, std::span<double>(totals, step_scalars), comm::reduction::sum);
    if (totals[2] != 0)
      throw error("trainer: at step " + std::to_string(facts.step) +
                  " ranks were given different learning rates, or ranks that share sequences different tokens or "
                  "targets; parameters are unchanged; the rate of this rank is " +
                  detail::number_text(facts.learning_rate) +
                  ": give all ranks one rate, and fill the batches of ranks with the same data_rank() alike");
    result.gradient_norm = std::sqrt(totals[0]);
    result.loss.sum = totals[1];
    if (!std::isfinite(result.gradient_norm) || !std::isfinite(result.loss.sum))
      throw error("trainer: at step " + std::to_string(facts.step) + " the loss is " +
                  std::to_string(result.loss.mean()) + " and the gradient norm " +
                  std::to_string(result.gradient_norm) +
                  "; parameters are unchanged; lower the learning rate, clip, or check the data");
    bool const too_long = facts.clip > 0 && result.gradient_norm > facts.clip;
    double const scale = too_long ? facts.clip / result.gradient_norm : 1;
    store_.update(facts.optimizer,
                  update_facts{static_cast<std::size_t>(facts.step) + 1, facts.learning_rate, scale, false}, scratch());
  }

  /// Gathered logits have the stored vocabulary; users see the real one.
  static void drop_padding(element const* from, dimension_list const& d, std::span<element> out) {
    auto const& last = d.dim[d.rank - 1];
    for (std::size_t row = 0; row * last.size < out.size(); ++row)
      std::memcpy(out.data() + row * last.size, from + row * last.stored, last.size * sizeof(element));
  }

  mesh_comm* comm_;
  step_context<typename R::modules, Communicator> context_;
  trace_recorder* trace_;
  std::size_t stage_index_;
  std::size_t in_flight_;
  store store_;
  std::size_t output_gradients_;
  arena<element> activations_;
  arena<element> scratch_;
  arena<std::int32_t> tokens_;
  std::vector<handle> sent_activation_;
  std::vector<handle> sent_gradient_;
  std::size_t backwards_ = 0;  ///< of this step
  double loss_ = 0;
  double seed_gradient_ = 0;
};

}  // namespace heddle
