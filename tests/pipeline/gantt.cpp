// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <heddle/pipeline/gantt_svg.hpp>
#include <heddle/pipeline/gpipe.hpp>
#include <heddle/pipeline/one_f_one_b.hpp>

namespace gantt_test {
namespace {

namespace pl = heddle::schedules;

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}
bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

TEST_CASE("the chart has a row per stage and a box per compute action") {
  std::string const svg = pl::gantt_svg<heddle::one_f_one_b, 4, 8>("1F1B");
  CHECK(holds(svg, "<title>1F1B: 4 stages, 8 micro-batches, bubble 3/11 of total time</title>"));
  CHECK(count(svg, "class=\"f edge\"") == 4 * 8);
  CHECK(count(svg, "class=\"b edge\"") == 4 * 8);
  CHECK(count(svg, ">stage ") == 4);
  CHECK(holds(svg, ">stage 3</text>"));
  CHECK(holds(svg, "backward, micro-batch 7, chunk 0: 31 to 33</title>"));
  CHECK(holds(svg, ">33</text>"));
  CHECK(holds(svg, ">time; a forward takes 1</text>"));
  CHECK(holds(pl::gantt_svg<heddle::gpipe, 2, 1, pl::schedule_costs{.forward = 3, .backward = 5}>("g"),
              ">time; a forward takes 3</text>"));
  CHECK(holds(svg, "prefers-color-scheme:dark"));
  CHECK(count(svg, "<g>") == count(svg, "</g>"));
  CHECK(count(svg, "<text") == count(svg, "</text>"));
  CHECK(svg.starts_with("<svg xmlns="));
  CHECK(svg.ends_with("</svg>\n"));
  // Self-contained: the namespace is the only address.
  CHECK(count(svg, "http") == 1);
}

TEST_CASE("boxes stand where the timeline puts them, in proportion") {
  std::string const svg = pl::gantt_svg<heddle::gpipe, 2, 1>("gpipe");  // 6 units of 30 pixels, from 70 on
  CHECK(holds(svg, "class=\"f edge\" x=\"70\" y=\"44\" width=\"30\""));
  CHECK(holds(svg, "class=\"f edge\" x=\"100\" y=\"74\" width=\"30\""));
  CHECK(holds(svg, "class=\"b edge\" x=\"130\" y=\"74\" width=\"60\""));
  CHECK(holds(svg, "class=\"b edge\" x=\"190\" y=\"44\" width=\"60\""));
  CHECK(holds(svg, "2 stages, 1 micro-batch, bubble 1/2"));
}

TEST_CASE("the legend names what occurs, and the title is text") {
  using enum pl::action_kind;
  constexpr pl::timed_action row[] = {
      {{forward, 0, 0}, 0, 1}, {{backward_input, 0, 1}, 1, 2}, {{backward_weight, 0, 0}, 2, 3}};
  std::span<pl::timed_action const> const rows[] = {row};
  std::string const svg = pl::gantt_svg(rows, "a < b & \"c\"");
  CHECK(holds(svg, "<title>a &lt; b &amp; &quot;c&quot;</title>"));
  CHECK(holds(svg, ">backward, input</text>"));
  CHECK(holds(svg, ">backward, weight</text>"));
  CHECK_FALSE(holds(svg, ">backward</text>"));
  CHECK(holds(svg, "class=\"i odd edge\""));
  CHECK(count(svg, " odd") == 1);
}

TEST_CASE("long charts keep boxes visible and drop the numbers that do not fit") {
  std::string const svg = pl::gantt_svg<heddle::one_f_one_b, 2, 256>("1F1B");
  CHECK(count(svg, "class=\"f edge\"") == 2 * 256);
  CHECK(count(svg, "class=\"n nf\"") == 0);
  CHECK_FALSE(holds(svg, "width=\"0\""));
  std::string const empty = pl::gantt_svg({}, "nothing");
  CHECK(holds(empty, ">idle</text>"));
}

TEST_CASE("the charts of the reference page are what the library draws") {
  auto const read = [](std::string const& name) {
    std::ifstream file(HEDDLE_DOCS_FOLDER "/" + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  CHECK(read("schedule-gpipe.svg") == pl::gantt_svg<heddle::gpipe, 4, 8>("gpipe"));
  CHECK(read("schedule-one-f-one-b.svg") == pl::gantt_svg<heddle::one_f_one_b, 4, 8>("one_f_one_b"));
}

}  // namespace gantt_test
