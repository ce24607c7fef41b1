// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heddle {

/// A string that can be a template argument.
template <std::size_t N>
struct fixed_string {
  char text[N]{};
  constexpr fixed_string(char const (&literal)[N]) {  // NOLINT(google-explicit-constructor): literals convert
    for (std::size_t i = 0; i < N; ++i) text[i] = literal[i];
  }
  [[nodiscard]] constexpr std::string_view view() const { return {text, N - 1}; }
};

/// What the constexpr algebra compares instead of types: a 64-bit FNV-1a hash of a name. Two names of one program that
/// hash alike would be taken for one; names are few and the hash is wide, and equal spellings are meant to be equal.
using name_id = std::uint64_t;

/// The id of a spelled name; never 0, which stands for "no name".
constexpr name_id id_of(std::string_view name) {
  name_id hash = 14695981039346656037ULL;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash == 0 ? 1 : hash;
}

/// Base of a mesh axis' name: `struct tp : axis_name<"tp"> {};`. The derived type is the tag that users write and that
/// diagnostics show.
template <fixed_string Text>
struct axis_name {
  static constexpr std::string_view name = Text.view();
  using axis_name_tag = void;
};

/// Base of a dimension's name: `struct embed : dim_name<"embed"> {};`.
template <fixed_string Text>
struct dim_name {
  static constexpr std::string_view name = Text.view();
  using dim_name_tag = void;
};

template <class Name>
concept AxisName = requires {
  typename Name::axis_name_tag;
  { Name::name } -> std::convertible_to<std::string_view>;
};

template <class Name>
concept DimName = requires {
  typename Name::dim_name_tag;
  { Name::name } -> std::convertible_to<std::string_view>;
};

template <class Name>
inline constexpr name_id id_v = id_of(Name::name);

}  // namespace heddle
