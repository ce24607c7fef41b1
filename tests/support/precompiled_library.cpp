// SPDX-License-Identifier: Apache-2.0
// What the examples are compiled after, as the tests are after precompiled.cpp; each still includes what it uses.
#include <heddle/heddle.hpp>

#include "products.hpp"
