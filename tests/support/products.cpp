// SPDX-License-Identifier: Apache-2.0
#define HEDDLE_PRODUCTS template
#include "products.hpp"
