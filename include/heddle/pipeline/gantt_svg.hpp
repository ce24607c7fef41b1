// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <heddle/detail/svg.hpp>
#include <heddle/pipeline/analysis.hpp>
#include <heddle/pipeline/timeline.hpp>

namespace heddle::schedules {

namespace detail {

// Hundredths of a pixel as text: exact, and the same in every locale.
inline std::string pixels(std::uint64_t hundredths) {
  std::string out = std::to_string(hundredths / 100);
  std::uint64_t const rest = hundredths % 100;
  if (rest != 0) {
    out += rest < 10 ? ".0" : ".";
    out += std::to_string(rest);
  }
  return out;
}

inline char const* css_class(action_kind kind) {
  switch (kind) {
    case action_kind::forward:
      return "f";
    case action_kind::backward_input:
      return "i";
    case action_kind::backward_weight:
      return "w";
    default:
      return "b";
  }
}

}  // namespace detail

/// Draws a timeline as one self-contained SVG: a row per stage, a box per compute action with its micro-batch number
/// (tinted for odd chunks), grey where the stage idles, a time axis in the unit of the costs, and a legend of what
/// occurs. Follows the reader's light or dark preference. Numbers are left out of boxes too narrow for them; each box
/// has a tooltip.
///
/// `rows[s]` are the compute actions of stage s in order of time; `title` stands above and is read out; `time` stands
/// under the time axis, and says its unit.
[[nodiscard]] inline std::string gantt_svg(std::span<std::span<timed_action const> const> rows, std::string_view title,
                                           std::string_view time = "time") {
  constexpr std::uint64_t left = 70;
  constexpr std::uint64_t top = 44;
  constexpr std::uint64_t row_height = 30;
  constexpr std::uint64_t box_height = 24;
  std::uint64_t makespan = 1;
  std::array<bool, 4> occurs{};
  for (auto const& row : rows) {
    for (timed_action const& a : row) {
      if (a.end > makespan) makespan = a.end;
      occurs[static_cast<std::size_t>(a.what.kind)] = true;
    }
  }
  // About 1000 pixels, within bounds that keep short charts from bloating and long ones from vanishing.
  std::uint64_t unit = 100000 / makespan;  // hundredths of a pixel
  if (unit > 3000) unit = 3000;
  if (unit < 200) unit = 200;
  std::uint64_t const chart = (makespan * unit + 99) / 100;
  std::uint64_t const head = 24 + 9 * title.size();
  std::uint64_t const wanted = left + (chart < 360 ? 360 : chart) + 24;  // the legend needs 360
  std::uint64_t const width = wanted < head ? head : wanted;
  std::uint64_t const axis = top + rows.size() * row_height + 4;
  std::uint64_t const height = axis + 62;
  auto const text = [](auto n) { return std::to_string(n); };

  std::string const heading = heddle::detail::xml_text(title);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + text(width) + "\" height=\"" + text(height) +
                    "\" viewBox=\"0 0 " + text(width) + ' ' + text(height) + "\" role=\"img\">\n";
  svg += "<title>" + heading + "</title>\n";
  svg += R"(<style>
.page{fill:#ffffff} .idle{fill:#e6e8eb} .line{stroke:#6b7280;stroke-width:1}
text{font:13px system-ui,sans-serif;fill:#1f2328} .head{font-size:15px;font-weight:600} .small{font-size:11px}
.f{fill:#2f6db3} .b{fill:#f0a04b} .i{fill:#f0a04b} .w{fill:#7a5ba6} .odd{opacity:.72} .edge{stroke:#ffffff;stroke-width:1}
.n{font-size:12px;text-anchor:middle} .nf,.nw{fill:#ffffff} .nb,.ni{fill:#1f2328}
@media (prefers-color-scheme:dark){
.page{fill:#14171a} .idle{fill:#2b3036} .line{stroke:#9aa4af} text{fill:#e6e8eb} .edge{stroke:#14171a}
.nf,.nw{fill:#ffffff} .nb,.ni{fill:#14171a}}
</style>
)";
  svg += "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
  svg += "<text class=\"head\" x=\"12\" y=\"26\">" + heading + "</text>\n";
  for (std::size_t s = 0; s < rows.size(); ++s) {
    std::uint64_t const y = top + s * row_height;
    svg += "<text x=\"12\" y=\"" + text(y + 17) + "\">stage " + text(s) + "</text>\n";
    svg += "<rect class=\"idle\" x=\"" + text(left) + "\" y=\"" + text(y) + "\" width=\"" +
           detail::pixels(makespan * unit) + "\" height=\"" + text(box_height) + "\"/>\n";
    for (timed_action const& a : rows[s]) {
      std::uint64_t const x = left * 100 + a.start * unit;
      std::uint64_t const wide = (a.end - a.start) * unit;
      std::string const number = text(a.what.micro_batch);
      std::string const kind = detail::css_class(a.what.kind);
      svg += "<g><title>" + std::string(name(a.what.kind)) + ", micro-batch " + number + ", chunk " +
             text(a.what.chunk) + ": " + text(a.start) + " to " + text(a.end) + "</title>";
      svg += "<rect class=\"" + kind + (a.what.chunk % 2 == 1 ? " odd" : "") + " edge\" x=\"" + detail::pixels(x) +
             "\" y=\"" + text(y) + "\" width=\"" + detail::pixels(wide) + "\" height=\"" + text(box_height) + "\"/>";
      if (wide >= 800 * number.size() + 400)
        svg += "<text class=\"n n" + kind + "\" x=\"" + detail::pixels(x + wide / 2) + "\" y=\"" + text(y + 17) +
               "\">" + number + "</text>";
      svg += "</g>\n";
    }
  }
  std::string const ends = detail::pixels(left * 100 + makespan * unit);
  svg += "<path class=\"line\" d=\"M" + text(left) + ' ' + text(axis) + 'H' + ends + "\"/>\n";
  svg += "<text class=\"small\" x=\"" + text(left) + "\" y=\"" + text(axis + 15) + "\">0</text>\n";
  svg += "<text class=\"small\" text-anchor=\"end\" x=\"" + ends + "\" y=\"" + text(axis + 15) + "\">" +
         text(makespan) + "</text>\n";
  svg += "<text class=\"small\" text-anchor=\"middle\" x=\"" + detail::pixels(left * 100 + makespan * unit / 2) +
         "\" y=\"" + text(axis + 15) + "\">" + heddle::detail::xml_text(time) + "</text>\n";

  std::uint64_t x = left;
  auto const legend = [&](std::string const& classes, std::string const& label) {
    svg += "<rect class=\"" + classes + "\" x=\"" + text(x) + "\" y=\"" + text(axis + 28) +
           "\" width=\"16\" height=\"16\"/><text x=\"" + text(x + 22) + "\" y=\"" + text(axis + 41) + "\">" + label +
           "</text>\n";
    x += 42 + 8 * label.size();
  };
  constexpr std::array<action_kind, 4> kinds{action_kind::forward, action_kind::backward, action_kind::backward_input,
                                             action_kind::backward_weight};
  constexpr std::array<char const*, 4> labels{"forward", "backward", "backward, input", "backward, weight"};
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (occurs[static_cast<std::size_t>(kinds[k])]) legend(detail::css_class(kinds[k]), labels[k]);
  legend("idle", "idle");
  svg += "</svg>\n";
  return svg;
}

/// The chart of a schedule: its title is the given name with the sizes and the bubble.
template <class S, std::size_t Stages, std::size_t MicroBatches, schedule_costs Costs = schedule_costs{}>
[[nodiscard]] std::string gantt_svg(std::string_view schedule_name) {
  std::array<std::span<timed_action const>, Stages> rows;
  for (std::size_t s = 0; s < Stages; ++s) rows[s] = timeline<S, Stages, MicroBatches, Costs>::stage(s);
  ratio const bubble = schedule_analysis<S, Stages, MicroBatches, Costs>::bubble_of_total.normalised();
  std::string title(schedule_name);
  title += ": " + std::to_string(Stages) + (Stages == 1 ? " stage, " : " stages, ");
  title += std::to_string(MicroBatches) + (MicroBatches == 1 ? " micro-batch, " : " micro-batches, ");
  title += "bubble " + std::to_string(bubble.num) + '/' + std::to_string(bubble.den) + " of total time";
  return gantt_svg(rows, title, "time; a forward takes " + std::to_string(Costs.forward));
}

}  // namespace heddle::schedules
