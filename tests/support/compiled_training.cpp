// SPDX-License-Identifier: Apache-2.0
#define HEDDLE_COMPILED_TRAINING template
#include "compiled_training.hpp"
