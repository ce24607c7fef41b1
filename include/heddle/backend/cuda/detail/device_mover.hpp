// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <communication/copy_blocks.cuh>
#include <communication/join_ranks.cuh>
#include <cstddef>
#include <heddle/backend/cuda/detail/device_rank.hpp>
#include <heddle/backend/cuda/launch.hpp>
#include <heddle/comm/detail/thread_transfer.hpp>
#include <heddle/comm/element.hpp>
#include <heddle/comm/reduction.hpp>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace heddle::cuda::detail {

/// Threads of a block, and blocks at most, of the kernels that move data: some for each multiprocessor of the largest
/// device. Results do not depend on them.
inline constexpr int communication_threads = 256;
inline constexpr unsigned communication_blocks = 1024;

/// `data_mover::join` for one element type and reduction.
using device_join = void (*)(stream_ref on, void const* const* sources, std::size_t ranks, std::size_t offset,
                             std::size_t count, void* const* outs, std::size_t results);
template <class T, comm::reduction How>
void join_on_device(stream_ref on, void const* const* sources, std::size_t ranks, std::size_t offset, std::size_t count,
                    void* const* outs, std::size_t results) {
  using accumulator = typename comm::element_traits<T>::accumulator;
  kernels::rank_arrays<T const> in{};
  kernels::rank_arrays<T> out{};
  std::array<memory_use, kernels::most_ranks> read{}, written{};
  std::size_t reads_alone = 0;
  for (std::size_t k = 0; k < results; ++k) {
    out.of[k] = static_cast<T*>(outs[k]);
    written[k] = use_of(writes(out.of[k], count));
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    in.of[r] = static_cast<T const*>(sources[r]) + offset;
    if (std::find(out.of, out.of + results, in.of[r]) == out.of + results)
      read[reads_alone++] = use_of(reads(in.of[r], count));
  }
  launch<kernels::join_ranks<T, accumulator, How, communication_threads>>(
      {.grid = kernels::pack_grid<T, communication_threads>(static_cast<long long>(count), communication_blocks),
       .block = dim3(communication_threads)},
      on, carries(in, std::span<memory_use const>(read.data(), reads_alone)), ranks,
      carries(out, std::span<memory_use const>(written.data(), results)), results, count);
}

/// As `collective_call::join` has it.
template <class T>
comm::detail::mover_join device_join_of(comm::reduction how) {
  device_join const one = how == comm::reduction::sum   ? &join_on_device<T, comm::reduction::sum>
                          : how == comm::reduction::max ? &join_on_device<T, comm::reduction::max>
                                                        : &join_on_device<T, comm::reduction::min>;
  return reinterpret_cast<comm::detail::mover_join>(one);
}

/// The ranks of a run on one device; each adds itself before its first call.
using device_ranks = std::vector<std::shared_ptr<device_rank>>;

/// Moves the data of one group's calls, on the communication stream of its first member: after the work that each
/// member had before its call, and before what each does when it has waited for the call. Nothing waits on the host.
class device_mover : public comm::detail::data_mover {
 public:
  device_mover(device_ranks const& all, std::vector<std::size_t> ranks) : all_(&all), ranks_(std::move(ranks)) {}

  void begin(comm::detail::mover_call* const* calls, std::size_t members) override {
    select_device(rank(0).execution().device());  // of this thread, which may be a rank's helper
    calls_ = calls;
    copies_ = 0;
    for (std::size_t m = 0; m < members; ++m) stream().wait(of(calls[m]).called);
  }
  void copy(void const* from, void* to, std::size_t bytes) override {
    if (copies_ == kernels::block_copies::most) copy_now();
    list_.from[copies_] = static_cast<unsigned char const*>(from);
    list_.to[copies_] = static_cast<unsigned char*>(to);
    list_.bytes[copies_++] = static_cast<long long>(bytes);
  }
  void join(comm::detail::mover_join how, void const* const* sources, std::size_t ranks, std::size_t offset,
            std::size_t count, void* const* outs, std::size_t results) override {
    reinterpret_cast<device_join>(how)(stream(), sources, ranks, offset, count, outs, results);
  }
  void end() override {
    copy_now();
    for (std::size_t m = 0; m < ranks_.size(); ++m) stream().record(of(calls_[m]).ended);
  }

  /// On the sender's stream: transfers of one pair keep their order.
  void move(comm::detail::transfer const& from, comm::detail::transfer const& to) override {
    stream_ref const on = rank(from.self).communication();
    select_device(rank(from.self).execution().device());
    on.wait(of(from.on_mover).called);
    on.wait(of(to.on_mover).called);
    std::size_t const bytes = from.count * from.element_size;
    copy_on_device<unsigned char>(on, {static_cast<unsigned char*>(to.to), bytes},
                                  {static_cast<unsigned char const*>(from.from), bytes});
    on.record(of(from.on_mover).ended);
    on.record(of(to.on_mover).ended);
  }

 private:
  [[nodiscard]] device_rank& rank(std::size_t m) const { return *(*all_)[ranks_[m]]; }
  [[nodiscard]] stream_ref stream() const { return rank(0).communication(); }
  static device_call& of(comm::detail::mover_call* one) { return *static_cast<device_call*>(one); }

  void copy_now() {
    if (copies_ == 0) return;
    long long longest = 0;
    std::array<memory_use, 2 * kernels::block_copies::most> uses{};
    for (std::size_t i = 0; i < copies_; ++i) {
      longest = std::max(longest, list_.bytes[i]);
      auto const bytes = static_cast<std::size_t>(list_.bytes[i]);
      uses[2 * i] = use_of(reads(list_.from[i], bytes));
      uses[2 * i + 1] = use_of(writes(list_.to[i], bytes));
    }
    launch<kernels::copy_blocks<communication_threads>>(
        {.grid = kernels::copy_grid<communication_threads>(
             longest, static_cast<int>(copies_), std::max(communication_blocks / static_cast<unsigned>(copies_), 16U)),
         .block = dim3(communication_threads)},
        stream(), carries(list_, std::span<memory_use const>(uses.data(), 2 * copies_)));
    copies_ = 0;
  }

  device_ranks const* all_;
  std::vector<std::size_t> ranks_;
  comm::detail::mover_call* const* calls_ = nullptr;
  kernels::block_copies list_{};
  std::size_t copies_ = 0;
};

/// Those of a run. Its ranks are here as long as any of its groups.
class device_movers : public comm::detail::data_movers {
 public:
  explicit device_movers(std::size_t ranks) : ranks_(ranks) {}
  [[nodiscard]] device_ranks& ranks() { return ranks_; }

  [[nodiscard]] std::unique_ptr<comm::detail::data_mover> of(std::vector<std::size_t> const& ranks) override {
    return std::make_unique<device_mover>(ranks_, ranks);
  }

 private:
  device_ranks ranks_;
};

}  // namespace heddle::cuda::detail
