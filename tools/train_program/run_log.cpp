// SPDX-License-Identifier: Apache-2.0
#include "run_log.hpp"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <heddle/detail/text_table.hpp>
#include <heddle/error.hpp>
#include <heddle/train/loss_svg.hpp>
#include <system_error>

namespace {

volatile std::sig_atomic_t stop_signal = 0;

extern "C" void remember_signal(int number) {
  stop_signal = number;
  std::signal(number, SIG_DFL);
}

std::string make_folder(std::string const& folder) {
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  if (fault || !std::filesystem::is_directory(folder))
    throw heddle::error("--out: '" + folder + "' cannot be made (" + (fault ? fault.message() : "it is a file") +
                        "); name a folder that may be written");
  return folder;
}

/// 1, 2, 5, 10, 20, …: about fifty lines for a run.
std::uint64_t line_interval(std::uint64_t steps) {
  std::uint64_t interval = 1;
  for (unsigned i = 0; steps / interval > 50; ++i) interval = i % 3 == 1 ? interval / 2 * 5 : interval * 2;
  return interval;
}

std::string duration(double seconds) {
  auto const whole = static_cast<std::uint64_t>(seconds + 0.5);
  char text[32];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%d:%02d:%02d", static_cast<int>(whole / 3600), static_cast<int>(whole / 60 % 60),
                  static_cast<int>(whole % 60));
  else
    std::snprintf(text, sizeof text, "%d:%02d", static_cast<int>(whole / 60), static_cast<int>(whole % 60));
  return text;
}

std::string rate(double tokens_per_second) {
  return heddle::detail::grouped_digits(static_cast<std::uint64_t>(tokens_per_second + 0.5)) + " tokens/s";
}

}  // namespace

bool interrupted() { return stop_signal != 0; }
void catch_interrupts() {
  std::signal(SIGINT, remember_signal);
  std::signal(SIGTERM, remember_signal);
}

run_log::run_log(std::string folder, std::string title, std::uint64_t steps, std::uint64_t tokens_per_step,
                 bool records)
    : folder_(make_folder(folder)),
      title_(std::move(title)),
      steps_(steps),
      tokens_per_step_(tokens_per_step),
      records_(records),
      interval_(line_interval(steps)),
      metrics_(path("metrics.csv")) {}

std::string validation_progress(std::size_t done, std::size_t windows, double seconds) {
  std::string out = "validated " + std::to_string(done) + " of " + std::to_string(windows) + " windows";
  if (done > 0)
    out += "  " + duration(seconds / static_cast<double>(done) * static_cast<double>(windows - done)) + " left";
  return out;
}

void run_log::validating(std::size_t done, std::size_t windows, double seconds) {
  std::printf("%s\n", validation_progress(done, windows, seconds).c_str());
  std::fflush(stdout);
}

void run_log::validated(std::uint64_t step, double loss, std::string const& on) {
  validation_ = loss;
  validation_step_ = step;
  std::printf("step %-7llu validation loss %.4f on %s\n", static_cast<unsigned long long>(step), loss, on.c_str());
  std::fflush(stdout);
}

void run_log::skipped(std::uint64_t step, double loss_scale) {
  std::printf("step %llu is skipped: gradients overflowed at a loss scale of %g\n",
              static_cast<unsigned long long>(step), loss_scale);
  std::fflush(stdout);
}

void run_log::stepped(std::uint64_t step, double loss, std::optional<double> gradient_norm, double learning_rate) {
  auto const now = clock::now();
  double const seconds = std::chrono::duration<double>(now - since_).count();
  since_ = now;
  seconds_ += seconds;
  done_ = step + 1;
  double const tokens = static_cast<double>(tokens_per_step_);
  heddle::metrics_row row{step, done_ * tokens_per_step_, loss, {}, gradient_norm, learning_rate, tokens / seconds};
  if (validation_ && validation_step_ == step) row.validation_loss = validation_;
  metrics_.write(row);
  rows_.push_back(row);
  double const left = seconds_ / static_cast<double>(done_) * static_cast<double>(steps_ - done_);
  if (records_) {
    std::printf("\036%llu %llu %.4f %.0f %s\n", static_cast<unsigned long long>(done_),
                static_cast<unsigned long long>(steps_), loss, static_cast<double>(done_) * tokens / seconds_,
                duration(left).c_str());
    std::fflush(stdout);
    return;
  }
  double const passed = seconds_ - line_seconds_;
  if (step % interval_ != 0 && done_ != steps_ && passed < 10) return;
  double const speed = static_cast<double>(done_ - line_done_) * tokens / passed;
  std::printf("step %-7llu loss %.4f  %s  %s left\n", static_cast<unsigned long long>(step), loss, rate(speed).c_str(),
              duration(left).c_str());
  std::fflush(stdout);
  line_seconds_ = seconds_;
  line_done_ = done_;
}

void run_log::trained() const {
  if (records_) std::printf("\036end\n");
}

void run_log::finish() {
  if (validation_) {
    heddle::metrics_row const row{validation_step_, done_ * tokens_per_step_, {}, validation_};
    metrics_.write(row);
    rows_.push_back(row);
  }
  heddle::write_loss_svg(path("loss.svg"), rows_, title_);
  if (done_ > 0)
    std::printf("%s tokens in %s of training: %s\n", heddle::detail::grouped_digits(done_ * tokens_per_step_).c_str(),
                duration(seconds_).c_str(), rate(static_cast<double>(done_ * tokens_per_step_) / seconds_).c_str());
  std::fflush(stdout);
}
