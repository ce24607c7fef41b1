// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <heddle/detail/number_text.hpp>

namespace heddle::detail {

/// A part of a text: a number, or characters that stay where they are until the text is made.
class text_part {
 public:
  // NOLINTBEGIN(google-explicit-constructor): what stands in a list of parts converts
  constexpr text_part(char const* text) : text_part(std::string_view(text)) {}
  constexpr text_part(std::string_view text) : characters(text.data()), size_(text.size()) {}
  text_part(std::string const& text) : text_part(std::string_view(text)) {}
  template <std::unsigned_integral N>
  requires(!std::same_as<N, bool> && !std::same_as<N, char>) constexpr text_part(N number)
      : natural(number), size_(is_natural) {}
  template <std::signed_integral N>
  requires(!std::same_as<N, char>) constexpr text_part(N number) : integer(number), size_(is_integer) {}
  /// As `number_text` writes it.
  template <std::floating_point N>
  constexpr text_part(N number) : real(number), size_(is_real) {}
  // NOLINTEND(google-explicit-constructor)

  [[gnu::cold]] void append_to(std::string& out) const {
    char digits[20];  // of 64 bits and a sign
    switch (size_) {
      case is_natural:
        out.append(digits, std::to_chars(digits, digits + sizeof digits, natural).ptr);
        break;
      case is_integer:
        out.append(digits, std::to_chars(digits, digits + sizeof digits, integer).ptr);
        break;
      case is_real:
        out += number_text(real);
        break;
      default:
        out.append(characters, size_);
    }
  }

 private:
  // Two words, since a list of parts is what is left of a text where it is made. No text has these lengths.
  static constexpr std::size_t is_natural = SIZE_MAX, is_integer = SIZE_MAX - 1, is_real = SIZE_MAX - 2;
  union {
    char const* characters;
    std::uint64_t natural;
    std::int64_t integer;
    double real;
  };
  std::size_t size_;
};

/// The parts, one after the other: `joined_text({"rank ", rank, " failed"})`. Errors are written with it, because it is
/// compiled once: a `+` between strings is inlined wherever it stands, and those were a seventh of what the compiler
/// made of a small training program. Being cold it tells the compiler that whoever calls it is hardly ever run, so what
/// is written in the course of a run, such as a line of metrics, is put together otherwise. The list does not keep its
/// parts: write it where it is used.
[[gnu::cold, gnu::noinline]] inline std::string joined_text(std::initializer_list<text_part> parts) {
  std::string text;
  for (text_part const& one : parts) one.append_to(text);
  return text;
}

}  // namespace heddle::detail
