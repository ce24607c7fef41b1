// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::detail {

/// Columns that UTF-8 text takes on a terminal, as far as reports need it: one for each code point.
inline std::size_t columns_of(std::string_view text) {
  std::size_t n = 0;
  for (char c : text) n += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  return n;
}

/// "1,234,567".
inline std::string grouped_digits(std::uint64_t number) {
  std::string const digits = std::to_string(number);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

/// "3.2 MiB", from a hundred on "320 MiB": rounded, for reading.
inline std::string readable_bytes(std::uint64_t bytes) {
  constexpr std::string_view units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  auto size = static_cast<double>(bytes);
  while (size >= 1024 && unit + 1 < std::size(units)) {
    size /= 1024;
    ++unit;
  }
  if (unit == 0) return std::to_string(bytes) + " B";
  auto const tenths = static_cast<std::uint64_t>(size * 10 + 0.5);
  std::string out = std::to_string(tenths / 10);
  if (tenths < 1000) out += "." + std::to_string(tenths % 10);
  return out + std::string(units[unit]);
}

/// Rows of cells, written with aligned columns: the first ones to the left, numbers to the right.
class text_table {
 public:
  /// The columns from `first_number` on are aligned to the right.
  explicit text_table(std::size_t first_number) : first_number_(first_number) {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  [[nodiscard]] std::string text(std::string_view indent = "  ") const {
    std::vector<std::size_t> width;
    for (auto const& row : rows_)
      for (std::size_t c = 0; c < row.size(); ++c) {
        if (c == width.size()) width.push_back(0);
        if (columns_of(row[c]) > width[c]) width[c] = columns_of(row[c]);
      }
    std::string out;
    for (auto const& row : rows_) {
      std::string line(indent);
      for (std::size_t c = 0; c < row.size(); ++c) {
        std::string const room(width[c] - columns_of(row[c]), ' ');
        line += c >= first_number_ ? room + row[c] : row[c] + room;
        line += "  ";
      }
      while (!line.empty() && line.back() == ' ') line.pop_back();
      out += line + '\n';
    }
    return out;
  }

 private:
  std::size_t first_number_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace heddle::detail
