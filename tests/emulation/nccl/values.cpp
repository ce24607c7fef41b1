// SPDX-License-Identifier: Apache-2.0
// What NCCL's operations come to.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "world.hpp"

namespace heddle::emulation {

namespace {

/// `body(T{})` with the host's type of the elements.
template <class Body>
void with_type(ncclDataType_t type, Body const& body) {
  switch (type) {
    case ncclInt8:
      return body(std::int8_t{});
    case ncclUint8:
      return body(std::uint8_t{});
    case ncclInt32:
      return body(std::int32_t{});
    case ncclUint32:
      return body(std::uint32_t{});
    case ncclInt64:
      return body(std::int64_t{});
    case ncclUint64:
      return body(std::uint64_t{});
    case ncclFloat16:
      return body(Eigen::half{});
    case ncclFloat32:
      return body(float{});
    case ncclFloat64:
      return body(double{});
    case ncclBfloat16:
      return body(Eigen::bfloat16{});
    default:
      throw refusal{cudaErrorInvalidValue, "a type of element that the emulation lacks"};
  }
}

/// As NCCL's kernels: rounded to T, and of a number and a NaN the number.
template <class T>
T join(ncclRedOp_t how, T a, T b) {
  if (how == ncclSum) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else
      return static_cast<T>(a + b);
  }
  if constexpr (std::is_integral_v<T>) {
    return how == ncclMax ? std::max(a, b) : std::min(a, b);
  } else {
    auto const x = static_cast<double>(a), y = static_cast<double>(b);
    return static_cast<T>(how == ncclMax ? std::fmax(x, y) : std::fmin(x, y));
  }
}

/// The join of elements [begin, begin + n) of all ranks: around a ring, where element i begins at another rank than the
/// first, as it does in NCCL.
template <class T>
std::vector<T> joined(std::vector<nccl_request> const& all, std::size_t begin, std::size_t n) {
  std::vector<T> out(n);
  std::size_t const ranks = all.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const first = (begin + i + 1) % ranks;
    auto const at = [&](std::size_t k) { return static_cast<T const*>(all[(first + k) % ranks].in)[begin + i]; };
    out[i] = at(0);
    for (std::size_t k = 1; k < ranks; ++k) out[i] = join(all[0].how, out[i], at(k));
  }
  return out;
}

template <class T>
void perform_of(std::vector<nccl_request> const& all) {
  std::size_t const ranks = all.size(), count = all[0].count;
  auto const put = [](nccl_request const& to, std::size_t at, T const* from, std::size_t n) {
    if (n != 0) std::memmove(static_cast<T*>(to.out) + at, from, n * sizeof(T));
  };
  auto const root = static_cast<std::size_t>(all[0].root);
  switch (all[0].kind) {
    case nccl_kind::all_reduce: {
      std::vector<T> const sum = joined<T>(all, 0, count);
      for (nccl_request const& one : all) put(one, 0, sum.data(), count);
      return;
    }
    case nccl_kind::reduce: {
      std::vector<T> const sum = joined<T>(all, 0, count);
      return put(all[root], 0, sum.data(), count);
    }
    case nccl_kind::reduce_scatter: {
      std::vector<std::vector<T>> sums;
      for (std::size_t r = 0; r < ranks; ++r) sums.push_back(joined<T>(all, r * count, count));
      for (std::size_t r = 0; r < ranks; ++r) put(all[r], 0, sums[r].data(), count);
      return;
    }
    case nccl_kind::all_gather: {
      std::vector<T> whole;
      for (nccl_request const& one : all)
        whole.insert(whole.end(), static_cast<T const*>(one.in), static_cast<T const*>(one.in) + count);
      for (nccl_request const& one : all) put(one, 0, whole.data(), whole.size());
      return;
    }
    case nccl_kind::broadcast: {
      T const* const from = static_cast<T const*>(all[root].in);
      std::vector<T> const copy(from, from + count);
      for (nccl_request const& one : all) put(one, 0, copy.data(), count);
      return;
    }
    case nccl_kind::send:
    case nccl_kind::receive:
      return put(all[1], 0, static_cast<T const*>(all[0].in), count);
  }
}

char const* name_of(ncclDataType_t type) {
  static char const* const names[] = {"int8",    "uint8",   "int32",   "uint32",   "int64",  "uint64",
                                      "float16", "float32", "float64", "bfloat16", "float8", "float8"};
  return type >= 0 && type < ncclNumTypes ? names[type] : "an unknown type";
}
char const* name_of(ncclRedOp_t how) {
  return how == ncclSum ? "sum" : how == ncclMax ? "max" : how == ncclMin ? "min" : "another reduction";
}
char const* name_of(nccl_kind kind) {
  static char const* const names[] = {"all_reduce", "reduce", "reduce_scatter", "all_gather",
                                      "broadcast",  "send",   "receive"};
  return names[static_cast<std::size_t>(kind)];
}
bool reduces(nccl_kind kind) {
  return kind == nccl_kind::all_reduce || kind == nccl_kind::reduce || kind == nccl_kind::reduce_scatter;
}

}  // namespace

void perform(std::vector<nccl_request> const& by_rank) {
  with_type(by_rank[0].type, [&](auto zero) { perform_of<decltype(zero)>(by_rank); });
}

std::size_t size_of(ncclDataType_t type) {
  std::size_t size = 0;
  with_type(type, [&](auto zero) { size = sizeof(zero); });
  return size;
}

std::string text_of(nccl_request const& one) {
  std::string text = std::string(name_of(one.kind)) + " of " + std::to_string(one.count) + ' ' + name_of(one.type);
  if (reduces(one.kind)) text += std::string(" (") + name_of(one.how) + ')';
  if (one.kind == nccl_kind::reduce || one.kind == nccl_kind::broadcast) text += " of root " + std::to_string(one.root);
  if (one.kind == nccl_kind::send) text += " to rank " + std::to_string(one.root);
  if (one.kind == nccl_kind::receive) text += " from rank " + std::to_string(one.root);
  return text;
}

char const* difference(nccl_request const& a, nccl_request const& b) {
  bool const transfer = a.kind == nccl_kind::send || a.kind == nccl_kind::receive;
  if (!transfer && a.kind != b.kind) return "operations";
  if (a.count != b.count) return "counts";
  if (a.type != b.type) return "types";
  if (reduces(a.kind) && a.how != b.how) return "reductions";
  if (!transfer && a.root != b.root) return "roots";
  return nullptr;
}

}  // namespace heddle::emulation
