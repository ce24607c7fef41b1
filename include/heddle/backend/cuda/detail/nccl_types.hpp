// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nccl.h>

#include <cstddef>
#include <heddle/comm/element.hpp>
#include <heddle/comm/reduction.hpp>
#include <optional>

namespace heddle::cuda::detail {

/// NCCL's type of an element, or none.
[[nodiscard]] constexpr std::optional<ncclDataType_t> nccl_type_of(comm::element_kind kind) {
  using comm::element_kind;
  switch (kind) {
    case element_kind::float32:
      return ncclFloat32;
    case element_kind::float64:
      return ncclFloat64;
    case element_kind::float16:
      return ncclFloat16;
    case element_kind::bfloat16:
      return ncclBfloat16;
    case element_kind::int8:
      return ncclInt8;
    case element_kind::int32:
      return ncclInt32;
    case element_kind::int64:
      return ncclInt64;
    case element_kind::uint8:
    case element_kind::byte:
      return ncclUint8;
    case element_kind::uint32:
      return ncclUint32;
    case element_kind::uint64:
      return ncclUint64;
    case element_kind::int16:
    case element_kind::uint16:
      break;
  }
  return std::nullopt;
}

/// What is moved and not computed with: elements of NCCL's, or bytes.
struct nccl_units {
  ncclDataType_t type = ncclUint8;
  std::size_t each = 1;  ///< of one element
};
[[nodiscard]] constexpr nccl_units nccl_units_of(comm::element_kind kind, std::size_t element_size) {
  if (auto const type = nccl_type_of(kind)) return {*type, 1};
  return {ncclUint8, element_size};
}

[[nodiscard]] constexpr ncclRedOp_t nccl_op_of(comm::reduction how) {
  return how == comm::reduction::sum ? ncclSum : how == comm::reduction::max ? ncclMax : ncclMin;
}

/// Whether NCCL reduces as a communicator must: its maximum and minimum of floats drop a NaN, its sums of 16-bit floats
/// are rounded at each rank, and it has no 16-bit integers.
[[nodiscard]] constexpr bool nccl_reduces(comm::element_kind kind, comm::reduction how, bool rounds_on_the_way) {
  using comm::element_kind;
  switch (kind) {
    case element_kind::float32:
    case element_kind::float64:
      return how == comm::reduction::sum;
    case element_kind::float16:
    case element_kind::bfloat16:
      return how == comm::reduction::sum && rounds_on_the_way;
    default:
      return nccl_type_of(kind).has_value();
  }
}

}  // namespace heddle::cuda::detail
