// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/plan/explain.hpp>
#include <heddle/plan/traffic_classes.hpp>
#include <string>
#include <utility>
#include <vector>

/// Stages from the first to the last of each pair.
using stage_ranges = std::vector<std::pair<std::size_t, std::size_t>>;

/// A collective with the stages whose first ranks all send it alike.
struct answered_collective {
  heddle::explained_collective what;
  stage_ranges stages;
};

/// A parameter with the stages that hold it.
struct answered_parameter {
  heddle::parameter_entry entry;
  bool shared = false;
  stage_ranges stages;
  std::vector<std::string> names;  ///< of a tied one, as each end calls it
};

/// An op, and the ops that read its output.
struct answered_op {
  heddle::op_facts op;
  stage_ranges stages;
  std::vector<std::size_t> readers;  ///< positions in `ops`
};

/// A plan's facts, worked out and merged over the stages that have them in common.
struct answer {
  explicit answer(heddle::plan_facts const& facts);

  heddle::plan_facts const& plan;
  std::vector<answered_collective> collectives;
  std::vector<answered_parameter> parameters;
  std::vector<answered_op> ops;
  std::vector<heddle::traffic_classes> traffic;  ///< by kind of stage
  std::size_t fullest = 0;                       ///< the stage whose ranks need most memory

  /// The collectives in which the parameter, or its gradient, takes part.
  [[nodiscard]] std::vector<answered_collective> of_parameter(answered_parameter const& parameter) const;
  /// Those of the op's output and cotangents, and those with which its readers fetch it.
  [[nodiscard]] std::vector<answered_collective> of_op(answered_op const& op) const;
  /// "every stage", "stage 0", "stages 1–62".
  [[nodiscard]] std::string stages_text(stage_ranges const& stages) const;
};

/// The whole report; the collectives with numbered reasons; one parameter; one activation.
std::string report_text(answer const& a);
std::string why_text(answer const& a);
std::string parameter_text(answer const& a, answered_parameter const& p);
std::string op_text(answer const& a, answered_op const& o);

/// All of it as JSON; `request` is JSON too, and a part of it.
std::string json_text(answer const& a, char const* request);
