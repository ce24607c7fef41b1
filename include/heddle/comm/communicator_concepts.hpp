// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

#include <heddle/comm/counters.hpp>
#include <heddle/comm/element.hpp>
#include <heddle/comm/gather_part.hpp>
#include <heddle/comm/reduction.hpp>

namespace heddle::comm {

/// An operation under way. `wait()` returns when the caller's buffers are its own again, and throws what went wrong;
/// `done()` tells without waiting whether it would return at once. A handle that nobody waited for waits in its
/// destructor, unless an exception is unwinding the stack: then the operation is withdrawn, without communication.
template <class H>
concept CommunicationHandle = std::movable<H> && std::default_initializable<H> && requires(H handle, H const& same) {
  { handle.wait() } -> std::same_as<void>;
  { same.done() } -> std::same_as<bool>;
};

/// A group of ranks that can reduce, gather, exchange and send. Ranks and roots are positions in the group. Collective
/// operations are called by every rank of the group, in the same order, with the same counts, types and reduction.
/// docs/reference/communicator.md states the meaning of each operation, and what a model must promise.
///
/// The requirement is written for `float`; a model takes every `Element`, and reduces every `ReducibleElement`.
template <class C>
concept Communicator = std::movable<C> && CommunicationHandle<typename C::handle> &&
    requires(C& group, C const& same, std::span<float> out, std::span<float const> in, std::size_t rank, reduction how,
             std::span<std::size_t const> list, gather_parts<float> parts, std::string_view label) {
  { same.rank() } -> std::convertible_to<std::size_t>;
  { same.size() } -> std::convertible_to<std::size_t>;
  { same.name() } -> std::convertible_to<std::string_view>;
  { same.counters() } -> std::same_as<communication_counters>;
  group.all_reduce(out, how);
  group.reduce_scatter(in, out, how);
  group.all_gather(in, out);
  group.all_gather(parts);
  group.all_to_all(in, out);
  group.all_to_all(in, list, out, list);
  group.broadcast(out, rank);
  group.send(in, rank);
  group.receive(out, rank);
  group.barrier();
  { group.all_reduce_async(out, how) } -> std::same_as<typename C::handle>;
  { group.reduce_scatter_async(in, out, how) } -> std::same_as<typename C::handle>;
  { group.all_gather_async(in, out) } -> std::same_as<typename C::handle>;
  { group.all_gather_async(parts) } -> std::same_as<typename C::handle>;
  { group.all_to_all_async(in, out) } -> std::same_as<typename C::handle>;
  { group.all_to_all_async(in, list, out, list) } -> std::same_as<typename C::handle>;
  { group.broadcast_async(out, rank) } -> std::same_as<typename C::handle>;
  { group.send_async(in, rank) } -> std::same_as<typename C::handle>;
  { group.receive_async(out, rank) } -> std::same_as<typename C::handle>;
  { group.split(rank, rank, label) } -> std::same_as<C>;
  { group.subset(list, label) } -> std::same_as<C>;
};

}  // namespace heddle::comm
