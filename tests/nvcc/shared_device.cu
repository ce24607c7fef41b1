// SPDX-License-Identifier: Apache-2.0
// The ranks of a plan on one device, with every operation: compiled for the default architectures and linked with the
// CUDA runtime. Without a device the green link is the pass.
#include <array>
#include <cstddef>
#include <heddle/cuda/run.hpp>
#include <heddle/layout/names.hpp>
#include <span>
#include <vector>

namespace hd = heddle;

namespace {

struct two_by_two : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::tp, 2>>> {};

template <class T, class Group>
void every_operation(Group& group) {
  using memory = typename Group::memory;
  std::size_t const n = group.size();
  typename memory::template arena<T> const whole(8 * n), other(8 * n), part(8);
  std::span<T> const x(whole.data(), 8 * n), y(other.data(), 8 * n), p(part.data(), 8);
  std::vector<std::size_t> const lengths(n, 8);
  for (hd::comm::reduction const how : {hd::comm::reduction::sum, hd::comm::reduction::max, hd::comm::reduction::min}) {
    group.all_reduce(x, how);
    group.reduce_scatter(x, p, how);
  }
  group.all_gather(p, x);
  std::array<hd::comm::gather_part<T>, 1> const parts{{{p, x}}};
  group.all_gather(hd::comm::gather_parts(parts));
  group.all_to_all(x, y);
  group.all_to_all(x, lengths, y, lengths);
  group.broadcast(x, 0);
  typename Group::handle one = group.all_reduce_async(x);
  typename Group::handle two = group.rank() == 0 ? group.send_async(p, 1) : group.receive_async(p, 0);
  two.wait();
  one.wait();
  group.barrier();
}

}  // namespace

int main() {
  if (hd::cuda::device_count() == 0) return 0;
  hd::run<two_by_two>(hd::shared_device, [](auto& rank) {
    every_operation<float>(rank.template along<hd::tp>());
    every_operation<double>(rank.template along<hd::dp>());
  });
}
