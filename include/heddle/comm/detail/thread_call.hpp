// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/comm/detail/data_mover.hpp>
#include <heddle/comm/detail/reduce_block.hpp>
#include <heddle/comm/element.hpp>
#include <heddle/comm/operation.hpp>
#include <heddle/comm/reduction.hpp>
#include <heddle/detail/joined_text.hpp>

namespace heddle::comm::detail {

class thread_group;
using heddle::detail::joined_text;

/// One of the all-gathers that a call makes together, or a piece of a reduction's result.
struct call_part {
  void const* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;  // of `out`
  std::size_t rows = 1;
};

/// One collective call of one rank, without its type: what is compared between the ranks, and where the data is.
struct collective_call {
  operation op = operation::barrier;
  element_kind kind = element_kind::byte;
  reduction how = reduction::sum;
  std::size_t element_size = 1;
  std::size_t count = 0;  // elements of the longer side; of an unequal all-to-all: unused, see the two lists
  std::size_t root = 0;
  void const* in = nullptr;
  void* out = nullptr;
  std::size_t const* send_counts = nullptr;  // of an unequal all-to-all
  std::size_t const* receive_counts = nullptr;
  void const* list = nullptr;  // of all-gathers made together, or of a reduction's pieces, which part_of reads
  std::size_t list_size = 0;
  call_part (*part_of)(void const* list, std::size_t i) = nullptr;
  reduce_function reduce = nullptr;  // of a reduction by the members' threads
  mover_join join = nullptr;         // of one by the group's mover
  mover_call* on_mover = nullptr;
  std::size_t color = 0;  // of a split
  std::size_t key = 0;
  std::string_view label;
  std::shared_ptr<thread_group>* made = nullptr;
  std::size_t* made_rank = nullptr;

  [[nodiscard]] bool reduces() const { return op == operation::all_reduce || op == operation::reduce_scatter; }
  [[nodiscard]] bool unequal() const { return send_counts != nullptr; }
  [[nodiscard]] std::size_t parts() const { return part_of != nullptr ? list_size : 1; }
  [[nodiscard]] call_part part(std::size_t i) const {
    return part_of != nullptr ? part_of(list, i) : call_part{in, out, count, 1};
  }
};

// Texts are for errors, for what the watcher of a run finds, and (a list) for the key of a group that is being made.
[[nodiscard, gnu::cold]] inline std::string in_quotes(std::string_view name) { return joined_text({"\"", name, "\""}); }

/// "{0, 2, 3}"
[[nodiscard, gnu::cold]] inline std::string list_text(std::vector<std::size_t> const& list) {
  std::string text;
  for (std::size_t const one : list) text += joined_text({text.empty() ? "{" : ", ", one});
  return joined_text({text.empty() ? "{" : text, "}"});
}

/// "4 float32"
[[nodiscard, gnu::cold]] inline std::string amount(std::size_t count, element_kind kind) {
  return joined_text({count, " ", name_of(kind)});
}

[[nodiscard, gnu::cold]] inline std::string describe(collective_call const& call) {
  char const* const op = name_of(call.op);
  if (call.op == operation::barrier) return op;
  if (call.op == operation::split) return joined_text({op, " named ", in_quotes(call.label)});
  if (call.unequal()) return joined_text({op, " with unequal counts of ", name_of(call.kind)});
  std::string text = joined_text({op, " of ", amount(call.count, call.kind)});
  if (call.part_of != nullptr) text += joined_text({" in ", call.parts(), " parts"});
  if (call.reduces()) text += joined_text({" (", name_of(call.how), ")"});
  if (call.op == operation::broadcast) text += joined_text({" from root ", call.root});
  return text;
}

/// "4", or "4 in 2 rows"
[[nodiscard, gnu::cold]] inline std::string amount_text(call_part const& part) {
  return part.rows == 1 ? joined_text({part.count}) : joined_text({part.count, " in ", part.rows, " rows"});
}

/// The first of two calls' parts that differ, as text; empty where none does.
[[nodiscard, gnu::cold]] inline std::string unlike_parts(collective_call const& a, collective_call const& b) {
  for (std::size_t i = 0; a.part_of != nullptr && b.part_of != nullptr && i < a.parts() && i < b.parts(); ++i)
    if (a.part(i).count != b.part(i).count || a.part(i).rows != b.part(i).rows)
      return joined_text({"; the first that differ are their parts ", i, ", of ", amount_text(a.part(i)), " and of ",
                          amount_text(b.part(i))});
  return {};
}

/// Whether two ranks made the same call.
[[nodiscard]] inline bool same_call(collective_call const& a, collective_call const& b) {
  if (!(a.op == b.op && a.kind == b.kind && a.how == b.how && a.count == b.count && a.root == b.root &&
        a.unequal() == b.unequal() && a.label == b.label))
    return false;
  if (a.op == operation::reduce_scatter) return true;  // where a rank's chunk goes is its own affair
  if ((a.part_of == nullptr) != (b.part_of == nullptr) || a.parts() != b.parts()) return false;
  for (std::size_t i = 0; i < a.parts(); ++i)
    if (a.part(i).count != b.part(i).count || a.part(i).rows != b.part(i).rows) return false;
  return true;
}

}  // namespace heddle::comm::detail
