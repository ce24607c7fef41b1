// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include <heddle/pipeline/action.hpp>
#include <heddle/pipeline/proof.hpp>
#include <heddle/pipeline/stage_position.hpp>

namespace heddle::schedules {

/// The buffers of one stage, `Actions` being the capacity of its program. A micro-batch (of a chunk) occupies one
/// *slot* from its first action to its last: the saved activations, the output and the gradient that it sends all
/// lie there. `peak` slots suffice.
///
/// A send does not wait, so its buffer may still be in use when the slot's next owner comes to write it. `waits[i]`
/// says how many sends of that kind, counted from the start of the program, the peer must have taken before compute
/// action i may write (0: none): activations before a forward, gradients before a backward.
template <std::size_t Actions, std::size_t MicroBatches, std::size_t Chunks>
struct slot_table {
  std::uint32_t slot[MicroBatches * Chunks] = {};  ///< [chunk][micro-batch]
  std::uint32_t waits[Actions] = {};               ///< [action]
  std::size_t peak = 0;                            ///< micro-batches in flight at once, all chunks together
};

/// Expects a list without a micro_batch_fault.
template <std::size_t Actions, std::size_t MicroBatches, std::size_t Chunks>
[[nodiscard]] constexpr slot_table<Actions, MicroBatches, Chunks> assign_slots(std::span<action const> list,
                                                                               stage_position at) {
  constexpr std::size_t units = MicroBatches * Chunks;
  slot_table<Actions, MicroBatches, Chunks> table{};
  unsigned life[Chunks] = {};
  for (std::size_t c = 0; c < Chunks; ++c) life[c] = proof::detail::life_of(at, c);
  unsigned done[units] = {};
  std::uint32_t free_slots[units] = {};  // a stack
  std::size_t free = 0;
  std::uint32_t last_activation[units] = {};  // by slot: how many sends had been started with its last one
  std::uint32_t last_gradient[units] = {};
  std::uint32_t activations = 0;
  std::uint32_t gradients = 0;
  std::size_t i = 0;
  for (action const *next = list.data(), *const end = next + list.size(); next != end; ++next) {
    action const a = *next;
    if (unsigned const marks = proof::detail::does[static_cast<std::size_t>(a.kind)]; marks != 0) {
      std::size_t const unit = a.chunk * MicroBatches + a.micro_batch;
      unsigned const before = done[unit];
      if (before == 0) table.slot[unit] = free > 0 ? free_slots[--free] : static_cast<std::uint32_t>(table.peak++);
      if (a.kind == action_kind::forward) {
        table.waits[i] = last_activation[table.slot[unit]];
      } else if ((marks & proof::detail::did_input_gradient) != 0) {
        table.waits[i] = last_gradient[table.slot[unit]];
      } else if (a.kind == action_kind::send_activation) {
        last_activation[table.slot[unit]] = ++activations;
      } else if (a.kind == action_kind::send_gradient) {
        last_gradient[table.slot[unit]] = ++gradients;
      }
      done[unit] = before | marks;
      if ((before | marks) == life[a.chunk]) free_slots[free++] = table.slot[unit];
    }
    ++i;
  }
  return table;
}

}  // namespace heddle::schedules
