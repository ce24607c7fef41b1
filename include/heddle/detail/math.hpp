// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace heddle::detail {

/// √x for constant evaluation, by Newton's iteration; x >= 0. Exact to the last bit or two.
constexpr double square_root(double x) {
  if (!(x > 0)) return 0;
  double root = x > 1 ? x : 1;
  for (double next = (root + x / root) / 2; next < root; next = (root + x / root) / 2) root = next;
  return root;
}

}  // namespace heddle::detail
