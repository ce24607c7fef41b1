// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace heddle::comm::detail {

/// Where the buffers of a communicator lie that stands before another one: where those of `C` do, if it says so.
template <class C>
struct inner_memory {};
template <class C>
requires requires { typename C::memory; }
struct inner_memory<C> {
  using memory = typename C::memory;
};

}  // namespace heddle::comm::detail
