// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls of one element type, as the values that thread groups compare and execute.
#include <cstddef>
#include <functional>
#include <span>

#include <heddle/comm/detail/thread_call.hpp>
#include <heddle/comm/element.hpp>
#include <heddle/comm/gather_part.hpp>
#include <heddle/comm/pieces.hpp>

namespace heddle::comm::detail {

template <class T>
void require_element() {
  static_assert(Element<T>,
                "thread_communicator: the element type must be trivially copyable and known to element_traits; "
                "specialise heddle::comm::element_traits for it");
}

/// Whether two buffers of so many bytes have one in common.
[[nodiscard]] inline bool overlap(void const* a, std::size_t a_size, void const* b, std::size_t b_size) {
  std::less<char const*> const before;
  auto const *first = static_cast<char const*>(a), *second = static_cast<char const*>(b);
  return a_size != 0 && b_size != 0 && before(first, second + b_size) && before(second, first + a_size);
}
template <class T, class U>
bool overlap(std::span<T> a, std::span<U> b) {
  return overlap(a.data(), a.size_bytes(), b.data(), b.size_bytes());
}

template <class T>
collective_call plain_call(operation op, std::size_t count, void const* in, void* out) {
  require_element<T>();
  collective_call call;
  call.op = op;
  call.kind = element_kind_of<T>;
  call.element_size = sizeof(T);
  call.count = count;
  call.in = in;
  call.out = out;
  return call;
}

/// What joins the elements is the communicator's to add.
template <class T>
collective_call reduce_call(operation op, std::size_t count, reduction how, void const* in, void* out) {
  static_assert(ReducibleElement<T>,
                "thread_communicator: the element type of a reduction must be known to element_traits with an "
                "accumulator; specialise heddle::comm::element_traits for it");
  collective_call call = plain_call<T>(op, count, in, out);
  call.how = how;
  return call;
}

/// A reduction whose result, and whose operand where it has no other, is in pieces.
template <class T>
collective_call reduce_call_of(operation op, std::size_t count, reduction how, void const* in, pieces<T> out) {
  collective_call call = reduce_call<T>(op, count, how, in, nullptr);
  call.list = out.data();
  call.list_size = out.size();
  call.part_of = [](void const* list, std::size_t i) {
    std::span<T> const& one = static_cast<std::span<T> const*>(list)[i];
    return call_part{one.data(), one.data(), one.size(), 1};
  };
  return call;
}

/// All-gathers to `count` elements in all.
template <class T>
collective_call gather_call(gather_parts<T> parts, std::size_t count) {
  collective_call call = plain_call<T>(operation::all_gather, count, nullptr, nullptr);
  call.list = parts.data();
  call.list_size = parts.size();
  call.part_of = [](void const* list, std::size_t i) {
    gather_part<T> const& one = static_cast<gather_part<T> const*>(list)[i];
    return call_part{one.in.data(), one.out.data(), one.out.size(), one.rows};
  };
  return call;
}

}  // namespace heddle::comm::detail
