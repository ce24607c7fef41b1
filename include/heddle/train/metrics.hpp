// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <charconv>
#include <cstdint>
#include <heddle/detail/file.hpp>
#include <heddle/error.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace heddle {

/// One row of metrics.csv; what was not measured is an empty field.
struct metrics_row {
  std::uint64_t step = 0;              ///< number of the step, from 0; of the next step, where only validation was done
  std::uint64_t tokens = 0;            ///< trained on so far, all ranks together
  std::optional<double> train_loss{};  ///< nats per token, of the step's global batch
  std::optional<double> validation_loss{};    ///< nats per token
  std::optional<double> gradient_norm{};      ///< global, before clipping
  std::optional<double> learning_rate{};      ///< of the step
  std::optional<double> tokens_per_second{};  ///< all ranks together
};

inline constexpr std::string_view metrics_header =
    "step,tokens,train_loss,validation_loss,gradient_norm,learning_rate,tokens_per_second";

namespace detail {

/// Shortest text that reads back as the same double, with a point whatever the locale.
inline void append_number(std::string& out, double value) {
  char digits[32];
  auto const end = std::to_chars(digits, digits + sizeof digits, value);
  out.append(digits, end.ptr);
}

}  // namespace detail

/// One line of metrics.csv, with its line end.
inline std::string metrics_line(metrics_row const& row) {
  std::string line = std::to_string(row.step) + "," + std::to_string(row.tokens);
  for (auto const& value :
       {row.train_loss, row.validation_loss, row.gradient_norm, row.learning_rate, row.tokens_per_second}) {
    line += ',';
    if (value) detail::append_number(line, *value);
  }
  return line += '\n';
}

/// Writes metrics.csv. A new file takes the place of an old one at once, with its header; then each row is in the file
/// when `write` returns, in one piece, so a reader or a crash never sees half a row. One rank writes.
class metrics_file {
 public:
  explicit metrics_file(std::string const& path) : metrics_file(path, std::string(metrics_header) + "\n") {}

  /// Continues the file of an interrupted run from `next_step`: keeps its rows before that step, drops later ones (they
  /// will be trained again). An error where the file is not a metrics.csv of this library.
  static metrics_file resume(std::string const& path, std::uint64_t next_step) {
    auto const in = detail::file::open_to_read(path);
    std::string text(static_cast<std::size_t>(in.size()), '\0');
    in.read_at(0, text.data(), text.size());
    std::string kept = std::string(metrics_header) + "\n";
    if (text.compare(0, kept.size(), kept) != 0)
      throw error("'" + path + "': does not begin with \"" + std::string(metrics_header) +
                  "\"; resume with the metrics.csv of the run, or start a new one");
    for (std::size_t at = kept.size(); at < text.size();) {
      std::size_t const end = text.find('\n', at);
      if (end == std::string::npos) break;  // begun when the power failed
      std::uint64_t step = 0;
      auto const read = std::from_chars(text.data() + at, text.data() + text.size(), step);
      if (read.ec != std::errc{} || *read.ptr != ',')
        throw error("'" + path + "': the line at byte " + std::to_string(at) +
                    " is not a row; repair or remove the line, or start a new file");
      if (step < next_step) kept.append(text, at, end + 1 - at);
      at = end + 1;
    }
    return metrics_file(path, kept);
  }

  void write(metrics_row const& row) { out_.write(metrics_line(row)); }

 private:
  metrics_file(std::string const& path, std::string const& beginning) : out_(replace(path, beginning)) {}
  static detail::file replace(std::string const& path, std::string const& beginning) {
    detail::atomic_file next(path);
    next.write(beginning);
    return next.commit();
  }

  detail::file out_;
};

}  // namespace heddle
