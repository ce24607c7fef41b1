// SPDX-License-Identifier: Apache-2.0
#define HEDDLE_COMPILED_KERNELS template
#include "compiled_kernels.hpp"
