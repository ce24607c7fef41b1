// SPDX-License-Identifier: Apache-2.0
// What tensor, sequence, pipeline and data parallelism move: the rows `comm_volume` and `ddp` of
// shared/paper-values.csv, against the constants of placed modules, ledgers and buckets.
#include <doctest/doctest.h>

#include <heddle/layout/layout_of.hpp>

#include "paper.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace paper_traffic {
namespace {

constexpr std::size_t b = 3, s = 16, h = 64, t = 4;  // the letters of arXiv 2104.04473
constexpr std::size_t values = b * s * h;            // of one micro-batch between two layers
constexpr gpt2_config small{.vocabulary = 64, .context = s, .layers = 4, .heads = 8, .width = h};
struct tensor : plan<mesh<axis<tp, t>>, micro_batch<b>, sequence_parallel<false>> {};
struct sequences : plan<mesh<axis<tp, t>>, micro_batch<b>> {};
using boundary = dims<dim<batch, b>, dim<sequence, s>, dim<embed, h>>;
template <class Plan>
using block = placed<detail::gpt2_parts<small>::block, typename on<gpt2<small>, Plan>::modules, boundary>;

/// What a layer sends in forward and backward.
template <class Plan>
constexpr traffic_table of_layer() {
  traffic_table sent{};
  block<Plan>::count_forward(sent, {});
  block<Plan>::count_backward(sent, {});
  return sent;
}
// PTD-090 (s3.2): 8bsh (t-1)/t elements for each layer, device and micro-batch. The sequence rule changes nothing of
// that …
static_assert(of_layer<tensor>().bytes() == 8 * values * (t - 1) / t * sizeof(float));
static_assert(of_layer<sequences>().bytes() == 8 * values * (t - 1) / t * sizeof(float));
// … ACT-064 (arXiv 2205.05198 s4.2.2): it makes four all-gathers and four reduce-scatters of it, and nothing else.
static_assert(of_layer<sequences>().of(0, comm::operation::all_gather).calls == 4);
static_assert(of_layer<sequences>().of(0, comm::operation::reduce_scatter).calls == 4);
static_assert(of_layer<sequences>().of(0, comm::operation::all_reduce).calls == 0);
static_assert(of_layer<sequences>().of(0, comm::operation::all_to_all).calls == 0);

// PTD-091 (s3.2): bsh elements for each micro-batch, stage boundary and direction. A middle stage sends both ways.
constexpr std::size_t micro_batches = 6;
template <class... More>
struct staged : plan<More..., micro_batch<b>, accumulate<micro_batches>> {};
template <class Plan>
constexpr std::size_t sent_along_pipeline(coordinates const& at) {
  return basic_ledger<on<gpt2<small>, Plan>>::traffic(at).of(0, comm::operation::send).bytes;
}
using whole = staged<mesh<axis<pp, 4>, axis<tp, t>>, sequence_parallel<false>>;
static_assert(sent_along_pipeline<whole>({0, 0}) == micro_batches * values * sizeof(float));
static_assert(sent_along_pipeline<whole>({1, 0}) == 2 * micro_batches * values * sizeof(float));
static_assert(sent_along_pipeline<whole>({3, 0}) == micro_batches * values * sizeof(float));
// PTD-092 (s4.1): bsh/t with each value cut over the tensor ranks, which is how the sequence rule leaves it.
using scattered = staged<mesh<axis<pp, 4>, axis<tp, t>>>;
static_assert(sent_along_pipeline<scattered>({0, 0}) == micro_batches * values / t * sizeof(float));
static_assert(sent_along_pipeline<scattered>({1, 0}) == 2 * micro_batches * values / t * sizeof(float));

// SWI-019 (arXiv 2101.03961 s5.4): tokens go to their experts in one all-to-all of E·C·d elements for each core. There
// is no mixture of experts here; this is the redistribution that one would ask for, of tokens in which each core is a
// group.
struct expert : dim_name<"expert"> {};
struct capacity : dim_name<"capacity"> {};
constexpr std::size_t cores = 4, experts = 8, slots = 5;
using cores_mesh = mesh<axis<ep, cores>>;
using dispatched = dims<dim<group, cores>, dim<expert, experts>, dim<capacity, slots>, dim<embed, h>>;
constexpr redistribution dispatch =
    find_redistribution(cores_mesh::value, dispatched::value, layout_of<cores_mesh, split<group, ep>>::value,
                        layout_of<cores_mesh, split<expert, ep>>::value);
static_assert(dispatch.count == 1 && dispatch.step[0].kind == step_kind::all_to_all);
static_assert(dispatch.from_size == experts * slots * h && dispatch.to_size == experts * slots * h);
static_assert(elements_sent(step_kind::all_to_all, dispatch.from_size, cores, 0) ==
              experts * slots * h * (cores - 1) / cores);  // a core keeps what is for its own experts

// DDP-001, 002 (PyTorch's reducer): the first bucket has 1 MiB, those after it 25, unless a plan says otherwise.
struct data : plan<mesh<axis<dp, 2>>> {};
using buckets = gradient_buckets<on<gpt2<gpt2_config{}>, data>, stage_kind::whole>;
static_assert(buckets::count == 1 && buckets::of[0].first * sizeof(float) == 1048576);
static_assert(buckets::of[0].length * sizeof(float) == 26214400 && data::bucket_bytes == 26214400);
// All of GPT-2 in fp32, 474.7 MiB.
static_assert(buckets::of[0].total == 124439808 && buckets::of[0].buckets() == 1 + 19);

// DDP-005: 0.4, 0.4, 0.4, 10, 10, 10 and 3 MiB make three buckets. PyTorch closes one when it has become too large,
// here one is cut where it is full, so their ends differ: (1.2, 30, 3) there, (1, 25, 8.2) here.
constexpr std::size_t mebibyte = MiB / sizeof(float);
constexpr bucket_class ddp_5 = [] {
  bucket_class c = buckets::of[0];
  c.total = 3 * (mebibyte * 4 / 10) + 3 * 10 * mebibyte + 3 * mebibyte;
  return c;
}();
static_assert(ddp_5.buckets() == 3);
static_assert(ddp_5.length_of(0) == mebibyte && ddp_5.length_of(1) == 25 * mebibyte);
static_assert(ddp_5.length_of(2) == ddp_5.total - 26 * mebibyte);

}  // namespace

TEST_CASE("every tensor rank of a layer sends the same") {
  for (std::size_t rank = 0; rank < t; ++rank) {
    traffic_table sent{};
    block<tensor>::count_forward(sent, {rank});
    block<tensor>::count_backward(sent, {rank});
    CHECK(sent == of_layer<tensor>());
  }
}

}  // namespace paper_traffic
