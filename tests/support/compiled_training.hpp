// SPDX-License-Identifier: Apache-2.0
#pragma once
// What executes a step on thread ranks with AdamW: it knows neither the model nor the plan, and is nine tenths of what
// a program that trains consists of. compiled_training.cpp holds it once.
#include <heddle/heddle.hpp>

#include "compiled_kernels.hpp"

#ifndef HEDDLE_COMPILED_TRAINING
#define HEDDLE_COMPILED_TRAINING extern template
#endif

namespace heddle {
#define HEDDLE_TRAINING_OF(...)                                                                                \
  HEDDLE_COMPILED_TRAINING class gradient_reducer<comm::thread_communicator, element_types<__VA_ARGS__>>;      \
  HEDDLE_COMPILED_TRAINING class parameter_store<comm::thread_communicator, element_types<__VA_ARGS__>, adamw, \
                                                 host_backend>;                                                \
  HEDDLE_COMPILED_TRAINING class stage_runner<element_types<__VA_ARGS__>, adamw, host_backend,                 \
                                              comm::thread_communicator>;
#define HEDDLE_MOVING_OF(T)                                                               \
  HEDDLE_COMPILED_TRAINING class redistributions_in_flight<comm::thread_communicator, T>; \
  HEDDLE_COMPILED_TRAINING class parameter_gatherer<comm::thread_communicator, T>;        \
  HEDDLE_COMPILED_TRAINING class step_context<T, host_backend, comm::thread_communicator>;
HEDDLE_COMPILED_TRAINING class process_groups<comm::thread_communicator>;
HEDDLE_MOVING_OF(float)
HEDDLE_MOVING_OF(double)
HEDDLE_MOVING_OF(host::bfloat16)
HEDDLE_MOVING_OF(host::float16)
HEDDLE_TRAINING_OF(float, float, float, float)
HEDDLE_TRAINING_OF(double, double, double, double)
HEDDLE_TRAINING_OF(host::bfloat16, host::bfloat16, host::bfloat16, float)
HEDDLE_TRAINING_OF(host::bfloat16, float, host::bfloat16, float)
HEDDLE_TRAINING_OF(host::float16, float, host::float16, float)
#undef HEDDLE_TRAINING_OF
#undef HEDDLE_MOVING_OF
}  // namespace heddle
