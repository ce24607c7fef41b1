// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/detail/file.hpp>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/train/token_source.hpp>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

// A token file, little-endian (docs/reference/file-formats.md):
//     bytes  0 …  7   "hdtokens"
//           8 … 11    version, 1
//          12 … 15    bytes of one token: 2, or 4 where the vocabulary is above 65536
//          16 … 23    vocabulary
//          24 … 31    number of tokens
//          32 …       the tokens, and nothing after them
namespace detail {

inline constexpr std::string_view token_file_magic = "hdtokens";
inline constexpr std::size_t token_file_header = 32;
inline constexpr std::uint64_t token_file_version = 1;
inline constexpr std::uint64_t greatest_vocabulary = std::uint64_t{1} << 31;  // tokens are std::int32_t
inline constexpr std::size_t token_file_block = 8192;                         // tokens converted at a time

constexpr std::size_t token_width(std::uint64_t vocabulary) { return vocabulary <= 65536 ? 2 : 4; }

inline std::uint64_t little_endian(unsigned char const* bytes, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

inline void put_little_endian(std::uint64_t value, std::size_t width, char* out) {
  for (std::size_t i = 0; i < width; ++i) out[i] = static_cast<char>(static_cast<unsigned char>(value >> 8 * i));
}

}  // namespace detail

/// A token file opened to read. The header is checked against the file when it is opened, each token when it is copied,
/// so nothing that a damaged or hostile file says is used unchecked. Windows are read from the file as they are asked
/// for (the operating system caches them): memory does not grow with the file. Any number of ranks may share one.
class token_file {
 public:
  /// Errors name the file, the value found and the remedy.
  explicit token_file(std::string const& path) : file_(detail::file::open_to_read(path)) {
    if (file_.size() < detail::token_file_header)
      refuse({"has ", file_.size(), " bytes; a token file begins with a header of 32"});
    unsigned char header[detail::token_file_header];
    file_.read_at(0, header, sizeof header);
    for (std::size_t i = 0; i < detail::token_file_magic.size(); ++i)
      if (header[i] != static_cast<unsigned char>(detail::token_file_magic[i]))
        refuse({"does not begin with \"hdtokens\" (byte ", i, " is ", header[i],
                "), so it is not a token file; read text with byte_tokens or character_vocabulary"});
    if (auto const version = detail::little_endian(header + 8, 4); version != detail::token_file_version)
      refuse({"has version ", version, "; this library reads version 1"});
    auto const width = detail::little_endian(header + 12, 4);
    auto const vocabulary = detail::little_endian(header + 16, 8);
    auto const count = detail::little_endian(header + 24, 8);
    if (vocabulary == 0 || vocabulary > detail::greatest_vocabulary)
      refuse({"states a vocabulary of ", vocabulary, "; it must be from 1 to 2^31"});
    if (width != detail::token_width(vocabulary))
      refuse({"states ", width, " bytes for a token of a vocabulary of ", vocabulary, "; it must be ",
              detail::token_width(vocabulary)});
    std::uint64_t const bytes = file_.size() - detail::token_file_header;
    if (count > bytes / width || count * width != bytes)
      refuse({"states ", count, " tokens of ", width, " bytes, but ", bytes,
              " bytes follow the header; it was cut off or damaged"});
    width_ = static_cast<std::size_t>(width);
    vocabulary_ = static_cast<std::size_t>(vocabulary);
    size_ = static_cast<std::size_t>(count);
  }

  std::string const& path() const { return file_.path(); }
  std::size_t size() const { return size_; }
  std::size_t vocabulary() const { return vocabulary_; }

  /// Tokens first … first + count − 1; an error where one is missing or not below the vocabulary.
  void copy(std::size_t first, std::size_t count, std::int32_t* out) const {
    detail::check_token_range(name(), size_, first, count);
    unsigned char bytes[4 * detail::token_file_block];
    while (count > 0) {
      std::size_t const now = count < detail::token_file_block ? count : detail::token_file_block;
      file_.read_at(detail::token_file_header + std::uint64_t{first} * width_, bytes, now * width_);
      for (std::size_t i = 0; i < now; ++i) {
        auto const value = detail::little_endian(bytes + i * width_, width_);
        if (value >= vocabulary_)
          refuse({"token number ", first + i, " is ", value, "; it must be less than the vocabulary, ", vocabulary_});
        out[i] = static_cast<std::int32_t>(value);
      }
      first += now;
      count -= now;
      out += now;
    }
  }

 private:
  std::string name() const { return "'" + file_.path() + "'"; }
  [[noreturn, gnu::cold]] void refuse(std::initializer_list<detail::text_part> fault) const {
    throw error(detail::joined_text(
        {name(), ": ", detail::joined_text(fault), "; write the file again with heddle::token_file_writer"}));
  }

  detail::file file_;
  std::size_t width_ = 2;
  std::size_t vocabulary_ = 0;
  std::size_t size_ = 0;
};

/// Writes a token file piece by piece. The file appears under its name at `commit`, complete and on the disk; without
/// it the name keeps what it had.
class token_file_writer {
 public:
  token_file_writer(std::string const& path, std::size_t vocabulary)
      : path_(path), vocabulary_(vocabulary), out_(path) {
    if (vocabulary == 0 || vocabulary > detail::greatest_vocabulary)
      throw error(detail::joined_text({"'", path, "': a token file's vocabulary cannot be ", vocabulary,
                                       "; give the number of different tokens, from 1 to 2^31"}));
    out_.write(header());
  }

  /// An error where a token is not in [0, vocabulary).
  void append(std::span<std::int32_t const> tokens) {
    detail::check_tokens("'" + path_ + "'", vocabulary_, tokens.data(), tokens.size(), size_);
    std::size_t const width = detail::token_width(vocabulary_);
    char bytes[4 * detail::token_file_block];
    for (std::size_t done = 0; done < tokens.size();) {
      std::size_t const left = tokens.size() - done;
      std::size_t const now = left < detail::token_file_block ? left : detail::token_file_block;
      for (std::size_t i = 0; i < now; ++i)
        detail::put_little_endian(static_cast<std::uint64_t>(tokens[done + i]), width, bytes + i * width);
      out_.write({bytes, now * width});
      done += now;
    }
    size_ += tokens.size();
  }

  /// Call once, last.
  void commit() {
    out_.write_at(0, header());
    out_.commit();
  }

 private:
  std::string header() const {
    std::string bytes(detail::token_file_header, '\0');
    bytes.replace(0, detail::token_file_magic.size(), detail::token_file_magic);
    detail::put_little_endian(detail::token_file_version, 4, bytes.data() + 8);
    detail::put_little_endian(detail::token_width(vocabulary_), 4, bytes.data() + 12);
    detail::put_little_endian(vocabulary_, 8, bytes.data() + 16);
    detail::put_little_endian(size_, 8, bytes.data() + 24);
    return bytes;
  }

  std::string path_;
  std::size_t vocabulary_;
  std::size_t size_ = 0;
  detail::atomic_file out_;
};

}  // namespace heddle
