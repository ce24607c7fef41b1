// SPDX-License-Identifier: Apache-2.0
// The same of the programs that run the device backend on the host.
#include <doctest/doctest.h>

#include <heddle/backend/cuda.hpp>
#include <heddle/cuda/run.hpp>

#include "compiled_training.hpp"
