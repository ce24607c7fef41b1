// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <exception>
#include <string>
#include <utility>

#include <heddle/error.hpp>

namespace heddle::comm {

/// Base of every error of a communicator. After the first one the whole run is over: every communicator of every rank
/// throws the same text at once.
class communication_error : public error {
 public:
  using error::error;
};

/// A rank left its function by an exception. The text names the first such rank and holds its text.
class rank_failed : public communication_error {
 public:
  rank_failed(std::string const& text, std::size_t rank, std::exception_ptr cause = nullptr)
      : communication_error(text), rank_(rank), cause_(std::move(cause)) {}

  /// The failing rank, counted in the whole run.
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  /// The exception itself. Set in what `run_threads` throws, null in what the other ranks see.
  [[nodiscard]] std::exception_ptr cause() const noexcept { return cause_; }

 private:
  std::size_t rank_;
  std::exception_ptr cause_;
};

/// Ranks made calls that do not belong together: another operation, count, element type, reduction or root, or another
/// order. The text holds both calls.
class call_mismatch : public communication_error {
 public:
  using communication_error::communication_error;
};

/// A rank waits for one that has returned from its function. The text holds the number of calls of both.
class rank_left : public communication_error {
 public:
  using communication_error::communication_error;
};

/// An operation did not end in time. The text names it, its communicator, and the ranks that had not arrived.
class operation_timeout : public communication_error {
 public:
  using communication_error::communication_error;
};

/// Ranks wait for each other in a circle: operations of several communicators, or transfers, in an order that cannot
/// end. The text holds every call of the circle.
class order_conflict : public communication_error {
 public:
  using communication_error::communication_error;
};

}  // namespace heddle::comm
