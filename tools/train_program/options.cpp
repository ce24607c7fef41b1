// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace {

CLI::Validator number(double least, double bound, std::string const& what) {
  return {[=](std::string const& text) {
            double value = 0;
            if (!CLI::detail::lexical_cast(text, value) || !(value >= least && value < bound))
              return "is '" + text + "'; it must be " + what;
            return std::string();
          },
          "NUMBER"};
}

/// A whole number in digits: the library reads -1 as 2^64 - 1, and more digits than fit as the most that does.
CLI::Validator whole_number() {
  return {[](std::string const& text) {
            bool const digits = !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789") == text.npos;
            if (!digits) return "is '" + text + "'; it must be a whole number from 0 to 10^18 - 1";
            return std::string();
          },
          "NUMBER"};
}

}  // namespace

std::optional<train_options> read_options(int argc, char** argv, std::string const& program, bool on_device,
                                          int& status) {
  train_options o;
  double const endless = HUGE_VAL;
  CLI::App app("Trains a language model under a plan that was compiled in.", program);
  app.add_option("--data", o.data, "text, or one prepared .bin; may be given several times")
      ->required()
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--steps", o.steps, "training steps")->check(whole_number())->capture_default_str();
  app.add_option("--seed", o.seed, "of weights, batches and the sample")->check(whole_number())->capture_default_str();
  app.add_option("--lr", o.learning_rate, "learning rate after the warm-up")
      ->check(number(0, endless, "a finite number of at least 0"))
      ->capture_default_str();
  auto* const warm_up =
      app.add_option("--warmup", o.warm_up, "steps of linear warm-up [100, or a tenth of the steps where that is less]")
          ->check(whole_number());
  auto* const floor = app.add_option("--min-lr", o.min_learning_rate, "learning rate at the end [a tenth of --lr]")
                          ->check(number(0, endless, "a finite number of at least 0"));
  app.add_option("--weight-decay", o.weight_decay, "of AdamW, on matrices and tables")
      ->check(number(0, endless, "a finite number of at least 0"))
      ->capture_default_str();
  app.add_option("--beta2", o.beta2, "of AdamW")
      ->check(number(0, 1, "a number of at least 0 and below 1"))
      ->capture_default_str();
  app.add_option("--clip", o.clip, "bound of the global gradient norm; 0: none")
      ->check(number(0, endless, "a finite number of at least 0"))
      ->capture_default_str();
  app.add_option("--eval-every", o.eval_every, "steps between validations; 0: only at the end")
      ->check(whole_number())
      ->capture_default_str();
  app.add_option("--sample", o.sample, "tokens of text written at the end")
      ->check(whole_number())
      ->capture_default_str();
  if (!on_device)
    app.add_option("--threads-per-rank", o.threads_per_rank, "threads that a rank computes with; changes no number")
        ->check(number(1, 1025, "a whole number from 1 to 1024"))
        ->capture_default_str();
  app.add_option("--out", o.out, "folder for metrics.csv, loss.svg, schedule.svg, trace.json")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_flag("--records", o.records, "write steps for a program that draws a progress bar");
  try {
    app.parse(argc, argv);
    if (warm_up->empty()) o.warm_up = std::min<std::uint64_t>(100, o.steps / 10);
    if (floor->empty()) o.min_learning_rate = o.learning_rate / 10;
    if (o.warm_up > o.steps)
      throw CLI::ValidationError(
          "--warmup", "is " + std::to_string(o.warm_up) + "; it must be at most --steps, " + std::to_string(o.steps));
    if (o.min_learning_rate > o.learning_rate)
      throw CLI::ValidationError("--min-lr", "is " + std::to_string(o.min_learning_rate) +
                                                 "; it must be at most --lr, " + std::to_string(o.learning_rate));
    status = 0;
    return o;
  } catch (CLI::ParseError const& e) {
    status = app.exit(e) == 0 ? 0 : 2;
    return std::nullopt;
  }
}
