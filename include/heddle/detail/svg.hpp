// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::detail {

/// Text for XML: the five characters that mean something there are escaped.
inline std::string xml_text(std::string_view text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&apos;";
        break;
      default:
        out += c;
    }
  return out;
}

/// A number with `decimals` decimals and a point, whatever the locale.
inline std::string fixed_text(double value, int decimals) {
  char digits[400];
  auto const end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, decimals);
  return {digits, end.ptr};
}

/// Marks of an axis: whole multiples of a step of 1, 2 or 5 times a power of ten, from the last one not above the least
/// value to the first one not below the greatest.
struct axis_ticks {
  double first = 0;
  double step = 1;
  int count = 2;
  int decimals = 0;  ///< that the labels need

  double at(int i) const { return first + step * i; }
  double last() const { return at(count - 1); }
  std::string label(int i) const { return fixed_text(at(i), decimals); }
};

/// About `wanted` marks for least … greatest, both finite. Equal values get a range around them, and so do those that
/// differ in the seventh digit only, which no label would show.
inline axis_ticks nice_ticks(double least, double greatest, int wanted, bool whole_numbers = false) {
  double const largest = std::fmax(std::fabs(least), std::fabs(greatest));
  if (greatest - least <= (whole_numbers ? 0 : 1e-6 * largest)) {
    double const around = largest == 0 ? 1 : largest / 10;
    least -= around;
    greatest += around;
  }
  double const raw = (greatest - least) / wanted;
  int exponent = static_cast<int>(std::floor(std::log10(raw)));
  double const mantissa = raw / std::pow(10.0, exponent);
  double factor = mantissa <= 1 ? 1 : mantissa <= 2 ? 2 : mantissa <= 5 ? 5 : 10;
  if (whole_numbers && exponent < 0) {
    factor = 1;
    exponent = 0;
  }
  axis_ticks out;
  out.step = factor * std::pow(10.0, exponent);
  out.decimals = exponent + (factor == 10 ? 1 : 0) < 0 ? -exponent - (factor == 10 ? 1 : 0) : 0;
  // A value that is a mark but for its rounding needs no further one: a millionth of a step cannot be seen.
  double const begin = std::floor(least / out.step + 1e-6);
  double const end = std::ceil(greatest / out.step - 1e-6);
  out.first = begin * out.step;
  out.count = static_cast<int>(end - begin) + 1;
  return out;
}

}  // namespace heddle::detail
