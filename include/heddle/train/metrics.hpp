// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <charconv>
#include <cstdint>
#include <heddle/detail/file.hpp>
#include <heddle/detail/joined_text.hpp>
#include <heddle/detail/number_text.hpp>
#include <heddle/error.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

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

/// The first line of metrics.csv.
inline constexpr std::string_view metrics_header =
    "step,tokens,train_loss,validation_loss,gradient_norm,learning_rate,tokens_per_second";

/// One line of metrics.csv, with its line end.
inline std::string metrics_line(metrics_row const& row) {
  std::string line = std::to_string(row.step) + "," + std::to_string(row.tokens);
  for (auto const& value :
       {row.train_loss, row.validation_loss, row.gradient_norm, row.learning_rate, row.tokens_per_second}) {
    line += ',';
    if (value) line += detail::number_text(*value);
  }
  return line += '\n';
}

namespace detail {

/// Reads one line without its end; false where it is not a row.
inline bool parse_metrics_line(std::string_view line, metrics_row& row) {
  std::optional<double>* const values[] = {&row.train_loss, &row.validation_loss, &row.gradient_norm,
                                           &row.learning_rate, &row.tokens_per_second};
  char const* at = line.data();
  char const* const end = at + line.size();
  for (std::uint64_t* number : {&row.step, &row.tokens}) {
    auto const read = std::from_chars(at, end, *number);
    if (read.ec != std::errc{} || read.ptr == end || *read.ptr != ',') return false;
    at = read.ptr + 1;
  }
  for (auto* value : values) {
    bool const is_last = value == values[4];
    if (at != end && *at != ',') {
      double number = 0;
      auto const read = std::from_chars(at, end, number);
      if (read.ec != std::errc{}) return false;
      *value = number;
      at = read.ptr;
    }
    if (is_last) return at == end;
    if (at == end || *at != ',') return false;
    ++at;
  }
  return false;
}

}  // namespace detail

/// Reads a metrics.csv. A last line without its end, begun when a run was killed, is passed over; an error where
/// anything else is not as this library writes it.
inline std::vector<metrics_row> read_metrics(std::string const& path) {
  auto const in = detail::file::open_to_read(path);
  std::string text(static_cast<std::size_t>(in.size()), '\0');
  in.read_at(0, text.data(), text.size());
  std::string const header = std::string(metrics_header) + "\n";
  if (text.compare(0, header.size(), header) != 0)
    throw error(detail::joined_text(
        {"'", path, "': does not begin with \"", metrics_header, "\"; give the metrics.csv of a run"}));
  std::vector<metrics_row> rows;
  for (std::size_t at = header.size(), end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    rows.emplace_back();
    if (!detail::parse_metrics_line(std::string_view(text).substr(at, end - at), rows.back()))
      throw error(detail::joined_text(
          {"'", path, "': the line at byte ", at, " is not a row of numbers; repair or remove the line"}));
  }
  return rows;
}

/// Writes metrics.csv. A new file takes the place of an old one at once, with its header; then each row is in the file
/// when `write` returns, handed over in one piece. One rank writes.
class metrics_file {
 public:
  explicit metrics_file(std::string const& path) : metrics_file(path, std::string(metrics_header) + "\n") {}

  /// Continues the file of an interrupted run from `next_step`: keeps its rows before that step and drops the others,
  /// whose steps will be done again. An error where the file is not a metrics.csv of this library.
  static metrics_file resume(std::string const& path, std::uint64_t next_step) {
    std::string kept = std::string(metrics_header) + "\n";
    for (auto const& row : read_metrics(path))
      if (row.step < next_step) kept += metrics_line(row);
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
