// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "subject.hpp"

/// What is asked of every module: its backward is the adjoint of its forward (central differences), and under any mesh
/// and rules it computes what it does on one rank. All values are functions of global element indices.
namespace heddle::testing {

/// What a module gave, whole: the values of all ranks put together.
struct outcome {
  std::vector<double> y, dx;
  std::vector<std::vector<double>> gradient;  ///< by parameter use, after the reduction
  std::string fault;                          ///< what went wrong beside the numbers; empty if nothing
};

/// Forward and backward on all ranks, in memory that is poisoned before each.
outcome run(subject const& s);

/// Checks the module on one rank against central differences: every element of the input and of every parameter.
void check_gradients(subject const& one_rank);

/// Checks that a module under a plan gives what it gives on one rank.
void check_same(subject const& one_rank, subject const& parallel, char const* where);

/// Checks that a module whose parameters are frozen, under a plan, gives what it gives on one rank where they are not,
/// and leaves their gradients alone.
void check_frozen(subject const& one_rank, subject const& frozen, char const* where);

}  // namespace heddle::testing
