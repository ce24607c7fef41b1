// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/detail/joined_text.hpp>
#include <heddle/models/model_concepts.hpp>
#include <heddle/plan/legality.hpp>
#include <heddle/plan/memory_limit.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/train/batch_of_plan.hpp>
#include <heddle/train/sampler.hpp>
#include <heddle/train/stage_runner.hpp>
#include <heddle/train/trainer_options.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace heddle {

/// Trains `Model` under `PlanType` on this rank. Construction and every call are collective: all ranks of the mesh make
/// the same calls with the same options.
///
/// Tokens and targets of a call are this data rank's sequences, [micro_batches, micro_batch_size, context] ids; local
/// sequence i is sequence `global_sequence(i)` of the step's global batch. Targets equal to `ignored_target` count
/// nowhere; a step in which no target counts has loss 0 and gradients of zero, and still counts as a step (weight decay
/// applies).
///
/// **Errors.** heddle::error for ids outside the vocabulary, wrong lengths, a batch of another plan, options that mean
/// nothing or differ between ranks, a step's rate, its loss scale or shared ids that differ, a loss scale that the
/// plan's precision does not have, losses that are not finite, and gradients that are not (under a dynamic loss scale
/// only at its lower bound: above it the step is skipped); whatever leaves one rank's function ends all ranks. After an
/// exception from inside a module a trainer takes no further call.
template <class Model, class PlanType, class Backend>
class basic_trainer {
  static_assert(LanguageModel<Model>,
                "trainer<Model, Plan>: 'Model' must be a language model; give it module, context and vocabulary");
  static_assert(Plan<PlanType>, "trainer<Model, Plan>: 'Plan' must be a plan; derive it from heddle::plan<...>");
  static_assert(ComputesIn<Backend, PlanType::precision_value.compute>,
                "trainer<Model, Plan, Backend>: 'Backend' must have a type 'tfloat32_products' where the plan's "
                "precision computes in tf32, since its products would be those of fp32; give it the backend whose "
                "products round their operands, or take a precision without tf32");
  static_assert(StoresIn<Backend, PlanType::precision_value.storage>,
                "trainer<Model, Plan, Backend>: 'Backend' must have a template 'element<dtype>' where the plan's "
                "precision stores 16 bits, since it has to compute with such numbers; give it their types, or take a "
                "precision that stores fp32 or fp64");
  using R = resolved<Model, PlanType, Backend>;
  static_assert(sizeof(legal<R>) > 0);
  static_assert(within_memory<R>::value);
  using partition = stage_partition<R>;
  using optimizer_type = typename PlanType::optimizer_type;

 public:
  using elements = typename R::elements;
  using element = typename R::element;
  /// Of `logits`: wide enough to compute with.
  using logit = accumulation_t<element>;
  using optimizer_options = typename optimizer_type::options;
  using options = trainer_options<optimizer_options>;

  static constexpr std::size_t micro_batches = PlanType::micro_batches;
  static constexpr std::size_t micro_batch_size = PlanType::micro_batch_size;
  static constexpr std::size_t global_batch_size = PlanType::global_batch_size;
  static constexpr std::size_t context = Model::context;
  /// Sequences, and tokens, that this rank passes to a call.
  static constexpr std::size_t local_sequences = micro_batches * micro_batch_size;
  static constexpr std::size_t local_tokens = local_sequences * context;

  /// `rank` is what `run` passes; it must outlive the trainer.
  template <class Communicator>
  explicit basic_trainer(mesh_communicator<typename R::mesh, Communicator>& rank, options const& o = {})
      : at_(rank.at()), options_(o) {
    detail::check_options<optimizer_type>(o);
    detail::check_agreement<optimizer_type>(rank, o);
    detail::with_stage_kind<R>(partition::stage_of(at_), [&](auto kind) {
      stage_ = std::make_unique<stage_runner<elements, optimizer_type, typename R::backend, Communicator>>(
          stage_program_of<R, decltype(kind)::value, Communicator>::value, rank, o.seed, o.trace, o.capture);
      return 0;
    });
  }

  /// Which of the data ranks this is: ranks with the same number are given the same sequences.
  [[nodiscard]] std::size_t data_rank() const { return data_rank_of<PlanType>(at_); }
  /// How a step's global batch is dealt out.
  [[nodiscard]] static constexpr batch_shape shape() { return batch_shape_of<PlanType>; }
  /// The place of local sequence i in the global batch of a step.
  [[nodiscard]] std::size_t global_sequence(std::size_t i) const {
    return shape().first_sequence(i / micro_batch_size, data_rank()) + i % micro_batch_size;
  }

  /// One training step on a filled batch, or on raw ids; at the options' learning rate, or at a given one.
  step_result step(token_batch const& b) { return step(b, options_.learning_rate); }
  step_result step(token_batch const& b, double learning_rate) {
    check(b);
    return step(b.tokens(), b.targets(), learning_rate);
  }
  loss_sum evaluate(token_batch const& b) {
    check(b);
    return evaluate(b.tokens(), b.targets());
  }

  step_result step(std::span<std::int32_t const> tokens, std::span<std::int32_t const> targets) {
    return step(tokens, targets, options_.learning_rate);
  }
  step_result step(std::span<std::int32_t const> tokens, std::span<std::int32_t const> targets, double learning_rate) {
    static_assert(
        count_all_parameters<R>().trained != 0,
        "trainer<Model, Plan>::step: 'Model' must have a parameter that is trained; take frozen<...> off what "
        "is to be trained, or call evaluate and logits alone");
    detail::check_learning_rate(learning_rate);
    check(tokens, targets);
    step_result const result = stage_->step(tokens.data(), targets.data(),
                                            {options_.seed, step_, learning_rate, options_.clip, options_.optimizer});
    ++step_;
    return result;
  }

  /// The loss without training: no dropout, nothing changes.
  loss_sum evaluate(std::span<std::int32_t const> tokens, std::span<std::int32_t const> targets) {
    check(tokens, targets);
    return stage_->evaluate(tokens.data(), targets.data());
  }

  /// Logits of this data rank's first micro-batch, [micro_batch_size, context, vocabulary], on every rank.
  std::vector<logit> logits(std::span<std::int32_t const> tokens) {
    check(tokens, tokens);
    std::vector<logit> out(micro_batch_size * context * Model::vocabulary);
    stage_->logits(tokens.data(), out);
    return out;
  }

  /// After values were written through `parameter(n).value`, on all ranks: a master weight becomes what was written,
  /// and not the other way round at the next step.
  void take_values() { stage_->take_values(); }
  /// The state of the loss scale: part of what a run continues from. The counts of steps and of the optimizer's updates
  /// begin at 0 with each trainer, and cannot be set: a run continues to the bit in the trainer that began it alone.
  [[nodiscard]] loss_scale_state loss_scale() const { return stage_->loss_scale(); }
  /// Continues from a state that `loss_scale` gave, the same on all ranks: the next step says where it is not.
  void set_loss_scale(loss_scale_state const& state) {
    detail::check_loss_scale(PlanType::precision_value.scale, state);
    stage_->set_loss_scale(state);
  }

  /// Steps taken, those that were skipped included.
  [[nodiscard]] std::uint64_t steps() const { return step_; }
  /// Bytes that this rank holds, by category: equal to the plan's constants.
  [[nodiscard]] memory_table allocated() const { return stage_->allocated(); }
  /// Beside those, where the backend computes: a step's numbers, and the optimizer's list of parameters.
  [[nodiscard]] std::size_t steering_bytes() const { return stage_->steering_bytes(); }
  /// What this rank has sent since its communicators were made, as they counted it.
  [[nodiscard]] traffic_table sent() const { return stage_->sent(); }

  /// This rank's parameters, one by one.
  [[nodiscard]] std::size_t parameter_count() const { return stage_->parameter_count(); }
  [[nodiscard]] parameter_view<elements> parameter(std::size_t n) { return stage_->parameter(n); }
  /// The optimizer's state of one: this rank's part, in the layout `entry->state_rest`.
  [[nodiscard]] auto optimizer_state(std::size_t n) { return stage_->optimizer_state(n); }

 private:
  /// The number of tokens does not say it: a batch of another shape has the wrong sequences.
  void check(token_batch const& b) const {
    auto const text = [](batch_shape const& s, std::size_t tokens) {
      return detail::joined_text({s.micro_batches, " micro-batches × ", s.rows, " sequences × ", tokens,
                                  " tokens for each of ", s.data_ranks, " data ranks"});
    };
    if (!(b.shape() == shape() && b.context() == context))
      throw error(detail::joined_text({"trainer: a batch must have ", text(shape(), context), ", and has ",
                                       text(b.shape(), b.context()),
                                       "; make it with shape() of this trainer and its model's context"}));
  }
  void check(std::span<std::int32_t const> tokens, std::span<std::int32_t const> targets) const {
    if (tokens.size() != local_tokens || targets.size() != local_tokens)
      throw error(detail::joined_text(
          {"trainer: a call takes ", local_tokens, " tokens and as many targets, and was given ", tokens.size(),
           " and ", targets.size(), "; pass micro_batches × micro_batch_size × context ids of this data rank"}));
    using reader = typename detail::first_module<typename Model::module>::type;
    using loss = typename detail::last_module<typename Model::module>::type;
    Backend::check_tokens(tokens.data(), tokens.size(), detail::identities_of<reader>(Model::vocabulary));
    Backend::check_targets(targets.data(), targets.size(), detail::identities_of<loss>(Model::vocabulary),
                           ignored_target);
  }

  coordinates at_;
  options options_;
  std::unique_ptr<stage_interface<elements, optimizer_type>> stage_;
  std::uint64_t step_ = 0;
};

}  // namespace heddle
