// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace heddle::comm::detail {

struct transfer;

/// What a communicator notes of a call for its mover, which derives from it.
struct mover_call {};
/// Joins the elements of ranks, as the mover that a call is for has it: cast back to that type by it.
using mover_join = void (*)();

/// Moves the data of a group's calls where the host cannot: in a device's memory. Without one the members' threads do.
///
/// `begin`, any number of `copy` and `join`, and `end` are one call that all members have made; there is one at a time
/// in a group. `move` may come beside them, and beside another `move`. What they throw ends the run.
class data_mover {
 public:
  data_mover() = default;
  data_mover(data_mover const&) = delete;
  data_mover& operator=(data_mover const&) = delete;
  virtual ~data_mover() = default;

  /// What member m noted is calls[m]; they stay until `end`.
  virtual void begin(mover_call* const* calls, std::size_t members) = 0;
  virtual void copy(void const* from, void* to, std::size_t bytes) = 0;
  /// outs[k][i] = the join of sources[r][offset + i], r = 0, 1, …, of `count` elements, for each of `results` outs.
  virtual void join(mover_join how, void const* const* sources, std::size_t ranks, std::size_t offset,
                    std::size_t count, void* const* outs, std::size_t results) = 0;
  virtual void end() = 0;
  /// Both sides of a transfer have been called.
  virtual void move(transfer const& from, transfer const& to) = 0;
};

/// Makes a mover for each group of a run, before any of its calls. The group's members have these ranks in the run.
class data_movers {
 public:
  data_movers() = default;
  data_movers(data_movers const&) = delete;
  data_movers& operator=(data_movers const&) = delete;
  virtual ~data_movers() = default;

  [[nodiscard]] virtual std::unique_ptr<data_mover> of(std::vector<std::size_t> const& ranks) = 0;
};

}  // namespace heddle::comm::detail
