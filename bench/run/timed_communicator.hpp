// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/comm/communicator.hpp>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "timed_backend.hpp"

namespace bench {

/// An operation under way; the time in `wait` counts as `what`.
template <class Handle>
class timed_handle {
 public:
  timed_handle() = default;
  timed_handle(Handle inner, primitive what) : inner_(std::move(inner)), what_(what) {}
  void wait() {
    stopwatch const time(what_);
    inner_.wait();
  }
  [[nodiscard]] bool done() const { return inner_.done(); }

 private:
  Handle inner_;
  primitive what_ = primitive::transfers;
};

/// A communicator with a stopwatch around each call. What a trainer does beside its computation is asynchronous:
/// gathers of parameters, and reductions of gradients in buckets; the time that it waits for either is a row of its
/// own. All that blocks (a module's own transfers, the step's last sums), and a pipeline's sends, are another row.
template <heddle::comm::Communicator C>
class timed_communicator {
  using reduction = heddle::comm::reduction;

 public:
  using handle = timed_handle<typename C::handle>;
  static constexpr bool gathers_rows = heddle::comm::GathersRows<C>;
  static constexpr bool reduces_pieces = heddle::comm::ReducesPieces<C>;

  explicit timed_communicator(C inner) : inner_(std::move(inner)) {}

  [[nodiscard]] std::size_t rank() const { return inner_.rank(); }
  [[nodiscard]] std::size_t size() const { return inner_.size(); }
  [[nodiscard]] std::string_view name() const { return inner_.name(); }
  [[nodiscard]] heddle::comm::communication_counters counters() const { return inner_.counters(); }

  template <class T>
  void all_reduce(std::span<T> data, reduction how = reduction::sum) {
    stopwatch const time(primitive::transfers);
    inner_.all_reduce(data, how);
  }
  template <class T>
  [[nodiscard]] handle all_reduce_async(std::span<T> data, reduction how = reduction::sum) {
    stopwatch const time(primitive::starting);
    return {inner_.all_reduce_async(data, how), primitive::buckets};
  }
  template <class T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, reduction how = reduction::sum) {
    stopwatch const time(primitive::transfers);
    inner_.reduce_scatter(in, out, how);
  }
  template <class T>
  [[nodiscard]] handle reduce_scatter_async(std::span<std::type_identity_t<T> const> in, std::span<T> out,
                                            reduction how = reduction::sum) {
    stopwatch const time(primitive::starting);
    return {inner_.reduce_scatter_async(in, out, how), primitive::buckets};
  }
  template <class T>
  void all_reduce(heddle::comm::pieces<T> data, reduction how = reduction::sum) {
    stopwatch const time(primitive::transfers);
    inner_.all_reduce(data, how);
  }
  template <class T>
  [[nodiscard]] handle all_reduce_async(heddle::comm::pieces<T> data, reduction how = reduction::sum) {
    stopwatch const time(primitive::starting);
    return {inner_.all_reduce_async(data, how), primitive::buckets};
  }
  template <class T>
  [[nodiscard]] handle reduce_scatter_async(std::span<std::type_identity_t<T> const> in, heddle::comm::pieces<T> out,
                                            reduction how = reduction::sum) {
    stopwatch const time(primitive::starting);
    return {inner_.reduce_scatter_async(in, out, how), primitive::buckets};
  }
  template <class T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    stopwatch const time(primitive::transfers);
    inner_.all_gather(in, out);
  }
  template <class T>
  [[nodiscard]] handle all_gather_async(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    stopwatch const time(primitive::starting);
    return {inner_.all_gather_async(in, out), primitive::gathers};
  }
  template <class T>
  void all_gather(heddle::comm::gather_parts<T> parts) {
    stopwatch const time(primitive::transfers);
    inner_.all_gather(parts);
  }
  template <class T>
  [[nodiscard]] handle all_gather_async(heddle::comm::gather_parts<T> parts) {
    stopwatch const time(primitive::starting);
    return {inner_.all_gather_async(parts), primitive::gathers};
  }
  template <class T>
  void all_to_all(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    stopwatch const time(primitive::transfers);
    inner_.all_to_all(in, out);
  }
  template <class T>
  [[nodiscard]] handle all_to_all_async(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    stopwatch const time(primitive::starting);
    return {inner_.all_to_all_async(in, out), primitive::transfers};
  }
  template <class T>
  void all_to_all(std::span<std::type_identity_t<T> const> in, std::span<std::size_t const> send_counts,
                  std::span<T> out, std::span<std::size_t const> receive_counts) {
    stopwatch const time(primitive::transfers);
    inner_.all_to_all(in, send_counts, out, receive_counts);
  }
  template <class T>
  [[nodiscard]] handle all_to_all_async(std::span<std::type_identity_t<T> const> in,
                                        std::span<std::size_t const> send_counts, std::span<T> out,
                                        std::span<std::size_t const> receive_counts) {
    stopwatch const time(primitive::starting);
    return {inner_.all_to_all_async(in, send_counts, out, receive_counts), primitive::transfers};
  }
  template <class T>
  void broadcast(std::span<T> data, std::size_t root) {
    stopwatch const time(primitive::transfers);
    inner_.broadcast(data, root);
  }
  template <class T>
  [[nodiscard]] handle broadcast_async(std::span<T> data, std::size_t root) {
    stopwatch const time(primitive::starting);
    return {inner_.broadcast_async(data, root), primitive::transfers};
  }
  void barrier() {
    stopwatch const time(primitive::transfers);
    inner_.barrier();
  }
  template <class T>
  void send(std::span<T> data, std::size_t destination) {
    stopwatch const time(primitive::transfers);
    inner_.send(data, destination);
  }
  template <class T>
  [[nodiscard]] handle send_async(std::span<T> data, std::size_t destination) {
    stopwatch const time(primitive::starting);
    return {inner_.send_async(data, destination), primitive::transfers};
  }
  template <class T>
  void receive(std::span<T> data, std::size_t source) {
    stopwatch const time(primitive::transfers);
    inner_.receive(data, source);
  }
  template <class T>
  [[nodiscard]] handle receive_async(std::span<T> data, std::size_t source) {
    stopwatch const time(primitive::starting);
    return {inner_.receive_async(data, source), primitive::transfers};
  }
  [[nodiscard]] timed_communicator split(std::size_t color, std::size_t key, std::string_view label = {}) {
    return timed_communicator(inner_.split(color, key, label));
  }
  [[nodiscard]] timed_communicator subset(std::span<std::size_t const> members, std::string_view label = {}) {
    return timed_communicator(inner_.subset(members, label));
  }

 private:
  C inner_;
};

}  // namespace bench
