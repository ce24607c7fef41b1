// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include <heddle/comm/communicator.hpp>
#include <heddle/comm/detail/delay_worker.hpp>
#include <heddle/comm/detail/inner_memory.hpp>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>

namespace heddle::comm {

/// How much a `delaying` communicator delays: evenly spread between the two bounds, a function of seed, rank and the
/// number of the call.
struct delay_options {
  std::uint64_t seed = 1;
  std::chrono::microseconds shortest{0};
  std::chrono::microseconds longest{2000};
  /// Whether a rank also sleeps before it begins a blocking operation.
  bool delay_blocking = true;
  /// Whether asynchronous collectives go on beside the caller's work. Otherwise each is over when its call returns.
  /// Transfers always do: a send that waited for its receive would hold up what the other rank does before it.
  bool overlap = true;
};

/// A communicator that makes everything late: an asynchronous operation does not touch the caller's buffers, and so
/// cannot end, before its delay is over; a blocking one begins late. Code that reuses a buffer or reads a result before
/// `wait()` gets wrong values. Delays of several operations run at the same time, and beside the caller's work.
///
/// Needs of `C`: an asynchronous operation may be started by another thread of the rank, while no collective of the
/// same communicator is being called.
///
/// **Errors.** heddle::error for bounds that are negative or the wrong way round.
template <Communicator C>
class delaying : public detail::inner_memory<C> {
 public:
  using handle = detail::delayed_handle<typename C::handle>;
  static constexpr bool gathers_rows = GathersRows<C>;
  static constexpr bool reduces_pieces = ReducesPieces<C>;

  delaying(C inner, delay_options options)
      : delaying(std::move(inner), checked(options), std::make_shared<detail::delay_worker<typename C::handle>>()) {}

  [[nodiscard]] std::size_t rank() const { return state_->inner.rank(); }
  [[nodiscard]] std::size_t size() const { return state_->inner.size(); }
  [[nodiscard]] std::string_view name() const { return state_->inner.name(); }
  [[nodiscard]] communication_counters counters() const { return state_->inner.counters(); }

  template <class T>
  void all_reduce(std::span<T> data, reduction how = reduction::sum) {
    late().all_reduce(data, how);
  }
  template <class T>
  [[nodiscard]] handle all_reduce_async(std::span<T> data, reduction how = reduction::sum) {
    return collective([data, how](C& inner) { return inner.all_reduce_async(data, how); });
  }
  template <class T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, reduction how = reduction::sum) {
    late().reduce_scatter(in, out, how);
  }
  template <class T>
  [[nodiscard]] handle reduce_scatter_async(std::span<std::type_identity_t<T> const> in, std::span<T> out,
                                            reduction how = reduction::sum) {
    return collective([in, out, how](C& inner) { return inner.reduce_scatter_async(in, out, how); });
  }
  template <class T>
  void all_reduce(pieces<T> data, reduction how = reduction::sum) {
    late().all_reduce(data, how);
  }
  template <class T>
  [[nodiscard]] handle all_reduce_async(pieces<T> data, reduction how = reduction::sum) {
    return collective([data, how](C& inner) { return inner.all_reduce_async(data, how); });
  }
  template <class T>
  [[nodiscard]] handle reduce_scatter_async(std::span<std::type_identity_t<T> const> in, pieces<T> out,
                                            reduction how = reduction::sum) {
    return collective([in, out, how](C& inner) { return inner.reduce_scatter_async(in, out, how); });
  }
  template <class T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    late().all_gather(in, out);
  }
  template <class T>
  [[nodiscard]] handle all_gather_async(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    return collective([in, out](C& inner) { return inner.all_gather_async(in, out); });
  }
  template <class T>
  void all_gather(gather_parts<T> parts) {
    late().all_gather(parts);
  }
  template <class T>
  [[nodiscard]] handle all_gather_async(gather_parts<T> parts) {
    return collective([parts](C& inner) { return inner.all_gather_async(parts); });
  }
  template <class T>
  void all_to_all(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    late().all_to_all(in, out);
  }
  template <class T>
  [[nodiscard]] handle all_to_all_async(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    return collective([in, out](C& inner) { return inner.all_to_all_async(in, out); });
  }
  template <class T>
  void all_to_all(std::span<std::type_identity_t<T> const> in, std::span<std::size_t const> send_counts,
                  std::span<T> out, std::span<std::size_t const> receive_counts) {
    late().all_to_all(in, send_counts, out, receive_counts);
  }
  template <class T>
  [[nodiscard]] handle all_to_all_async(std::span<std::type_identity_t<T> const> in,
                                        std::span<std::size_t const> send_counts, std::span<T> out,
                                        std::span<std::size_t const> receive_counts) {
    return collective([in, send_counts, out, receive_counts](C& inner) {
      return inner.all_to_all_async(in, send_counts, out, receive_counts);
    });
  }
  template <class T>
  void broadcast(std::span<T> data, std::size_t root) {
    late().broadcast(data, root);
  }
  template <class T>
  [[nodiscard]] handle broadcast_async(std::span<T> data, std::size_t root) {
    return collective([data, root](C& inner) { return inner.broadcast_async(data, root); });
  }
  void barrier() { late().barrier(); }
  template <class T>
  void send(std::span<T> data, std::size_t destination) {
    late().send(data, destination);
  }
  template <class T>
  [[nodiscard]] handle send_async(std::span<T> data, std::size_t destination) {
    return later([data, destination](C& inner) { return inner.send_async(data, destination); });
  }
  template <class T>
  void receive(std::span<T> data, std::size_t source) {
    late().receive(data, source);
  }
  template <class T>
  [[nodiscard]] handle receive_async(std::span<T> data, std::size_t source) {
    return later([data, source](C& inner) { return inner.receive_async(data, source); });
  }
  [[nodiscard]] delaying split(std::size_t color, std::size_t key, std::string_view label = {}) {
    return delaying(late().split(color, key, label), state_->options, worker_);
  }
  [[nodiscard]] delaying subset(std::span<std::size_t const> members, std::string_view label = {}) {
    return delaying(late().subset(members, label), state_->options, worker_);
  }

 private:
  using worker = detail::delay_worker<typename C::handle>;
  struct state {
    C inner;
    delay_options options;
    std::uint64_t number = 0;
  };

  delaying(C inner, delay_options options, std::shared_ptr<worker> owner)
      : worker_(std::move(owner)), state_(std::make_shared<state>(state{std::move(inner), options})) {}

  static delay_options const& checked(delay_options const& o) {
    if (o.shortest.count() < 0 || o.longest < o.shortest)
      throw error(heddle::detail::joined_text({"delaying: 'shortest' is ", o.shortest.count(), " us and 'longest' ",
                                               o.longest.count(), " us; give delays with 0 <= shortest <= longest"}));
    return o;
  }

  [[nodiscard]] std::chrono::microseconds delay() {
    auto const range = static_cast<std::uint64_t>((state_->options.longest - state_->options.shortest).count()) + 1;
    std::uint64_t const drawn = detail::mixed(state_->options.seed, rank(), state_->number++) % range;
    return state_->options.shortest + std::chrono::microseconds(static_cast<std::int64_t>(drawn));
  }

  /// The inner communicator, when the operations started before have reached it and the delay is over.
  [[nodiscard]] C& late() {
    worker_->drain(state_.get());
    if (state_->options.delay_blocking) std::this_thread::sleep_for(delay());
    return state_->inner;
  }

  template <class Start>
  [[nodiscard]] handle collective(Start start) {
    handle started = later(std::move(start));
    if (!state_->options.overlap) started.wait();
    return started;
  }
  template <class Start>
  [[nodiscard]] handle later(Start start) {
    auto one = std::make_shared<typename worker::job>();
    one->start = [kept = state_, start] { return start(kept->inner); };
    one->due = std::chrono::steady_clock::now() + delay();
    one->group = state_.get();
    worker_->submit(one);
    return handle(worker_, std::move(one));
  }

  std::shared_ptr<worker> worker_;
  std::shared_ptr<state> state_;
};

}  // namespace heddle::comm
