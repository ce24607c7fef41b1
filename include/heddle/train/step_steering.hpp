// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <heddle/comm/reduction.hpp>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/plan/stage_traffic.hpp>
#include <heddle/precision/loss_scale.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/tensor/process_groups.hpp>
#include <heddle/tensor/step_numbers.hpp>
#include <heddle/train/stage_interface.hpp>
#include <span>
#include <string>

namespace heddle {

/// A rank's `step_numbers` in the backend's memory, from what the host says of a call to what it reads at its end.
template <class Backend, class Communicator>
class step_steering {
  using memory = typename Backend::memory;

 public:
  explicit step_steering(process_groups<Communicator>& comm) : comm_(&comm), numbers_(1) {}

  [[nodiscard]] step_numbers* data() const { return numbers_.data(); }
  [[nodiscard]] std::size_t bytes() const { return numbers_.bytes(); }

  /// At a call's begin. All sums begin as they are given, and the count of updates goes on.
  void begin(step_numbers given) {
    given.updates = numbers_.host()->updates;
    *numbers_.host() = given;
    numbers_.upload();
  }
  [[nodiscard]] double* squared_norm() const { return sum_at(0); }
  [[nodiscard]] double* loss() const { return sum_at(1); }

  /// The divisor of the loss, known before the first backward, and what backward begins with: `axes` are those along
  /// which ranks have tokens of their own.
  void count_targets(unsigned axes) {
    add_up(axes, offsetof(step_numbers, count), 1);
    Backend::seed_step(data());
  }
  /// Adds up what each rank has left in the three sums of a step, and decides.
  void decide() {
    add_up(comm_->all_axes(), 0, step_scalars);
    Backend::decide_step(data());
  }
  /// Of calls that do not train: whether ranks agree; and the loss.
  void agree() { add_up(comm_->all_axes(), offsetof(step_numbers, agreement), 1); }
  void agree_and_sum_loss() { add_up(comm_->all_axes(), offsetof(step_numbers, loss), 2); }

  /// What has become of them; all that was asked for before is done then.
  step_numbers const& read() const {
    numbers_.download();
    return *numbers_.host();
  }
  /// Of an update that the host makes by these numbers, after `read`.
  step_numbers const& count_update() {
    ++numbers_.host()->updates;
    return *numbers_.host();
  }

 private:
  static_assert(offsetof(step_numbers, squared_norm) == 0 && offsetof(step_numbers, loss) == sizeof(double) &&
                offsetof(step_numbers, agreement) == 2 * sizeof(double) && step_scalars == 3);
  [[nodiscard]] double* sum_at(std::size_t number) const { return reinterpret_cast<double*>(data()) + number; }
  void add_up(unsigned axes, std::size_t from_byte, std::size_t n) {
    comm_->all_reduce(axes, std::span<double>(sum_at(from_byte / sizeof(double)), n), comm::reduction::sum);
  }

  process_groups<Communicator>* comm_;
  typename memory::template mirror<step_numbers> numbers_;
};

namespace detail {

/// What a step came to, and the loss scale's next state; an error where ranks do not agree, or the step may not be
/// skipped. Whether skipped or refused, the numbers say so, and nothing was updated.
inline step_result conclude(step_numbers const& now, std::uint64_t step, double learning_rate,
                            loss_scale_policy const& policy, loss_scale_state& scale) {
  if (now.agreement != 0)
    throw error(joined_text(
        {"trainer: at step ", step,
         " ranks were given different learning rates or loss scales, or ranks that share sequences different tokens or "
         "targets; parameters are unchanged; the rate of this rank is ",
         learning_rate, ", its loss scale ", scale.scale,
         ": give all ranks one rate and one state of the loss scale, and fill the batches of ranks with the same "
         "data_rank() alike"}));
  step_result result;
  result.loss = {now.loss, now.count};
  result.gradient_norm = now.gradient_norm;
  result.loss_scale = scale.scale;
  // A smaller scale cures no loss.
  result.skipped = now.skips != 0 && std::isfinite(now.loss) && policy.adapts() && scale.scale > policy.least;
  if (now.skips != 0 && !result.skipped)
    throw error(joined_text(
        {"trainer: at step ", step, " the loss is ", result.loss.mean(), " and the gradient norm ",
         result.gradient_norm,
         policy.adapts() || scale.scale != 1 ? joined_text({", with a loss scale of ", scale.scale}) : std::string(),
         "; parameters are unchanged; lower the learning rate, clip, or check the data"}));
  scale = after_step(policy, scale, result.skipped);
  return result;
}

}  // namespace detail

}  // namespace heddle
