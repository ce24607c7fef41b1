// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <heddle/train/token_file.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "scratch_folder.hpp"

using heddle::token_file;
using heddle::token_file_writer;

namespace token_file_test {
namespace {

std::vector<std::int32_t> counted(std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

void write(std::string const& path, std::size_t vocabulary, std::vector<std::int32_t> const& tokens) {
  token_file_writer out(path, vocabulary);
  out.append(tokens);
  out.commit();
}

std::vector<std::int32_t> read(std::string const& path) {
  token_file const in(path);
  std::vector<std::int32_t> tokens(in.size());
  in.copy(0, in.size(), tokens.data());
  return tokens;
}

/// A file of four tokens, 0 to 3 of a vocabulary of 5, with one change.
std::string changed(scratch_folder const& folder, std::size_t at, std::string const& bytes) {
  write(folder / "good.bin", 5, counted(4));
  std::string all = bytes_of(folder / "good.bin");
  all.replace(at, bytes.size(), bytes);
  put_bytes(folder / "bad.bin", all);
  return folder / "bad.bin";
}

}  // namespace

static_assert(heddle::TokenSource<token_file> && heddle::TokenSource<heddle::token_buffer> &&
              heddle::TokenSource<heddle::token_slice<token_file>>);

TEST_CASE("the bytes of a file are those of the documented format") {
  scratch_folder const folder;
  write(folder / "a.bin", 50257, {1, 258, 50256});
  using namespace std::string_literals;
  CHECK(bytes_of(folder / "a.bin") == "hdtokens\1\0\0\0\2\0\0\0\x51\xC4\0\0\0\0\0\0\3\0\0\0\0\0\0\0\1\0\2\1\x50\xC4"s);
  CHECK(folder.files() == 1);
}

TEST_CASE("round trips, also of many pieces and wide tokens") {
  scratch_folder const folder;
  for (std::size_t count : {0u, 1u, 8191u, 8192u, 8193u, 20000u}) {
    CAPTURE(count);
    write(folder / "a.bin", 65536, counted(count));
    CHECK(read(folder / "a.bin") == counted(count));
  }
  CHECK(bytes_of(folder / "a.bin").size() == 32 + 2 * 20000);

  token_file_writer wide(folder / "wide.bin", 128256);
  wide.append(counted(9000));
  wide.append(std::vector<std::int32_t>{128255, 65536, 0});
  wide.commit();
  auto expected = counted(9000);
  expected.insert(expected.end(), {128255, 65536, 0});
  CHECK(read(folder / "wide.bin") == expected);
  CHECK(bytes_of(folder / "wide.bin").size() == 32 + 4 * 9003);
}

TEST_CASE("any window can be read, and nothing outside the file") {
  scratch_folder const folder;
  write(folder / "a.bin", 1000, counted(1000));
  token_file const in(folder / "a.bin");
  CHECK(in.size() == 1000);
  CHECK(in.vocabulary() == 1000);
  std::int32_t out[3] = {-1, -1, -1};
  in.copy(997, 3, out);
  CHECK(out[2] == 999);
  in.copy(1000, 0, out);
  for (auto const& [first, count] :
       {std::pair<std::size_t, std::size_t>{998, 3}, {1001, 0}, {SIZE_MAX, 1}, {1, SIZE_MAX}})
    CHECK_THROWS_WITH_AS(in.copy(first, count, out), doctest::Contains("has 1000 tokens"), heddle::error);
  heddle::token_slice const slice(in, 10, 5);
  slice.copy(2, 3, out);
  CHECK(out[0] == 12);
  CHECK_THROWS_WITH_AS(slice.copy(3, 3, out), doctest::Contains("has 5 tokens"), heddle::error);
  CHECK_THROWS_AS(heddle::token_slice(in, 999, 2), heddle::error);
}

TEST_CASE("damaged and hostile files are refused with the reason") {
  scratch_folder const folder;
  using namespace std::string_literals;
  auto const refused = [](std::string const& path, char const* reason) {
    CHECK_THROWS_WITH_AS(token_file{path}, doctest::Contains(reason), heddle::error);
    CHECK_THROWS_WITH_AS(token_file{path}, doctest::Contains(path.c_str()), heddle::error);
  };
  refused(folder / "absent.bin", "cannot be opened to read (No such file or directory)");
  refused(folder / ".", "is not a regular file");
  put_bytes(folder / "short.bin", "");
  refused(folder / "short.bin", "has 0 bytes; a token file begins with a header of 32");
  put_bytes(folder / "short.bin", "hdtokens");
  refused(folder / "short.bin", "has 8 bytes");
  refused(changed(folder, 3, "x"), "does not begin with \"hdtokens\" (byte 3 is 120)");
  refused(changed(folder, 8, "\2"), "has version 2; this library reads version 1");
  refused(changed(folder, 8, "\0\0\0\1"s), "has version 16777216");  // written with the other byte order
  refused(changed(folder, 12, "\4"), "states 4 bytes for a token of a vocabulary of 5; it must be 2");
  refused(changed(folder, 12, "\0"s), "states 0 bytes");
  refused(changed(folder, 16, "\0"s), "states a vocabulary of 0");
  refused(changed(folder, 20, "\1"), "states a vocabulary of 4294967301");
  refused(changed(folder, 24, "\5"), "states 5 tokens of 2 bytes, but 8 bytes follow the header");
  refused(changed(folder, 24, "\3"), "states 3 tokens");
  // 2 · (2^63 + 4) is 8 in 64 bits: a product would have passed.
  refused(changed(folder, 24, "\4\0\0\0\0\0\0\x80"s), "states 9223372036854775812 tokens");
  std::string const good = bytes_of(folder / "good.bin");
  put_bytes(folder / "odd.bin", good + "\1");
  refused(folder / "odd.bin", "states 4 tokens of 2 bytes, but 9 bytes follow");
  put_bytes(folder / "cut.bin", good.substr(0, good.size() - 1));
  refused(folder / "cut.bin", "but 7 bytes follow");
}

TEST_CASE("whatever one byte of the header becomes, it is refused, or is a vocabulary that tokens are held to") {
  scratch_folder const folder;
  write(folder / "good.bin", 5, counted(4));
  std::string const good = bytes_of(folder / "good.bin");
  for (std::size_t at = 0; at < 32; ++at)
    for (int value = 0; value < 256; ++value) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(value);
      put_bytes(folder / "changed.bin", bytes);
      CAPTURE(at);
      CAPTURE(value);
      std::size_t const vocabulary = at == 16   ? static_cast<std::size_t>(value)
                                     : at == 17 ? 5 + 256 * static_cast<std::size_t>(value)
                                                : 0;
      if (bytes == good || vocabulary > 3)
        CHECK(read(folder / "changed.bin") == counted(4));
      else
        CHECK_THROWS_AS(read(folder / "changed.bin"), heddle::error);
    }
}

TEST_CASE("a token outside the vocabulary is refused when it is read") {
  scratch_folder const folder;
  token_file const in(changed(folder, 32 + 4, "\5"));
  std::int32_t out[4];
  in.copy(0, 2, out);
  CHECK_THROWS_WITH_AS(in.copy(1, 3, out),
                       doctest::Contains("token number 2 is 5; it must be less than the vocabulary, 5"), heddle::error);
  CHECK_THROWS_WITH_AS(heddle::token_buffer({0, 5}, 5), doctest::Contains("token number 1 is 5"), heddle::error);
}

TEST_CASE("a file that shrinks while it is open is an error, not a crash") {
  scratch_folder const folder;
  write(folder / "a.bin", 5, counted(4));
  token_file const in(folder / "a.bin");
  std::filesystem::resize_file(folder / "a.bin", 36);
  std::int32_t out[4];
  in.copy(0, 2, out);
  CHECK_THROWS_WITH_AS(in.copy(0, 4, out), doctest::Contains("ends at byte 36, but had 40 bytes"), heddle::error);
}

TEST_CASE("without commit the old file stays and nothing is left behind") {
  scratch_folder const folder;
  write(folder / "a.bin", 5, counted(4));
  std::string const before = bytes_of(folder / "a.bin");
  {
    token_file_writer out(folder / "a.bin", 7);
    out.append(counted(6));
    CHECK_THROWS_WITH_AS(out.append(std::vector<std::int32_t>{3, 7}), doctest::Contains("token number 7 is 7"),
                         heddle::error);
    CHECK_THROWS_WITH_AS(out.append(std::vector<std::int32_t>{-1}), doctest::Contains("is -1"), heddle::error);
    CHECK(folder.files() == 2);
  }
  CHECK(bytes_of(folder / "a.bin") == before);
  CHECK(folder.files() == 1);
  CHECK_THROWS_WITH_AS(token_file_writer(folder / "absent/a.bin", 7), doctest::Contains("cannot be created"),
                       heddle::error);
  CHECK_THROWS_WITH_AS(token_file_writer(folder / "b.bin", 0), doctest::Contains("vocabulary cannot be 0"),
                       heddle::error);
  CHECK(folder.files() == 1);
}

}  // namespace token_file_test
