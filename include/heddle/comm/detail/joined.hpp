// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include <heddle/comm/reduction.hpp>
#include <heddle/detail/host_device.hpp>

namespace heddle::comm::detail {

/// Two elements, joined: what every communicator computes, on the host and on devices.
template <reduction How, class A>
HEDDLE_HOST_DEVICE constexpr A joined(A a, A b) {
  if constexpr (How == reduction::sum && std::is_integral_v<A>) {
    using wrapping = std::make_unsigned_t<A>;  // where a sum with a sign would be undefined
    return static_cast<A>(static_cast<wrapping>(a) + static_cast<wrapping>(b));
  } else if constexpr (How == reduction::sum) {
    return static_cast<A>(a + b);
  } else if constexpr (How == reduction::max) {
    return (a < b || b != b) ? b : a;  // b != b: a NaN wins
  } else {
    return (b < a || b != b) ? b : a;
  }
}

}  // namespace heddle::comm::detail
