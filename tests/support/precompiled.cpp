// SPDX-License-Identifier: Apache-2.0
// What the tests' programs are compiled after (tests/meson.build): reading it took a third of their time.
#include <doctest/doctest.h>

#include "compiled_training.hpp"
