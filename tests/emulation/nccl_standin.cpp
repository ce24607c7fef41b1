// SPDX-License-Identifier: Apache-2.0
// The stand-in for NCCL finds what is planted: calls that do not belong together, missing waits, orders that cannot
// end.
#include <doctest/doctest.h>
#include <nccl.h>

#include <array>
#include <chrono>
#include <functional>
#include <heddle/backend/cuda/device.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/nccl_status.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../comm/watchdog.hpp"
#include "nccl_ranks.hpp"

namespace {

using namespace heddle;
using emulation::has;
using testing::watchdog;
using namespace std::chrono_literals;

/// One rank of NCCL, used by its own functions.
struct raw_rank {
  int rank;
  ncclComm_t comm = nullptr;
  cuda::stream on;
  cuda::device_arena<float> a{8}, b{8};

  raw_rank(int number, int size, ncclUniqueId id) : rank(number) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    settle(ncclCommInitRankConfig(&comm, size, id, number, &config));
  }
  ~raw_rank() { (void)ncclCommAbort(comm); }
  raw_rank(raw_rank const&) = delete;
  raw_rank& operator=(raw_rank const&) = delete;
  void settle(ncclResult_t status) const {
    while (status == ncclInProgress) {
      std::this_thread::sleep_for(100us);
      cuda::check_nccl(ncclCommGetAsyncError(comm, &status), "ncclCommGetAsyncError");
    }
    cuda::check_nccl(status, "the call");
  }
  void all_reduce(std::size_t count = 8, ncclDataType_t type = ncclFloat, ncclRedOp_t how = ncclSum) const {
    settle(ncclAllReduce(a.data(), a.data(), count, type, how, comm, on.get()));
  }
  void broadcast(int root) const { settle(ncclBroadcast(a.data(), a.data(), 8, ncclFloat, root, comm, on.get())); }
  void gather() const { settle(ncclAllGather(a.data(), b.data(), 4, ncclFloat, comm, on.get())); }
  void send(int to) const { settle(ncclSend(a.data(), 8, ncclFloat, to, comm, on.get())); }
  void receive(int from) const { settle(ncclRecv(b.data(), 8, ncclFloat, from, comm, on.get())); }
};

/// `body(rank)` on two ranks, in each mode; all that was thrown and found, of each mode.
std::vector<std::string> found(std::function<void(raw_rank&)> const& body, std::chrono::milliseconds patience = 500ms) {
  watchdog const guard(60s);
  std::vector<std::string> texts;
  for (std::uint64_t const seed : {0, 2, 3}) {
    emulation::session const here({.mode = seed == 0 ? emulation::execution::eager : emulation::execution::delayed,
                                   .seed = seed,
                                   .devices = 2,
                                   .patience = patience});
    emulation::reset_nccl();
    ncclUniqueId id;
    cuda::check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    std::array<std::string, 2> thrown;
    auto const rank = [&](int r) {
      cuda::select_device(r);
      try {
        raw_rank mine(r, 2, id);
        try {
          body(mine);
          mine.on.synchronize();
        } catch (heddle::error const& one) {
          thrown[static_cast<std::size_t>(r)] = one.what();
        }
        (void)ncclCommAbort(std::exchange(mine.comm, nullptr));
      } catch (heddle::error const&) {  // what a lost device still says
      }
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
    texts.push_back(thrown[0] + thrown[1] + emulation::take_fault());
    emulation::reset_nccl();
    emulation::reset_devices();
  }
  return texts;
}
void all_have(std::vector<std::string> const& texts, std::vector<std::string> const& parts) {
  for (std::string const& text : texts)
    for (std::string const& part : parts) CHECK_MESSAGE(has(text, part), text);
}

}  // namespace

TEST_CASE("calls that belong together are not a fault") {
  for (std::string const& text : found([](raw_rank& one) {
         one.all_reduce();
         one.gather();
         one.broadcast(1);
         one.rank == 0 ? one.send(1) : one.receive(0);
         one.rank == 0 ? one.receive(1) : one.send(0);
       }))
    CHECK(text == "");
}
TEST_CASE("planted: swapped collectives") {
  all_have(found([](raw_rank& one) {
             one.rank == 0 ? one.all_reduce() : one.broadcast(0);
             one.rank == 0 ? one.broadcast(0) : one.all_reduce();
           }),
           {"collective 0 of communicator 1 has different operations: rank ", "calls all_reduce of 8 float32 (sum)",
            "calls broadcast of 8 float32 of root 0"});
}
TEST_CASE("planted: a collective that one rank leaves out") {
  all_have(found([](raw_rank& one) {
             if (one.rank == 0) one.all_reduce();
             one.gather();
           }),
           {"has different operations", "calls all_reduce of 8 float32 (sum)", "calls all_gather of 4 float32"});
  all_have(
      found([](raw_rank& one) {
        if (one.rank == 0) one.all_reduce();
      }),
      {"nothing can go on: rank 0's all_reduce of 8 float32 (sum) (collective 0 of communicator 1) waits for rank 1 "
       "(which has not called)"});
}
TEST_CASE("planted: another count, type, reduction, root") {
  all_have(found([](raw_rank& one) { one.all_reduce(one.rank == 0 ? 8 : 4); }),
           {"has different counts", "all_reduce of 8 float32 (sum)", "all_reduce of 4 float32 (sum)"});
  all_have(found([](raw_rank& one) { one.all_reduce(8, one.rank == 0 ? ncclFloat : ncclInt); }),
           {"has different types", "all_reduce of 8 int32 (sum)"});
  all_have(found([](raw_rank& one) { one.all_reduce(8, ncclFloat, one.rank == 0 ? ncclSum : ncclMax); }),
           {"has different reductions", "all_reduce of 8 float32 (max)"});
  all_have(found([](raw_rank& one) { one.broadcast(one.rank); }), {"has different roots"});
}
TEST_CASE("planted: a transfer of which the sides differ") {
  all_have(found([](raw_rank& one) {
             if (one.rank == 0) return one.send(1);
             one.settle(ncclRecv(one.b.data(), 4, ncclFloat, 0, one.comm, one.on.get()));
           }),
           {"transfer 0 from rank 0 to rank 1 of communicator 1 has different counts", "send of 8 float32 to rank 1",
            "receive of 4 float32 from rank 0"});
}
TEST_CASE("planted: both send before both receive, outside a group") {
  all_have(found([](raw_rank& one) {
             one.send(1 - one.rank);
             one.receive(1 - one.rank);
           }),
           {"deadlock: rank ", "'s send of 8 float32 to rank ", "'s receive of 8 float32 from rank ",
            ", and comes after it"});
  for (std::string const& text : found([](raw_rank& one) {  // as a group it ends
         cuda::check_nccl(ncclGroupStart(), "ncclGroupStart");
         one.send(1 - one.rank);
         one.receive(1 - one.rank);
         one.settle(ncclGroupEnd());
       }))
    CHECK(text == "");
}
TEST_CASE("planted: the result of a collective is used without a wait") {
  all_have(found([](raw_rank& one) {
             cuda::stream const other;
             one.all_reduce();
             cuda::fill_zero<float>(other, {one.a.data(), 8});
           }),
           {"race: a fill of 32 bytes on stream ", "which rank ", "'s all_reduce of 8 float32 (sum)"});
  all_have(found([](raw_rank& one) {
             cuda::stream const other;
             cuda::fill_zero<float>(other, {one.a.data(), 8});
             one.all_reduce();
             other.synchronize();
           }),
           {"race: rank ", "which a fill of 32 bytes on stream "});
  for (std::string const& text : found([](raw_rank& one) {  // with both waits it is none
         cuda::stream const other;
         cuda::event const before, after;
         cuda::fill_zero<float>(other, {one.a.data(), 8});
         other.record(before);
         one.on.wait(before);
         one.all_reduce();
         one.on.record(after);
         other.wait(after);
         cuda::fill_zero<float>(other, {one.a.data(), 8});
         other.synchronize();
       }))
    CHECK(text == "");
}
TEST_CASE("planted: memory outside, and in and out that overlap") {
  all_have(found([](raw_rank& one) { one.all_reduce(9); }), {"all_reduce of 9 float32 (sum)", "uses"});
  all_have(found([](raw_rank& one) {
             one.settle(ncclAllGather(one.a.data() + 1, one.a.data(), 2, ncclFloat, one.comm, one.on.get()));
           }),
           {"in and out overlap, and are not in place"});
}
TEST_CASE("planted: a call while the communicator is in progress") {
  std::size_t refused = 0;
  for (std::string const& text : found([](raw_rank& one) {
         for (int i = 0; i < 8; ++i)
           (void)ncclAllReduce(one.a.data(), one.a.data(), 8, ncclFloat, ncclSum, one.comm, one.on.get());
         one.all_reduce();
       }))
    if (has(text, "while the communicator is in progress; ask ncclCommGetAsyncError first")) ++refused;
  CHECK(refused >= 1);
}
TEST_CASE("planted: ids, ranks and devices that are wrong") {
  emulation::session const here({.devices = 2});
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId id{};
  ncclComm_t first = nullptr, second = nullptr;
  CHECK(ncclCommInitRankConfig(&first, 2, id, 0, &config) == ncclInvalidArgument);
  CHECK(has(ncclGetLastError(nullptr), "an id that ncclGetUniqueId did not give"));
  cuda::check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  CHECK(ncclCommInitRankConfig(&first, 2, id, 2, &config) == ncclInvalidArgument);
  CHECK(ncclCommInitRankConfig(&first, 2, id, 0, &config) == ncclInProgress);
  CHECK(ncclCommInitRankConfig(&second, 2, id, 1, &config) == ncclInvalidUsage);
  CHECK(has(ncclGetLastError(nullptr), "Duplicate GPU detected: device 0"));
  cuda::select_device(1);
  CHECK(ncclCommInitRankConfig(&second, 3, id, 1, &config) == ncclInvalidUsage);
  CHECK(ncclCommInitRankConfig(&second, 2, id, 0, &config) == ncclInvalidUsage);
  CHECK(ncclCommDestroy(first) == ncclInvalidUsage);
  CHECK(has(ncclGetLastError(nullptr), "a communicator that was not finalized"));
  CHECK(ncclCommAbort(first) == ncclSuccess);
  CHECK(ncclCommAbort(first) == ncclInvalidArgument);
  cuda::select_device(0);
  emulation::reset_nccl();
}
