// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <heddle/train/loss_svg.hpp>
#include <limits>
#include <string>
#include <vector>

#include "scratch_folder.hpp"

using heddle::metrics_row;
using heddle::detail::nice_ticks;

namespace loss_svg_test {
namespace {

std::string labels(heddle::detail::axis_ticks const& ticks) {
  std::string out;
  for (int i = 0; i < ticks.count; ++i) out += ticks.label(i) + " ";
  return out;
}

std::size_t count_of(std::string const& text, std::string const& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("marks of axes are round numbers around the values") {
  CHECK(labels(nice_ticks(1.52, 4.17, 6)) == "1.5 2.0 2.5 3.0 3.5 4.0 4.5 ");
  CHECK(labels(nice_ticks(0, 2000, 8)) == "0 500 1000 1500 2000 ");
  CHECK(labels(nice_ticks(0.1, 0.3, 4)) == "0.10 0.15 0.20 0.25 0.30 ");
  CHECK(labels(nice_ticks(-3, 5, 4)) == "-4 -2 0 2 4 6 ");
  CHECK(labels(nice_ticks(7, 7, 4)) == "6.0 6.5 7.0 7.5 8.0 ");
  CHECK(labels(nice_ticks(0, 2, 8, true)) == "0 1 2 ");
  CHECK(labels(nice_ticks(0, 9.5, 1)) == "0 10 ");
  CHECK(nice_ticks(1e-9, 4e-9, 4).decimals == 9);
}

TEST_CASE("marks surround values that are nearly equal, far from 0, or both") {
  auto const surround = [](double least, double greatest, bool whole) {
    auto const ticks = nice_ticks(least, greatest, 6, whole);
    CAPTURE(least);
    CAPTURE(greatest);
    CHECK(ticks.first <= least + 1e-5 * ticks.step);
    CHECK(ticks.last() >= greatest - 1e-5 * ticks.step);
    CHECK(ticks.count >= 2);
    CHECK(ticks.count <= 9);
    if (least == 2.5) CHECK(ticks.label(0).size() <= 9);
  };
  for (double const least : {0.0, 2.5, -2.5, 1e-9, 1e9, 1e15})
    for (double const relative : {0.0, 1e-16, 1e-14, 1e-12, 2e-12, 5e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-3, 1.0})
      surround(least, least + relative * std::fmax(std::fabs(least), 1e-9), false);
  for (double const step : {0.0, 7.0, 1e9, 1e15})
    for (double const steps : {0.0, 1.0, 2.0, 17.0, 1e6}) surround(step, step + steps, true);
}

TEST_CASE("the picture has both curves, each finite loss in its place") {
  std::vector<metrics_row> rows;
  for (std::uint64_t step = 0; step <= 4; ++step)
    rows.push_back({.step = step, .train_loss = 4.0 - 0.5 * static_cast<double>(step)});
  rows[0].validation_loss = 4;
  rows[4].validation_loss = 3;
  rows[2].train_loss = std::numeric_limits<double>::quiet_NaN();
  auto const svg = heddle::loss_svg(rows, "a < b & \"c\"");
  CHECK(count_of(svg, "<title>a &lt; b &amp; &quot;c&quot;</title>") == 1);
  // x: 640 pixels for steps 0 … 4 from 64 on; y: 320 pixels for 4.0 … 2.0 from 72 on
  CHECK(count_of(svg, "class=\"curve train\" points=\"64.0,72.0 224.0,152.0 544.0,312.0 704.0,392.0\"") == 1);
  CHECK(count_of(svg, "class=\"curve validation\" points=\"64.0,72.0 704.0,232.0\"") == 1);
  CHECK(count_of(svg, "<circle") == 2);
  CHECK(count_of(svg, "train, last 2.0000") == 1);
  CHECK(count_of(svg, "validation, last 3.0000") == 1);
  CHECK(count_of(svg, "nan") == 0);
  CHECK(count_of(svg, "prefers-color-scheme:dark") == 1);
  // Told apart without colours: dashes, in the legend as in the plot.
  CHECK(count_of(svg, ".validation{stroke:#c2410c;stroke-dasharray:") == 1);
  CHECK(count_of(svg, "stroke-dasharray") == 1);
  CHECK(count_of(svg, "<line class=\"curve validation\"") == 1);
}

TEST_CASE("many steps make a picture of bounded size that keeps the extremes") {
  std::vector<metrics_row> rows;
  for (std::uint64_t step = 0; step < 200000; ++step) rows.push_back({.step = step, .train_loss = 2.0});
  rows[123456].train_loss = 6;
  auto const svg = heddle::loss_svg(rows, "long");
  CHECK(svg.size() < 40000);
  CHECK(count_of(svg, ",72.0 ") == 1);  // the top of the plot: the spike
}

TEST_CASE("runs with one loss or none are drawn, and files appear whole") {
  scratch_folder const folder;
  CHECK(count_of(heddle::loss_svg({}, "t"), "no loss was measured") == 1);
  std::vector<metrics_row> const one{{.step = 7, .validation_loss = 1.0}};
  heddle::write_loss_svg(folder / "loss.svg", one);
  auto const svg = bytes_of(folder / "loss.svg");
  CHECK(svg.substr(0, 4) == "<svg");
  CHECK(svg.substr(svg.size() - 7) == "</svg>\n");
  CHECK(count_of(svg, "curve train") == 0);
  CHECK(folder.files() == 1);
}

}  // namespace loss_svg_test
