// SPDX-License-Identifier: Apache-2.0
#include "../../tools/train_program/text_data.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "../train/scratch_folder.hpp"

namespace {

std::string prepared(scratch_folder const& folder, std::size_t vocabulary) {
  std::string const path = folder / ("of-" + std::to_string(vocabulary) + ".bin");
  heddle::token_file_writer file(path, vocabulary);
  file.append(std::vector<std::int32_t>(200, 'a'));
  file.commit();
  return path;
}

}  // namespace

TEST_CASE("a prepared file is of bytes where its header has 256 identities, and the description says so") {
  scratch_folder const folder;
  model_facts const model{"tiny", 256, 4, false};
  std::vector<std::int32_t> const shown{'a', '\n', 0};
  text_data const bytes({prepared(folder, 256)}, model), numbers({prepared(folder, 255)}, model);
  CHECK(bytes.description() == folder / "of-256.bin" + ", 200 tokens of a vocabulary of 256, taken for bytes");
  CHECK(bytes.printable(shown) == "a\n\\x00");
  CHECK(bytes.line_end() == '\n');
  CHECK(numbers.description() == folder / "of-255.bin" + ", 200 tokens of a vocabulary of 255");
  CHECK(numbers.printable(shown) == "97 10 0");
  CHECK(numbers.line_end() == 0);
}
