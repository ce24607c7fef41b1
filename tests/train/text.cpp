// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/train/corpus.hpp>
#include <heddle/train/text.hpp>
#include <string>
#include <vector>

#include "scratch_folder.hpp"

namespace text_test {

TEST_CASE("text is read as bytes, of several files in order") {
  scratch_folder const folder;
  put_bytes(folder / "a", std::string("x\0\xFF", 3));
  put_bytes(folder / "b", "yz");
  std::vector<std::string> const paths{folder / "a", folder / "b", folder / "a"};
  CHECK(heddle::read_text(paths) == std::string("x\0\xFFyzx\0\xFF", 8));
  CHECK(heddle::read_text(folder / "b") == "yz");
  auto const tokens = heddle::byte_tokens(heddle::read_text(folder / "a"));
  CHECK(tokens.vocabulary() == 256);
  CHECK(tokens.tokens() == std::vector<std::int32_t>{120, 0, 255});
  CHECK_THROWS_WITH_AS(heddle::read_text(folder / "c"), doctest::Contains("cannot be opened"), heddle::error);
}

TEST_CASE("a character vocabulary is the sorted bytes of its text") {
  heddle::character_vocabulary const vocabulary("hello \xC3\n");
  CHECK(vocabulary.bytes() == "\n ehlo\xC3");
  CHECK(vocabulary.size() == 7);
  auto const tokens = vocabulary.encode("hole");
  CHECK(tokens.tokens() == std::vector<std::int32_t>{3, 5, 4, 2});
  CHECK(tokens.vocabulary() == 7);
  CHECK(vocabulary.decode(tokens.tokens()) == "hole");
  CHECK(heddle::character_vocabulary(vocabulary.bytes()).bytes() == vocabulary.bytes());
  CHECK_THROWS_WITH_AS(vocabulary.encode("help"), doctest::Contains("byte 112 at position 3 is not among the 7"),
                       heddle::error);
  CHECK_THROWS_WITH_AS(vocabulary.decode(std::vector<std::int32_t>{0, 7}), doctest::Contains("token number 1 is 7"),
                       heddle::error);
  CHECK_THROWS_WITH_AS(heddle::character_vocabulary(""), doctest::Contains("is empty"), heddle::error);
}

// nanoGPT, data/shakespeare_char/readme.md: 1,003,854 and 111,540 tokens (paper value NPT-017).
static_assert(heddle::training_tokens(1115394) == 1003854);
static_assert(1115394 - heddle::training_tokens(1115394) == 111540);
static_assert(heddle::training_tokens(0) == 0 && heddle::training_tokens(9, 0) == 0 &&
              heddle::training_tokens(9, 1) == 9);

TEST_CASE("a corpus is cut without loss or overlap") {
  auto const text = heddle::byte_tokens("0123456789abcdefghi");
  heddle::corpus const parts(text);
  REQUIRE(parts.training.size() == 17);
  REQUIRE(parts.validation.size() == 2);
  std::int32_t out[17];
  parts.training.copy(0, 17, out);
  CHECK(out[16] == 'g');
  parts.validation.copy(0, 2, out);
  CHECK(out[0] == 'h');
  CHECK(out[1] == 'i');
  CHECK_THROWS_WITH_AS(parts.training.copy(16, 2, out), doctest::Contains("has 17 tokens"), heddle::error);
  CHECK_THROWS_WITH_AS(heddle::corpus(text, 1.5), doctest::Contains("'fraction' is 1.5"), heddle::error);
}

}  // namespace text_test
