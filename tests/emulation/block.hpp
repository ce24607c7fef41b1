// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

#include <array>
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "fault.hpp"

namespace heddle::emulation {

inline constexpr unsigned warp_size = 32;

/// What a thread waits for.
enum class wait : std::uint8_t { nothing, block, warp, end };

/// How the lanes of a warp meet; those of a mask come to the same meeting.
enum class meeting : std::uint8_t { sync, shuffle, vote, multiply, load_matrix };

/// What a lane leaves for the others.
using brought = std::array<std::uint64_t, 3>;

/// What a lane brings to a meeting beside its mask. Of all but a `__syncwarp` the lanes of a mask agree in all of it,
/// since it is one instruction of the warp: elsewhere, or of another type, the device's behaviour is undefined.
struct form {
  unsigned bytes = 0;  ///< of the value
  int width = 0;       ///< of the segments
  friend bool operator==(form const&, form const&) = default;
};

/// When an access happened: two accesses by different threads are ordered where a barrier of the block is between
/// them, or a `__syncwarp` of the warp of both.
struct access_time {
  std::uint64_t block_epoch = 0, warp_epoch = 0;
};

/// One block of threads, each a fiber. It runs one thread until it waits or ends, then the next; when all have come to
/// a barrier it lets them go on. So whatever order of threads a kernel relies on must come from a barrier.
class block {
 public:
  block(std::string kernel, dim3 grid, dim3 shape, uint3 index, std::size_t dynamic_bytes = 0);
  ~block();
  block(block const&) = delete;
  block& operator=(block const&) = delete;

  /// Runs `body` on every thread. Throws `fault`, or what a thread threw.
  void run(std::function<void()> const& body);

  /// The block that the caller is a thread of.
  [[nodiscard]] static block& current();

  [[nodiscard]] uint3 thread_index() const { return thread_[now_].index; }
  [[nodiscard]] uint3 block_index() const { return index_; }
  [[nodiscard]] dim3 shape() const { return shape_; }
  [[nodiscard]] dim3 grid() const { return grid_; }
  [[nodiscard]] unsigned rank() const { return now_; }  ///< of the calling thread
  [[nodiscard]] access_time time() const { return {epoch_, warp_epoch_[now_ / warp_size]}; }
  [[nodiscard]] std::string name_of_thread(unsigned rank) const;

  void barrier(place const& at);
  /// The caller's lane leaves `value` and meets the lanes of `mask`; then `left_by` has what each of them left.
  void meet(meeting what, unsigned mask, brought const& value, place const& at, form const& how = {});
  [[nodiscard]] brought const& left_by(unsigned lane) const { return left_[now_ / warp_size * warp_size + lane]; }

  /// Shared memory by its declaration, which every thread of the block passes: a static variable stands for it, of
  /// which each instance of a template has its own, as of a `__shared__` one. So an address is one type of array.
  template <class Array>
  Array& shared(void const* declaration, std::size_t size, std::size_t bytes, place const& at) {
    for (declared const& one : shared_)
      if (one.declaration == declaration) return *static_cast<Array*>(one.array.get());
    grow(bytes, at);
    shared_.push_back({declaration, std::make_shared<Array>(at, size)});
    return *static_cast<Array*>(shared_.back().array.get());
  }

  /// The array of the dynamic shared memory that begins at its byte `begin`, which every thread takes alike.
  template <class Array>
  Array& dynamic(std::size_t begin, std::size_t size, std::size_t bytes, place const& at) {
    if (taken const* const one = find(begin, bytes, typeid(Array), at)) return *static_cast<Array*>(one->array.get());
    taken_.push_back({begin, bytes, &typeid(Array), std::make_shared<Array>(at, size)});
    return *static_cast<Array*>(taken_.back().array.get());
  }

  /// Ends the block with this fault of the calling thread.
  [[noreturn]] void fail(std::string const& text) const;

 private:
  struct thread {
    boost::context::fiber fiber{};
    boost::context::stack_context stack{};
    void* fake_stack = nullptr;  ///< the address sanitizer's
    uint3 index{};
    wait state = wait::nothing;
    meeting what = meeting::sync;
    unsigned mask = 0;
    brought value{};  ///< to the meeting
    place at{};
    form how{};
  };
  struct declared {
    void const* declaration;
    std::shared_ptr<void> array;
  };

  struct taken {
    std::size_t begin, bytes;
    std::type_info const* type;
    std::shared_ptr<void> array;
  };

  void enter(unsigned rank);
  void pause();
  void abandon();
  bool release_block();
  bool release_warps();
  void grow(std::size_t bytes, place const& at);
  [[nodiscard]] taken const* find(std::size_t begin, std::size_t bytes, std::type_info const& type,
                                  place const& at) const;
  [[nodiscard]] std::string where(unsigned rank) const;
  [[nodiscard]] std::string stuck() const;
  [[nodiscard]] fault fault_of(std::string const& text) const;

  std::string kernel_;
  dim3 grid_, shape_;
  uint3 index_;
  std::vector<thread> thread_;
  std::vector<brought> left_;              ///< by each thread at the last meeting that is over
  std::vector<std::uint64_t> warp_epoch_;  ///< of each warp
  std::uint64_t epoch_ = 0;
  std::vector<declared> shared_;
  std::vector<taken> taken_;
  std::size_t shared_bytes_ = 0, dynamic_bytes_;
  unsigned now_ = 0;
  bool abandoned_ = false;
  boost::context::fiber scheduler_;
  void const* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_size_ = 0;
  std::exception_ptr error_;
};

}  // namespace heddle::emulation
