// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <heddle/detail/file.hpp>
#include <heddle/detail/svg.hpp>
#include <heddle/train/metrics.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

namespace detail {

struct loss_point {
  double step;
  double loss;
};

/// Pixels of the plot's inside.
struct plot_frame {
  double left = 64, top = 72, width = 640, height = 320;
  axis_ticks x, y;

  double across(double step) const { return left + width * (step - x.first) / (x.last() - x.first); }
  double down(double loss) const { return top + height * (y.last() - loss) / (y.last() - y.first); }
};

inline std::vector<loss_point> finite_losses(std::span<metrics_row const> rows,
                                             std::optional<double> metrics_row::*value) {
  std::vector<loss_point> points;
  for (auto const& row : rows)
    if (auto const& loss = row.*value; loss && std::isfinite(*loss))
      points.push_back({static_cast<double>(row.step), *loss});
  return points;
}

/// The curve; of the points in one column of pixels only the lowest and the highest can be seen, so only these are
/// kept.
inline std::string polyline(plot_frame const& frame, std::vector<loss_point> const& points) {
  std::string out;
  auto const put = [&](loss_point const& p) {
    out += fixed_text(frame.across(p.step), 1) + "," + fixed_text(frame.down(p.loss), 1) + " ";
  };
  for (std::size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    std::size_t low = begin, high = begin;
    double const column = std::floor(frame.across(points[begin].step));
    for (end = begin; end < points.size() && std::floor(frame.across(points[end].step)) == column; ++end) {
      if (points[end].loss < points[low].loss) low = end;
      if (points[end].loss > points[high].loss) high = end;
    }
    put(points[low < high ? low : high]);
    if (low != high) put(points[low < high ? high : low]);
  }
  if (!out.empty()) out.pop_back();
  return out;
}

inline constexpr std::string_view loss_svg_style = R"(<style>
text{font:13px system-ui,sans-serif;fill:#333}
.title{font-size:16px;font-weight:600}
.back{fill:#fff}.grid{stroke:#ddd}.axis{stroke:#888}
.curve{fill:none;stroke-width:1.5;stroke-linejoin:round}
.train{stroke:#1f6fb4}.validation{stroke:#c2410c;stroke-dasharray:7 4}.dot{fill:#c2410c}
@media (prefers-color-scheme:dark){
text{fill:#ddd}
.back{fill:#16181c}.grid{stroke:#33363c}.axis{stroke:#888}
.train{stroke:#6bb1f0}.validation{stroke:#ff9a5c}.dot{fill:#ff9a5c}
}
</style>
)";

inline std::string svg_text(double x, double y, std::string_view attributes, std::string_view text) {
  return "<text x=\"" + fixed_text(x, 1) + "\" y=\"" + fixed_text(y, 1) + "\" " + std::string(attributes) + ">" +
         xml_text(text) + "</text>\n";
}

inline std::string svg_line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + fixed_text(x1, 1) + "\" y1=\"" + fixed_text(y1, 1) +
         "\" x2=\"" + fixed_text(x2, 1) + "\" y2=\"" + fixed_text(y2, 1) + "\"/>\n";
}

inline std::string svg_axes(plot_frame const& frame) {
  std::string out;
  double const bottom = frame.top + frame.height, right = frame.left + frame.width;
  for (int i = 0; i < frame.y.count; ++i) {
    double const y = frame.down(frame.y.at(i));
    out += svg_line(frame.left, y, right, y, "grid");
    out += svg_text(frame.left - 8, y + 4.5, "text-anchor=\"end\"", frame.y.label(i));
  }
  for (int i = 0; i < frame.x.count; ++i) {
    double const x = frame.across(frame.x.at(i));
    out += svg_line(x, bottom, x, bottom + 5, "axis");
    out += svg_text(x, bottom + 20, "text-anchor=\"middle\"", frame.x.label(i));
  }
  out += svg_line(frame.left, bottom, right, bottom, "axis");
  out += svg_line(frame.left, frame.top, frame.left, bottom, "axis");
  out += svg_text(frame.left + frame.width / 2, bottom + 42, "text-anchor=\"middle\"", "step");
  double const middle = frame.top + frame.height / 2;
  out += svg_text(18, middle, "text-anchor=\"middle\" transform=\"rotate(-90 18 " + fixed_text(middle, 1) + ")\"",
                  "loss, nats per token");
  return out;
}

/// One entry of the legend, above the plot where no curve runs: a piece of the curve, its name and its last value.
inline std::string legend_entry(plot_frame const& frame, int number, std::string_view name, double last) {
  double const x = frame.left + 200 * number, y = frame.top - 18;
  return svg_line(x, y - 4.5, x + 26, y - 4.5, "curve " + std::string(name)) +
         svg_text(x + 34, y, "", std::string(name) + ", last " + fixed_text(last, 4));
}

}  // namespace detail

/// The curves of training (solid) and validation loss (dashed) over steps as one SVG, readable on light and dark pages
/// and without colours. Losses that were not measured or are not finite are left out; the picture says so where no loss
/// is left.
inline std::string loss_svg(std::span<metrics_row const> rows, std::string_view title) {
  using namespace detail;
  auto const train = finite_losses(rows, &metrics_row::train_loss);
  auto const validation = finite_losses(rows, &metrics_row::validation_loss);
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 736 448\" width=\"736\" height=\"448\" role=\"img\">\n"
      "<title>" +
      xml_text(title) + "</title>\n" + std::string(loss_svg_style) +
      "<rect class=\"back\" width=\"736\" height=\"448\" rx=\"6\"/>\n" + svg_text(64, 30, "class=\"title\"", title);
  if (train.empty() && validation.empty()) return out + svg_text(64, 70, "", "no loss was measured") + "</svg>\n";

  auto least = train.empty() ? validation.front() : train.front();
  auto greatest = least;
  for (auto const* points : {&train, &validation})
    for (auto const& p : *points) {
      least = {std::fmin(least.step, p.step), std::fmin(least.loss, p.loss)};
      greatest = {std::fmax(greatest.step, p.step), std::fmax(greatest.loss, p.loss)};
    }
  plot_frame frame;
  frame.x = nice_ticks(least.step, greatest.step, 8, true);
  frame.y = nice_ticks(least.loss, greatest.loss, 6);
  out += svg_axes(frame);
  int number = 0;
  if (!train.empty()) {
    out += "<polyline class=\"curve train\" points=\"" + polyline(frame, train) + "\"/>\n";
    out += legend_entry(frame, number++, "train", train.back().loss);
  }
  if (!validation.empty()) {
    out += "<polyline class=\"curve validation\" points=\"" + polyline(frame, validation) + "\"/>\n";
    if (validation.size() <= 200)
      for (auto const& p : validation)
        out += "<circle class=\"dot\" r=\"2.5\" cx=\"" + fixed_text(frame.across(p.step), 1) + "\" cy=\"" +
               fixed_text(frame.down(p.loss), 1) + "\"/>\n";
    out += legend_entry(frame, number, "validation", validation.back().loss);
  }
  return out + "</svg>\n";
}

/// Writes the picture; the file appears at once.
inline void write_loss_svg(std::string const& path, std::span<metrics_row const> rows,
                           std::string_view title = "loss") {
  detail::atomic_file out(path);
  out.write(loss_svg(rows, title));
  out.commit();
}

}  // namespace heddle
