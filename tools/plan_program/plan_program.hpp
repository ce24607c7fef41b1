// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/attention.hpp>
#include <heddle/plan/plan_facts.hpp>
#include <heddle/tensor/no_scratch.hpp>

/// What placed modules ask a backend at compile time, and nothing that computes: so memory is the host backend's, and
/// no kernel of it is compiled.
struct host_sizes : heddle::host::attentions, heddle::no_scratch {};

/// A plan's program: shows its facts as the options ask (docs/reference/plan-tool.md). `request` is the question as
/// JSON text; it becomes a part of the answer. Returns the exit status.
int show_plan(int argc, char** argv, heddle::plan_facts const& plan, char const* request);
