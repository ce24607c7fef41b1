// SPDX-License-Identifier: Apache-2.0
#include "../../tools/train_program/run_log.hpp"

#include <doctest/doctest.h>

TEST_CASE("a long validation says how long it takes yet, at its pace so far") {
  CHECK(validation_progress(256, 1024, 30) == "validated 256 of 1024 windows  1:30 left");
  CHECK(validation_progress(1, 3601, 2) == "validated 1 of 3601 windows  2:00:00 left");
  CHECK(validation_progress(0, 1024, 30) == "validated 0 of 1024 windows");
}
