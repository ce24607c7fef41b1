// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/heddle.hpp>
#include <heddle/layout/layout_of.hpp>
#include <string>

#include "../../tools/plan_program/plan_program.hpp"

namespace hd = heddle;

namespace {

using mesh = hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::cp, 2>, hd::axis<hd::tp, 4>>;
using shape = hd::dims<hd::dim<hd::batch, 8>, hd::dim<hd::sequence, 32>, hd::dim<hd::embed, 16>>;

using model = hd::gpt2<hd::gpt2_config{.vocabulary = 65, .context = 8, .layers = 2, .heads = 2, .width = 16}>;
struct one_rank : hd::plan<> {};
struct eight_ranks : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>,
                              hd::global_batch<12>, hd::accumulate<3>> {};

// What tools/plan tells is of a backend that computes nothing: it must need what the host's does.
struct mixed : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::tp, 2>>, hd::zero<3>, hd::accumulate<2>,
                        hd::precision<hd::bf16_mixed>, hd::logit_chunk<1000>> {};
template <class Plan>
constexpr bool tool_has_the_hosts_ledger() {
  using of_tool = hd::basic_ledger<hd::resolved<model, Plan, host_sizes>>;
  using of_host = hd::ledger<model, Plan>;
  for (std::size_t s = 0; s < of_host::stages; ++s)
    if (!(of_tool::rows(s) == of_host::rows(s)) || !(of_tool::memory(s) == of_host::memory(s))) return false;
  for (std::size_t r = 0; r < Plan::mesh::size; ++r)
    if (hd::coordinates const at = Plan::mesh::value.coordinates_of(r); !(of_tool::traffic(at) == of_host::traffic(at)))
      return false;
  return of_tool::peak_bytes == of_host::peak_bytes;
}
static_assert(tool_has_the_hosts_ledger<one_rank>());
static_assert(tool_has_the_hosts_ledger<eight_ranks>());
static_assert(tool_has_the_hosts_ledger<mixed>());

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("layouts are written as in the design") {
  using by_hand = hd::layout_of<mesh, hd::split<hd::batch, hd::dp, hd::cp>, hd::partial<hd::tp>>;
  CHECK(hd::describe(mesh::value, shape::value, by_hand::value) == "[batch:dp+cp, sequence, embed] partial tp");
  CHECK(hd::describe(mesh::value, shape::value, hd::layout{}) == "[batch, sequence, embed]");
  CHECK(hd::describe(mesh::value, hd::dims<>::value, by_hand::value) == "scalar partial tp");
  CHECK(hd::describe_extents(mesh::value, shape::value, by_hand::value) == "2 × 32 × 16");
  CHECK(hd::describe(mesh::value) == "dp 2 × cp 2 × tp 4");
  CHECK(hd::describe(hd::mesh<>::value) == "one rank");
}

TEST_CASE("the minor axis of a split stands last, whatever the mesh's order") {
  using swapped = hd::layout_of<mesh, hd::split<hd::batch, hd::tp, hd::dp>>;
  CHECK(hd::describe(mesh::value, shape::value, swapped::value) == "[batch:tp+dp, sequence, embed]");
}

TEST_CASE("paths and rules name their axes") {
  using from = hd::layout_of<mesh, hd::split<hd::batch, hd::dp>, hd::partial<hd::tp>>;
  using to = hd::layout_of<mesh, hd::split<hd::batch, hd::dp>, hd::split<hd::sequence, hd::tp>>;
  CHECK(hd::describe(mesh::value, hd::find_redistribution(mesh::value, shape::value, from::value, to::value)) ==
        "reduce_scatter tp");
  CHECK(hd::describe(mesh::value, hd::find_redistribution(mesh::value, shape::value, to::value, to::value)).empty());
  CHECK(hd::describe(mesh::value, hd::rules<hd::shard<hd::batch, hd::dp>, hd::shard<hd::layers, hd::pp>>{}) ==
        "batch→dp");
}

TEST_CASE("tables align by what is seen, not by bytes") {
  hd::detail::text_table table(1);
  table.add({"a × b", "7"});
  table.add({"name", "1,000"});
  CHECK(table.text("") == "a × b      7\nname   1,000\n");
  CHECK(hd::detail::grouped_digits(999) == "999");
  CHECK(hd::detail::grouped_digits(1234567) == "1,234,567");
  CHECK(hd::detail::readable_bytes(1023) == "1023 B");
  CHECK(hd::detail::readable_bytes(3 * 1024 * 1024 / 2) == "1.5 MiB");
}

TEST_CASE("a report's numbers are the ledger's") {
  std::string const text = hd::describe<model, eight_ranks>();
  using ledger = hd::ledger<model, eight_ranks>;
  CHECK(has(text, "dp 2 × pp 2 × tp 2 = 8 ranks"));
  CHECK(has(text, "12 sequences of 8 tokens a step: 2 data ranks × 3 micro-batches × 2 sequences"));
  CHECK(has(text, "2 stages, 1F1B, bubble 1/4 (25.0 %)"));
  CHECK(has(text, "heads→tp, mlp→tp, vocab→tp, batch→dp, layers→pp, sequence→tp"));
  CHECK(has(text, "vocab 65 is stored as 66"));
  CHECK(has(text, hd::detail::grouped_digits(ledger::parameters)));
  for (std::size_t s = 0; s < 2; ++s) CHECK(has(text, hd::detail::grouped_digits(ledger::memory(s).total())));
  for (std::size_t r = 0; r < 8; ++r)
    CHECK(has(text, hd::detail::grouped_digits(ledger::traffic(eight_ranks::mesh::value.coordinates_of(r)).bytes())));
  CHECK(has(text, "[batch:dp, sequence:tp, embed]"));
  CHECK(has(text, "[batch:dp, sequence, heads:tp, qkv, head_dim]"));
  CHECK(has(text, "[layers:pp, mlp:tp, embed]"));
  CHECK(has(text, "[vocab:tp, embed]"));
  CHECK(has(text, "scalar partial dp"));
}

TEST_CASE("ranks that send alike share a column; too many columns become one for each stage") {
  using R = hd::resolved<model, eight_ranks, hd::host_backend>;
  auto const columns = hd::traffic_columns<R>();
  std::size_t most = 0;
  for (auto const& c : columns) most = c.sent.bytes() > most ? c.sent.bytes() : most;
  CHECK(most == hd::most_sent<R>());
  auto const stages = hd::traffic_columns<R>(1);
  REQUIRE(stages.size() == 2);
  CHECK(stages[1].label == "stage 1, at most");
  CHECK((stages[0].sent.bytes() == most || stages[1].sent.bytes() == most));
}

TEST_CASE("one rank sends nothing; a report ends in what the flags of this program, which is not optimized, cost") {
  std::string const text = hd::describe<model, one_rank>();
  std::string const flags = hd::describe_host_flags();
  CHECK(has(flags, "compiled without optimization"));
  CHECK(text == hd::describe_plan<hd::resolved<model, one_rank, hd::host_backend>>() + flags);
  CHECK(has(text, "no rank sends anything"));
  CHECK(has(text, "one rank"));
}
