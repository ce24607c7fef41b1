// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/comm/communicator.hpp>
#include <heddle/comm/detail/inner_memory.hpp>

namespace heddle::comm {

/// One call as a `recording` communicator saw it. `count` is the elements of the longer side (`traffic.hpp`); `peer` is
/// the root, the destination or the source, and 0 where there is none.
struct recorded_call {
  operation op = operation::barrier;
  std::size_t count = 0;
  element_kind kind = element_kind::byte;
  std::string group{};
  std::size_t peer = 0;
  bool asynchronous = false;
  bool joins = false;  ///< the one before it, as a part of the same call

  [[nodiscard]] friend bool operator==(recorded_call const&, recorded_call const&) = default;
};

/// A communicator that records the calls of its rank, before passing them on: to compare ranks, or a step with its
/// plan. What `split` and `subset` make records into the same list.
template <Communicator C>
class recording : public detail::inner_memory<C> {
 public:
  using handle = typename C::handle;
  static constexpr bool gathers_rows = GathersRows<C>;
  static constexpr bool reduces_pieces = ReducesPieces<C>;

  explicit recording(C inner) : recording(std::move(inner), std::make_shared<list>()) {}

  [[nodiscard]] std::size_t rank() const { return inner_.rank(); }
  [[nodiscard]] std::size_t size() const { return inner_.size(); }
  [[nodiscard]] std::string_view name() const { return inner_.name(); }
  [[nodiscard]] communication_counters counters() const { return inner_.counters(); }

  /// The calls so far, in order, of this communicator and all that were made from it or that it was made from.
  [[nodiscard]] std::vector<recorded_call> calls() const {
    std::lock_guard lock(list_->mutex);
    return list_->calls;
  }
  void clear() {
    std::lock_guard lock(list_->mutex);
    list_->calls.clear();
  }

  template <class T>
  void all_reduce(std::span<T> data, reduction how = reduction::sum) {
    note<T>(operation::all_reduce, data.size());
    inner_.all_reduce(data, how);
  }
  template <class T>
  [[nodiscard]] handle all_reduce_async(std::span<T> data, reduction how = reduction::sum) {
    note<T>(operation::all_reduce, data.size(), 0, true);
    return inner_.all_reduce_async(data, how);
  }
  template <class T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, reduction how = reduction::sum) {
    note<T>(operation::reduce_scatter, in.size());
    inner_.reduce_scatter(in, out, how);
  }
  template <class T>
  [[nodiscard]] handle reduce_scatter_async(std::span<std::type_identity_t<T> const> in, std::span<T> out,
                                            reduction how = reduction::sum) {
    note<T>(operation::reduce_scatter, in.size(), 0, true);
    return inner_.reduce_scatter_async(in, out, how);
  }
  template <class T>
  void all_reduce(pieces<T> data, reduction how = reduction::sum) {
    note<T>(operation::all_reduce, data.elements());
    inner_.all_reduce(data, how);
  }
  template <class T>
  [[nodiscard]] handle all_reduce_async(pieces<T> data, reduction how = reduction::sum) {
    note<T>(operation::all_reduce, data.elements(), 0, true);
    return inner_.all_reduce_async(data, how);
  }
  template <class T>
  [[nodiscard]] handle reduce_scatter_async(std::span<std::type_identity_t<T> const> in, pieces<T> out,
                                            reduction how = reduction::sum) {
    note<T>(operation::reduce_scatter, in.size(), 0, true);
    return inner_.reduce_scatter_async(in, out, how);
  }
  template <class T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    note<T>(operation::all_gather, out.size());
    inner_.all_gather(in, out);
  }
  template <class T>
  [[nodiscard]] handle all_gather_async(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    note<T>(operation::all_gather, out.size(), 0, true);
    return inner_.all_gather_async(in, out);
  }
  /// Recorded part by part.
  template <class T>
  void all_gather(gather_parts<T> parts) {
    note(parts, false);
    inner_.all_gather(parts);
  }
  template <class T>
  [[nodiscard]] handle all_gather_async(gather_parts<T> parts) {
    note(parts, true);
    return inner_.all_gather_async(parts);
  }
  template <class T>
  void all_to_all(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    note<T>(operation::all_to_all, in.size());
    inner_.all_to_all(in, out);
  }
  template <class T>
  [[nodiscard]] handle all_to_all_async(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    note<T>(operation::all_to_all, in.size(), 0, true);
    return inner_.all_to_all_async(in, out);
  }
  /// Recorded with the elements given.
  template <class T>
  void all_to_all(std::span<std::type_identity_t<T> const> in, std::span<std::size_t const> send_counts,
                  std::span<T> out, std::span<std::size_t const> receive_counts) {
    note<T>(operation::all_to_all, in.size());
    inner_.all_to_all(in, send_counts, out, receive_counts);
  }
  template <class T>
  [[nodiscard]] handle all_to_all_async(std::span<std::type_identity_t<T> const> in,
                                        std::span<std::size_t const> send_counts, std::span<T> out,
                                        std::span<std::size_t const> receive_counts) {
    note<T>(operation::all_to_all, in.size(), 0, true);
    return inner_.all_to_all_async(in, send_counts, out, receive_counts);
  }
  template <class T>
  void broadcast(std::span<T> data, std::size_t root) {
    note<T>(operation::broadcast, data.size(), root);
    inner_.broadcast(data, root);
  }
  template <class T>
  [[nodiscard]] handle broadcast_async(std::span<T> data, std::size_t root) {
    note<T>(operation::broadcast, data.size(), root, true);
    return inner_.broadcast_async(data, root);
  }
  void barrier() {
    note<std::byte>(operation::barrier, 0);
    inner_.barrier();
  }
  template <class T>
  void send(std::span<T> data, std::size_t destination) {
    note<T>(operation::send, data.size(), destination);
    inner_.send(data, destination);
  }
  template <class T>
  [[nodiscard]] handle send_async(std::span<T> data, std::size_t destination) {
    note<T>(operation::send, data.size(), destination, true);
    return inner_.send_async(data, destination);
  }
  template <class T>
  void receive(std::span<T> data, std::size_t source) {
    note<T>(operation::receive, data.size(), source);
    inner_.receive(data, source);
  }
  template <class T>
  [[nodiscard]] handle receive_async(std::span<T> data, std::size_t source) {
    note<T>(operation::receive, data.size(), source, true);
    return inner_.receive_async(data, source);
  }
  [[nodiscard]] recording split(std::size_t color, std::size_t key, std::string_view label = {}) {
    note<std::byte>(operation::split, 0);
    return recording(inner_.split(color, key, label), list_);
  }
  [[nodiscard]] recording subset(std::span<std::size_t const> members, std::string_view label = {}) {
    note<std::byte>(operation::split, 0);
    return recording(inner_.subset(members, label), list_);
  }

 private:
  struct list {
    std::mutex mutex;
    std::vector<recorded_call> calls;
  };

  recording(C inner, std::shared_ptr<list> calls) : inner_(std::move(inner)), list_(std::move(calls)) {}

  template <class T>
  void note(operation op, std::size_t count, std::size_t peer = 0, bool asynchronous = false, bool joins = false) {
    std::lock_guard lock(list_->mutex);
    list_->calls.push_back({op, count, element_kind_of<T>, std::string(inner_.name()), peer, asynchronous, joins});
  }
  template <class T>
  void note(gather_parts<T> parts, bool asynchronous) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      note<T>(operation::all_gather, parts.data()[i].out.size(), 0, asynchronous, i != 0);
  }

  C inner_;
  std::shared_ptr<list> list_;
};

}  // namespace heddle::comm
