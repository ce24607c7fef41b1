// SPDX-License-Identifier: Apache-2.0
// Stand-ins for NCCL's functions, with the signatures of its header. Communicators are those that are not blocking: a
// call that NCCL would take time for says ncclInProgress, and is done after it was asked for a few times.
#include <nccl.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <heddle/comm/traffic.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "world.hpp"

using namespace heddle::emulation;

namespace {

/// Why a call returns an error.
struct nccl_refusal {
  ncclResult_t code;
  std::string text;
};

std::string& last_words() {
  thread_local std::string words;
  return words;
}

/// The body of a stand-in: under the machine's mutex, with refusals as results.
template <class Body>
ncclResult_t nccl(char const* name, Body const& body) {
  machine& all = machine::get();
  std::unique_lock<std::mutex> const lock(all.mutex);
  try {
    return body(all);
  } catch (nccl_refusal const& one) {
    last_words() = std::string(name) + " (emulated): " + one.text;
    return one.code;
  } catch (refusal const& one) {
    last_words() = std::string(name) + " (emulated): " + one.text;
    return ncclUnhandledCudaError;
  }
}

/// Of a group: the calls of each communicator, in order, with their stream.
struct group_state {
  int depth = 0;
  std::vector<std::pair<ncclComm_t, std::pair<cudaStream_t, std::vector<nccl_request>>>> calls;
};
group_state& group() {
  thread_local group_state one;
  return one;
}

ncclComm_t handle_of(nccl_member* one) { return static_cast<ncclComm_t>(static_cast<void*>(one)); }
nccl_member& comm_of(ncclComm_t handle) {
  auto* const one = static_cast<nccl_member*>(static_cast<void*>(handle));
  if (nccl_library::get().live.count(one) == 0)
    throw nccl_refusal{ncclInvalidArgument, "a handle that is no communicator, or of one that was destroyed"};
  return *one;
}
void require_idle(nccl_member const& one, char const* what) {
  if (one.joining || one.splitting || one.asks != 0 || !one.given.empty())
    throw nccl_refusal{ncclInvalidArgument,
                       std::string(what) + " while the communicator is in progress; ask ncclCommGetAsyncError first"};
  if (one.finalized) throw nccl_refusal{ncclInvalidUsage, std::string(what) + " after ncclCommFinalize"};
  if (one.error != ncclSuccess) throw nccl_refusal{one.error, one.words};
}
/// How often the next thing is not ready: at most twice where work is delayed.
std::size_t delays(machine const& all) {
  static std::mt19937_64 draw{7};
  return all.options.mode == execution::delayed ? draw() % 3 : 0;
}

nccl_member* make(machine const& all, std::shared_ptr<nccl_world> const& of, int rank) {
  auto* const made = new nccl_member;
  made->of = of;
  made->rank = rank;
  made->device = machine::device();
  made->asks = delays(all);
  nccl_library::get().live.insert(made);
  return made;
}

[[noreturn]] void mismatch(machine& all, nccl_world const& world, std::string const& text) {
  for (int const device : world.devices) all.note_loss(device, cudaErrorLaunchFailure, text);
  throw nccl_refusal{ncclInvalidUsage, text};
}

std::string who(nccl_match const& match, std::size_t part) {
  return "rank " + std::to_string(match.ranks[part]) + " calls " + text_of(match.parts[part].call);
}

/// Bytes that a rank sends to others by that call.
std::size_t sent_by(nccl_member const& one, nccl_request const& call) {
  namespace comm = heddle::comm;
  std::size_t const n = static_cast<std::size_t>(one.of->size), rank = static_cast<std::size_t>(one.rank);
  bool const is_root = call.root == one.rank;
  std::size_t elements = 0;
  switch (call.kind) {
    case nccl_kind::all_reduce:
      elements = comm::all_reduce_sent(call.count, n, rank);
      break;
    case nccl_kind::reduce_scatter:
      elements = comm::reduce_scatter_sent(n * call.count, n, rank);
      break;
    case nccl_kind::all_gather:
      elements = comm::all_gather_sent(n * call.count, n, rank);
      break;
    case nccl_kind::broadcast:
      elements = comm::broadcast_sent(call.count, n, rank, static_cast<std::size_t>(call.root));
      break;
    case nccl_kind::reduce:
    case nccl_kind::send:
      elements = is_root ? 0 : call.count;
      break;
    case nccl_kind::receive:
      break;
  }
  return elements * size_of(call.type);
}

/// Brings a rank's call to its match, and compares it with what is there.
std::pair<match_ref, std::size_t> bring(machine& all, nccl_member& one, nccl_request const& call) {
  nccl_world& world = *one.of;
  bool const transfers = call.kind == nccl_kind::send || call.kind == nccl_kind::receive;
  match_ref match;
  std::size_t part = static_cast<std::size_t>(one.rank);
  if (transfers) {
    bool const sends = call.kind == nccl_kind::send;
    std::pair<int, int> const pair = sends ? std::pair(one.rank, call.root) : std::pair(call.root, one.rank);
    // Its sends and its receives are counted apart, also of a rank with itself.
    std::uint64_t const number = one.transfers[sends ? pair : std::pair(-1 - pair.first, pair.second)]++;
    auto& place = world.transfers[pair][number];
    if (place == nullptr) {
      place = std::make_shared<nccl_match>();
      place->ranks = {pair.first, pair.second};
      place->parts.resize(2);
      place->name = "transfer " + std::to_string(number) + " from rank " + std::to_string(pair.first) + " to rank " +
                    std::to_string(pair.second) + " of " + world.name;
    }
    match = place;
    part = sends ? 0 : 1;
  } else {
    auto& place = world.collectives[one.collectives];
    if (place == nullptr) {
      place = std::make_shared<nccl_match>();
      place->parts.resize(static_cast<std::size_t>(world.size));
      for (int r = 0; r < world.size; ++r) place->ranks.push_back(r);
      place->name = "collective " + std::to_string(one.collectives) + " of " + world.name;
    }
    ++one.collectives;
    match = place;
  }
  match->parts[part].here = true;
  match->parts[part].call = call;
  for (std::size_t other = 0; other < match->parts.size(); ++other) {
    if (other == part || !match->parts[other].here) continue;
    char const* const unlike = difference(match->parts[other].call, call);
    if (unlike != nullptr)
      mismatch(all, world,
               match->name + " has different " + unlike + ": " + who(*match, other) + ", and " + who(*match, part) +
                   "; make the same calls on every rank, in one order");
  }
  return {match, part};
}

range bytes(void const* data, std::size_t size, bool written) {
  return {reinterpret_cast<std::uintptr_t>(data), size, 1, size, written, side::mapped};
}
/// What one call uses of memory.
void add_uses(std::vector<range>& out, nccl_member const& one, nccl_request const& call) {
  std::size_t const unit = size_of(call.type), n = static_cast<std::size_t>(one.of->size), size = call.count * unit;
  bool const gathers = call.kind == nccl_kind::all_gather, scatters = call.kind == nccl_kind::reduce_scatter;
  bool const rooted = call.kind == nccl_kind::broadcast || call.kind == nccl_kind::reduce;
  bool const is_root = call.root == one.rank;
  range const in = bytes(call.in, scatters ? n * size : size, false);
  range const to = bytes(call.out, gathers ? n * size : size, true);
  bool const reads = call.kind != nccl_kind::receive && (call.kind != nccl_kind::broadcast || is_root);
  bool const writes = call.kind != nccl_kind::send && (call.kind != nccl_kind::reduce || is_root);
  auto const mine = static_cast<std::size_t>(one.rank) * size;
  bool const in_place = gathers    ? in.begin == to.begin + mine
                        : scatters ? to.begin == in.begin + mine
                                   : in.begin == to.begin;
  if (reads && writes && !in_place && overlap(in, to))
    throw nccl_refusal{ncclInvalidArgument, text_of(call) + ": in and out overlap, and are not in place"};
  if (rooted && (call.root < 0 || call.root >= one.of->size))
    throw nccl_refusal{ncclInvalidArgument, text_of(call) + ": there is no such root"};
  if (reads) out.push_back(in);
  if (writes) out.push_back(to);
}

/// Gives the calls of a group to the stream, as one.
void launch(machine& all, nccl_member& one, cudaStream_t handle, std::vector<nccl_request> const& calls) {
  stream_state& stream = all.stream(handle);
  if (stream.device != one.device)
    throw nccl_refusal{ncclInvalidArgument, "a stream of device " + std::to_string(stream.device) +
                                                " for a communicator of device " + std::to_string(one.device)};
  std::vector<range> uses;
  auto made = std::make_shared<nccl_launch>();
  made->aborted = one.aborted;
  for (nccl_request const& call : calls) {
    add_uses(uses, one, call);
    nccl_library::get().sent[one.device] += sent_by(one, call);
    made->all.push_back(bring(all, one, call));
  }
  made->text_of_it = "rank " + std::to_string(one.rank) + "'s " + text_of(calls[0]) +
                     (calls.size() > 1 ? " and " + std::to_string(calls.size() - 1) + " more" : "") + " of " +
                     one.of->name;
  // On one communicator one comes after the other, whatever their streams.
  if (one.last != nullptr && !one.last->done && one.last_on != handle) {
    event_state after{
        .device = stream.device, .recorded = true, .at = {.last = one.last, .clock = {}, .capture = {}, .tips = {}}};
    all.wait(stream, after);
  }
  one.last_on = handle;
  auto const matches = made->all;
  one.last = all.enqueue(stream, {made->text_of_it, uses, nullptr}, made);
  for (auto const& [match, part] : matches)
    if (!match->done) match->parts[part].in_stream = one.last;
  all.changed.notify_all();
}

/// Ends a group: NCCL takes the calls now, or when it has been asked for them.
ncclResult_t give(machine& all) {
  ncclResult_t result = ncclSuccess;
  auto const calls = std::exchange(group().calls, {});
  for (auto const& [handle, what] : calls) {
    nccl_member& one = comm_of(handle);
    one.asks = delays(all);
    if (one.asks != 0) {
      one.given.push_back(what);
      result = ncclInProgress;
    } else {
      launch(all, one, what.first, what.second);
    }
  }
  return result;
}

ncclResult_t request(char const* name, ncclComm_t handle, cudaStream_t stream, nccl_request const& call) {
  return nccl(name, [&](machine& all) {
    nccl_member& one = comm_of(handle);
    require_idle(one, name);
    (void)size_of(call.type);
    if (call.how != ncclSum && call.how != ncclMax && call.how != ncclMin)
      throw nccl_refusal{ncclInvalidArgument, "a reduction that the emulation lacks"};
    bool const transfers = call.kind == nccl_kind::send || call.kind == nccl_kind::receive;
    if (transfers && (call.root < 0 || call.root >= one.of->size))
      throw nccl_refusal{ncclInvalidArgument, text_of(call) + ": there is no such rank"};
    auto& calls = group().calls;
    auto at = std::find_if(calls.begin(), calls.end(), [&](auto const& other) { return other.first == handle; });
    if (at == calls.end()) at = calls.insert(at, {handle, {stream, {}}});
    if (at->second.first != stream)
      throw nccl_refusal{ncclInvalidUsage, "two streams in one group of a communicator; give its calls one stream"};
    at->second.second.push_back(call);
    return group().depth != 0 ? ncclSuccess : give(all);
  });
}

/// Whether no rank is left that may still use it.
bool all_finalized(nccl_world const& world) {
  return std::all_of(world.members.begin(), world.members.end(),
                     [](nccl_member const* one) { return one == nullptr || one->finalized; });
}

/// Makes the groups of a split that all ranks have come to.
void finish_split(machine const& all, nccl_world& world, nccl_split& split) {
  std::map<int, std::vector<std::pair<std::pair<int, int>, int>>> colors;  // (key, rank), by color
  for (auto const& [rank, wish] : split.by_rank) colors[wish.color].push_back({{wish.key, rank}, rank});
  for (auto& [color, members] : colors) {
    std::sort(members.begin(), members.end());
    auto made = std::make_shared<nccl_world>();
    made->name = "communicator " + std::to_string(++nccl_library::get().communicators);
    made->size = made->here = static_cast<int>(members.size());
    for (std::size_t m = 0; m < members.size(); ++m) {
      nccl_member* const parent = world.members[static_cast<std::size_t>(members[m].second)];
      nccl_member* one = nullptr;
      if (color != NCCL_SPLIT_NOCOLOR) {
        one = make(all, made, static_cast<int>(m));
        one->device = parent->device;
        one->joining = false;
        made->members.push_back(one);
        made->devices.push_back(one->device);
      }
      *split.by_rank[members[m].second].out = handle_of(one);
      parent->splitting = false;
    }
  }
}

}  // namespace

ncclResult_t ncclGetVersion(int* out) {
  *out = NCCL_VERSION_CODE;
  return ncclSuccess;
}
char const* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError    ? "remote process exited or there was a network error"
         : code == ncclInvalidUsage ? "invalid usage"
         : code == ncclSuccess      ? "no error"
                                    : "another error (emulated)";
}
char const* ncclGetLastError(ncclComm_t) { return last_words().c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* out) {
  return nccl("ncclGetUniqueId", [&](machine&) {
    *out = {};
    std::string const id = "emulated nccl " + std::to_string(++nccl_library::get().ids);
    std::snprintf(static_cast<char*>(out->internal), sizeof(out->internal), "%s", id.c_str());
    nccl_library::get().worlds[id] = std::make_shared<nccl_world>();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return nccl("ncclCommInitRankConfig", [&](machine& all) {
    *out = nullptr;
    if (config == nullptr || config->size != sizeof(ncclConfig_t) || config->magic != 0xcafebeef ||
        config->blocking != 0)
      throw nccl_refusal{ncclInvalidArgument, "a configuration that was not initialized, or is blocking"};
    if (size < 1 || rank < 0 || rank >= size)
      throw nccl_refusal{ncclInvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(size)};
    id.internal[sizeof(id.internal) - 1] = '\0';
    auto const found = nccl_library::get().worlds.find(static_cast<char const*>(id.internal));
    if (found == nccl_library::get().worlds.end())
      throw nccl_refusal{ncclInvalidArgument, "an id that ncclGetUniqueId did not give"};
    nccl_world& world = *found->second;
    auto const at = static_cast<std::size_t>(rank);
    if (world.size == 0) {
      world.size = size;
      world.name = "communicator " + std::to_string(++nccl_library::get().communicators);
      world.members.resize(static_cast<std::size_t>(size));
    }
    if (world.size != size || world.members[at] != nullptr) {
      world.broken = ncclInvalidUsage;
      throw nccl_refusal{ncclInvalidUsage, world.size != size ? "ranks that do not agree on how many they are"
                                                              : "a second rank " + std::to_string(rank)};
    }
    if (std::find(world.devices.begin(), world.devices.end(), machine::device()) != world.devices.end()) {
      world.broken = ncclInvalidUsage;
      throw nccl_refusal{ncclInvalidUsage, "Duplicate GPU detected: device " + std::to_string(machine::device())};
    }
    world.members[at] = make(all, found->second, rank);
    *out = handle_of(world.members[at]);
    world.devices.push_back(machine::device());
    ++world.here;
    return ncclInProgress;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* out) {
  return nccl("ncclCommGetAsyncError", [&](machine& all) {
    nccl_member& one = comm_of(handle);
    auto const injected = nccl_library::get().injected.find(one.device);
    if (injected != nccl_library::get().injected.end()) one.error = injected->second;
    if (one.of->broken != ncclSuccess) one.error = one.of->broken;
    *out = one.error;
    if (one.error != ncclSuccess) return ncclSuccess;
    *out = ncclInProgress;
    if (one.joining && one.of->here < one.of->size) return ncclSuccess;
    if (one.splitting) return ncclSuccess;
    if (one.asks != 0 && --one.asks != 0) return ncclSuccess;
    if (one.finalized && !all_finalized(*one.of)) return ncclSuccess;
    one.joining = false;
    while (!one.given.empty()) {
      auto const what = std::move(one.given.front());
      one.given.pop_front();
      try {
        launch(all, one, what.first, what.second);
      } catch (nccl_refusal const& wrong) {
        one.error = wrong.code;
        last_words() = one.words = wrong.text;
      } catch (refusal const& wrong) {
        one.error = ncclUnhandledCudaError;
        last_words() = one.words = wrong.text;
      }
    }
    *out = one.error;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  return nccl("ncclCommSplit", [&](machine& all) {
    nccl_member& one = comm_of(handle);
    require_idle(one, "ncclCommSplit");
    if (one.last != nullptr && !one.last->done)
      throw nccl_refusal{ncclInvalidUsage, "a split while operations are under way, which may deadlock"};
    if (config != nullptr) throw nccl_refusal{ncclInvalidArgument, "a configuration; the emulation inherits it"};
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
      throw nccl_refusal{ncclInvalidArgument, "color " + std::to_string(color)};
    *out = nullptr;
    nccl_world& world = *one.of;
    std::uint64_t const number = one.splits++;
    nccl_split& split = world.splits[number];
    split.by_rank[one.rank] = {color, key, out, one.collectives};
    for (auto const& [rank, other] : split.by_rank)
      if (other.after != one.collectives)
        mismatch(all, world,
                 "split " + std::to_string(number) + " of " + world.name + " comes after " +
                     std::to_string(other.after) + " collectives on rank " + std::to_string(rank) + ", and after " +
                     std::to_string(one.collectives) + " on rank " + std::to_string(one.rank) +
                     "; make the same calls on every rank, in one order");
    one.splitting = true;
    if (split.by_rank.size() == static_cast<std::size_t>(world.size)) finish_split(all, world, split);
    return ncclInProgress;
  });
}

ncclResult_t ncclCommCount(ncclComm_t handle, int* out) {
  return nccl("ncclCommCount", [&](machine&) {
    *out = comm_of(handle).of->size;
    return ncclSuccess;
  });
}
ncclResult_t ncclCommUserRank(ncclComm_t handle, int* out) {
  return nccl("ncclCommUserRank", [&](machine&) {
    *out = comm_of(handle).rank;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return nccl("ncclCommFinalize", [&](machine& all) {
    nccl_member& one = comm_of(handle);
    require_idle(one, "ncclCommFinalize");
    if (one.last != nullptr && !one.last->done)
      throw nccl_refusal{ncclInvalidUsage, "operations are under way; the emulation demands that they are waited for"};
    one.finalized = true;
    one.asks = delays(all);
    return one.asks != 0 || !all_finalized(*one.of) ? ncclInProgress : ncclSuccess;
  });
}
namespace {
void release(nccl_member& one) {
  one.of->members[static_cast<std::size_t>(one.rank)] = nullptr;
  nccl_library::get().live.erase(&one);
  delete &one;
}
}  // namespace
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return nccl("ncclCommDestroy", [&](machine&) {
    nccl_member& one = comm_of(handle);
    if (!one.finalized || one.asks != 0) throw nccl_refusal{ncclInvalidUsage, "a communicator that was not finalized"};
    release(one);
    return ncclSuccess;
  });
}
ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return nccl("ncclCommAbort", [&](machine& all) {
    nccl_member& one = comm_of(handle);
    *one.aborted = true;
    ++nccl_library::get().aborted;
    int const device = one.device;
    release(one);
    all.changed.notify_all();
    // Of several in a group NCCL ends all first. One alone may wait for whatever else the device has.
    if (group().depth == 0 && all.lost_code(device) == cudaSuccess) all.finish_device(device);
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return nccl("ncclGroupEnd", [&](machine& all) {
    if (group().depth == 0) throw nccl_refusal{ncclInvalidUsage, "no group was started"};
    return --group().depth != 0 ? ncclSuccess : give(all);
  });
}

ncclResult_t ncclAllReduce(void const* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t how,
                           ncclComm_t comm, cudaStream_t stream) {
  return request("ncclAllReduce", comm, stream, {nccl_kind::all_reduce, in, out, count, type, how, 0});
}
ncclResult_t ncclReduce(void const* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t how, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return request("ncclReduce", comm, stream, {nccl_kind::reduce, in, out, count, type, how, root});
}
ncclResult_t ncclReduceScatter(void const* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t how,
                               ncclComm_t comm, cudaStream_t stream) {
  return request("ncclReduceScatter", comm, stream, {nccl_kind::reduce_scatter, in, out, count, type, how, 0});
}
ncclResult_t ncclAllGather(void const* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return request("ncclAllGather", comm, stream, {nccl_kind::all_gather, in, out, count, type, ncclSum, 0});
}
ncclResult_t ncclBroadcast(void const* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return request("ncclBroadcast", comm, stream, {nccl_kind::broadcast, in, out, count, type, ncclSum, root});
}
ncclResult_t ncclSend(void const* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return request("ncclSend", comm, stream, {nccl_kind::send, in, nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return request("ncclRecv", comm, stream, {nccl_kind::receive, nullptr, out, count, type, ncclSum, peer});
}
