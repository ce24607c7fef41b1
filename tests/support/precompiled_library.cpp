// SPDX-License-Identifier: Apache-2.0
// What the examples are compiled after, as the tests are after precompiled.cpp; each still includes what it uses. Cases
// of tests/reject that read most of the library, too.
#include "compiled_training.hpp"
