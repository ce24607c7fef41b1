// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What a run of the train program is told.
struct train_options {
  std::vector<std::string> data;
  std::uint64_t steps = 2000;
  std::uint64_t seed = 1;
  double learning_rate = 1e-3;
  std::uint64_t warm_up = 0;
  double min_learning_rate = 0;
  double weight_decay = 0.1;
  double beta2 = 0.99;
  double clip = 1;
  std::uint64_t eval_every = 250;
  std::size_t sample = 200;
  std::size_t threads_per_rank = 1;
  std::string out = "out";
  bool records = false;  ///< step lines for tools/train_program/progress.py
};

/// Reads the command line. Nothing where the program is to end: help was printed, or a fault, and `status` says which.
/// On a device a rank has no threads to compute with, and the option for them is not there.
std::optional<train_options> read_options(int argc, char** argv, std::string const& program, bool on_device,
                                          int& status);
