// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <heddle/train/metrics.hpp>
#include <optional>
#include <string>
#include <vector>

/// What a run writes while it trains: a line at intervals, or a record for each step that a progress bar is drawn from;
/// metrics.csv; and at the end loss.svg. One rank writes.
class run_log {
 public:
  using clock = std::chrono::steady_clock;

  /// Makes `folder`. Lines come at steps 0, 1, 2, 5, … of the interval that fits `steps`, and at least every ten
  /// seconds.
  run_log(std::string folder, std::string title, std::uint64_t steps, std::uint64_t tokens_per_step, bool records);

  /// A validation that takes long goes on: `done` of its `windows` took `seconds`.
  static void validating(std::size_t done, std::size_t windows, double seconds);
  /// The loss on validation text before step `step`; the time it took is no training time.
  void validated(std::uint64_t step, double loss, std::string const& on);
  /// Training goes on: what passed since the last step is not training.
  void resume() { since_ = clock::now(); }
  /// A training step that has just ended; one that was skipped has no gradient norm.
  void stepped(std::uint64_t step, double loss, std::optional<double> gradient_norm, double learning_rate);
  /// Its gradients overflowed at this loss scale, and nothing was updated.
  static void skipped(std::uint64_t step, double loss_scale);
  /// No step comes any more: a progress bar is done.
  void trained() const;
  /// All has ended: writes the last row and loss.svg, and the speed over all steps.
  void finish();

  [[nodiscard]] std::string path(char const* name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
  std::string title_;
  std::uint64_t steps_;
  std::uint64_t tokens_per_step_;
  bool records_;
  std::uint64_t interval_ = 1;
  std::uint64_t done_ = 0;
  heddle::metrics_file metrics_;
  std::vector<heddle::metrics_row> rows_;
  std::optional<double> validation_;
  std::uint64_t validation_step_ = 0;
  clock::time_point since_{};
  double seconds_ = 0;
  double line_seconds_ = 0;  ///< training time and steps at the last line
  std::uint64_t line_done_ = 0;
};

/// "validated 256 of 1024 windows  1:30 left", at the pace so far.
std::string validation_progress(std::size_t done, std::size_t windows, double seconds);

/// A Ctrl-C, or a request to end, has come. The second one ends the program at once.
bool interrupted();
void catch_interrupts();
