// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

#include <heddle/comm/errors.hpp>

namespace heddle::comm::detail {

enum class failure_kind : std::uint8_t { rank, mismatch, left, timeout, conflict, other };

/// What ended a run. The first one stays.
struct run_failure {
  failure_kind kind = failure_kind::other;
  std::size_t rank = 0;
  std::string text{};
  std::exception_ptr cause{};
};

/// As the error of its kind; with the exception that was its cause, for who has joined the ranks.
[[noreturn, gnu::cold]] inline void throw_as_error(run_failure const& failure, bool with_cause = false) {
  switch (failure.kind) {
    case failure_kind::rank:
      throw rank_failed(failure.text, failure.rank, with_cause ? failure.cause : nullptr);
    case failure_kind::mismatch:
      throw call_mismatch(failure.text);
    case failure_kind::left:
      throw rank_left(failure.text);
    case failure_kind::timeout:
      throw operation_timeout(failure.text);
    case failure_kind::conflict:
      throw order_conflict(failure.text);
    case failure_kind::other:
      break;
  }
  throw communication_error(failure.text);
}

}  // namespace heddle::comm::detail
