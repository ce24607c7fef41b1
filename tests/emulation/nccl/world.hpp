// SPDX-License-Identifier: Apache-2.0
#pragma once
// The communicators of the stand-in: who belongs together, and which calls meet.
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../cudart/machine.hpp"

namespace heddle::emulation {

enum class nccl_kind : std::uint8_t { all_reduce, reduce, reduce_scatter, all_gather, broadcast, send, receive };

/// One call, as it was made.
struct nccl_request {
  nccl_kind kind = nccl_kind::all_reduce;
  void const* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t how = ncclSum;
  int root = 0;  ///< or the peer
};
/// "all_reduce of 4 float32 (sum)"
[[nodiscard]] std::string text_of(nccl_request const& one);
/// The first place where two calls differ that must not, or nullptr.
[[nodiscard]] char const* difference(nccl_request const& a, nccl_request const& b);
[[nodiscard]] std::size_t size_of(ncclDataType_t type);
/// Does what the calls of all ranks come to, each at its rank: ring order, NCCL's rounding, its maximum.
void perform(std::vector<nccl_request> const& by_rank);

struct nccl_world;
struct nccl_member;
class nccl_launch;

/// A collective, or a transfer, to which its ranks come one by one.
struct nccl_match {
  struct part {
    bool here = false, started = false;
    nccl_request call;
    std::shared_ptr<operation> in_stream;
  };
  std::vector<part> parts;  ///< by rank; of a transfer, sender and receiver
  std::vector<int> ranks;   ///< whose they are
  std::string name;         ///< "collective 3 of communicator 2"
  bool done = false;
};
using match_ref = std::shared_ptr<nccl_match>;

/// What one rank asked to be part of which group after the split.
struct nccl_split {
  struct wish {
    int color = 0, key = 0;
    ncclComm_t* out = nullptr;
    std::uint64_t after = 0;  ///< collectives
  };
  std::map<int, wish> by_rank;
};

/// The ranks of one communicator.
struct nccl_world {
  std::string name;
  int size = 0;
  std::vector<nccl_member*> members;  ///< null before they came, and after they are gone
  std::vector<int> devices;
  int here = 0;
  ncclResult_t broken = ncclSuccess;
  std::map<std::uint64_t, match_ref> collectives;
  std::map<std::pair<int, int>, std::map<std::uint64_t, match_ref>> transfers;
  std::map<std::uint64_t, nccl_split> splits;
};

/// What a stream has of one group of calls on one communicator: all of them at once.
class nccl_launch : public meeting {
 public:
  std::vector<std::pair<match_ref, std::size_t>> all;  ///< and which part of it
  std::shared_ptr<bool> aborted;
  std::string text_of_it;

  progress step() override;
  void partners(std::vector<operation const*>& out) const override;
  [[nodiscard]] std::string text() const override;

 private:
  bool started_ = false;
};

/// What stands behind a handle: one rank of a communicator.
struct nccl_member {
  std::shared_ptr<nccl_world> of;
  int rank = 0, device = 0;
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
  ncclResult_t error = ncclSuccess;
  std::string words;  ///< of its last error
  std::uint64_t collectives = 0, splits = 0;
  std::map<std::pair<int, int>, std::uint64_t> transfers;
  std::shared_ptr<operation> last;
  cudaStream_t last_on = nullptr;
  // What it does on its own, and is asked for: a number of times it is not ready, then this is done.
  std::size_t asks = 0;
  bool joining = true, splitting = false, finalized = false;
  std::deque<std::pair<cudaStream_t, std::vector<nccl_request>>> given;
};

/// All communicators of the process, under the machine's mutex.
struct nccl_library {
  std::map<std::string, std::shared_ptr<nccl_world>> worlds;  ///< by id
  std::set<nccl_member*> live;
  std::map<int, ncclResult_t> injected;
  std::map<int, std::size_t> sent;  ///< bytes, by device
  unsigned ids = 0, communicators = 0;
  std::size_t aborted = 0;
  static nccl_library& get();
};

}  // namespace heddle::emulation
