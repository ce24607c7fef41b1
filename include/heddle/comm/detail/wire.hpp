// SPDX-License-Identifier: Apache-2.0
#pragma once
// What processes of a run tell each other over TCP, as bytes. What arrives comes from outside: nothing of it is used
// before it is checked.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle::comm::detail {

/// With which both sides begin: the protocol, and its version.
inline constexpr std::string_view wire_magic{"heddle\1\n", 8};
inline constexpr std::size_t hello_bytes = 24;  // the magic, rank and size
inline constexpr std::size_t frame_head_bytes = 20;
inline constexpr std::size_t most_name_bytes = 4096, most_content_bytes = std::size_t{1} << 20;

enum class frame_type : std::uint32_t { welcome = 1, mail, failure, leave };

struct frame {
  frame_type type = frame_type::mail;
  std::uint32_t from = 0, to = 0;  // of a failure: its rank and its kind
  std::string name{}, content{};
};

/// `bytes` bytes, the lowest first.
inline void put_number(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i) & 255U));
}
[[nodiscard]] inline std::uint64_t number_at(std::string_view in, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(in[at + i])) << (8 * i);
  return value;
}

[[nodiscard]] inline std::string hello_of(std::size_t rank, std::size_t size) {
  std::string out(wire_magic);
  put_number(out, rank, 8);
  put_number(out, size, 8);
  return out;
}

[[nodiscard]] inline std::string bytes_of(frame const& one) {
  std::string out;
  put_number(out, static_cast<std::uint32_t>(one.type), 4);
  put_number(out, one.from, 4);
  put_number(out, one.to, 4);
  put_number(out, one.name.size(), 4);
  put_number(out, one.content.size(), 4);
  return out + one.name + one.content;
}

enum class frame_state : std::uint8_t { whole, partial, malformed };

/// Takes the first frame off `in`, if it is there whole.
[[nodiscard]] inline frame_state take_frame(std::string& in, frame& out) {
  if (in.size() < frame_head_bytes) return frame_state::partial;
  std::uint64_t const type = number_at(in, 0, 4), name = number_at(in, 12, 4), content = number_at(in, 16, 4);
  if (type < 1 || type > 4 || name > most_name_bytes || content > most_content_bytes) return frame_state::malformed;
  if (in.size() < frame_head_bytes + name + content) return frame_state::partial;
  out.type = static_cast<frame_type>(type);
  out.from = static_cast<std::uint32_t>(number_at(in, 4, 4));
  out.to = static_cast<std::uint32_t>(number_at(in, 8, 4));
  out.name = in.substr(frame_head_bytes, name);
  out.content = in.substr(frame_head_bytes + name, content);
  in.erase(0, frame_head_bytes + name + content);
  return frame_state::whole;
}

}  // namespace heddle::comm::detail
