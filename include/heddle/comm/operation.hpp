// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

namespace heddle::comm {

/// What a communicator can be asked to do; blocking and asynchronous forms are one operation.
enum class operation : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  send,
  receive,
  barrier,
  split
};

inline constexpr std::size_t operation_count = 9;

/// The name used in messages and traces: that of the member function.
[[nodiscard]] constexpr char const* name_of(operation op) {
  switch (op) {
    case operation::all_reduce:
      return "all_reduce";
    case operation::reduce_scatter:
      return "reduce_scatter";
    case operation::all_gather:
      return "all_gather";
    case operation::all_to_all:
      return "all_to_all";
    case operation::broadcast:
      return "broadcast";
    case operation::send:
      return "send";
    case operation::receive:
      return "receive";
    case operation::barrier:
      return "barrier";
    case operation::split:
      return "split";
  }
  return "unknown";
}

}  // namespace heddle::comm
