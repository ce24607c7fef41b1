// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/train/text.hpp>
#include <heddle/train/token_file.hpp>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

/// What a model takes in, beside its name in messages.
struct model_facts {
  std::string name;
  std::size_t vocabulary;
  std::size_t context;
  bool characters;
};

/// The tokens of a run with the way back to text: files of bytes, of characters, or one token file. A TokenSource.
class text_data {
 public:
  /// **Errors.** A file that cannot be read; a .bin beside other files, or damaged, or with a larger vocabulary than
  /// the model's; characters that are not as many as the model's vocabulary; a text that does not fill a window.
  text_data(std::vector<std::string> const& files, model_facts const& model);

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t vocabulary() const;
  void copy(std::size_t first, std::size_t count, std::int32_t* out) const;

  /// "2 files, 1,115,394 characters".
  [[nodiscard]] std::string const& description() const { return description_; }
  /// Tokens as a terminal can show them: what is neither printable nor a line end is \xNN. A prepared file's are taken
  /// for bytes where its vocabulary is 256, and are numbers otherwise.
  [[nodiscard]] std::string printable(std::span<std::int32_t const> tokens) const;
  /// What a sample begins after: a line end where there is one.
  [[nodiscard]] std::int32_t line_end() const;

 private:
  std::variant<heddle::token_buffer, heddle::token_file> tokens_;
  std::optional<heddle::character_vocabulary> characters_;
  bool bytes_ = false;
  std::string description_;
};
