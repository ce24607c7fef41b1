// SPDX-License-Identifier: Apache-2.0
#include "text_data.hpp"

#include <heddle/detail/text_table.hpp>
#include <heddle/error.hpp>

namespace {

bool is_token_file(std::string const& name) { return name.size() >= 4 && name.substr(name.size() - 4) == ".bin"; }

std::string count(std::size_t n, std::string const& what) {
  return heddle::detail::grouped_digits(n) + " " + what + (n == 1 ? "" : "s");
}

}  // namespace

text_data::text_data(std::vector<std::string> const& files, model_facts const& model) {
  bool prepared = false;
  for (auto const& name : files) prepared = prepared || is_token_file(name);
  if (prepared && files.size() != 1)
    throw heddle::error("--data: a prepared .bin must be given alone, and " + std::to_string(files.size()) +
                        " files were given; prepare one file of all of them");
  if (prepared) {
    heddle::token_file file(files[0]);
    if (file.vocabulary() > model.vocabulary)
      throw heddle::error("'" + files[0] + "': has a vocabulary of " + std::to_string(file.vocabulary()) +
                          ", but the model " + model.name + " has one of " + std::to_string(model.vocabulary) +
                          "; choose a larger model with --model, or prepare the file with fewer tokens");
    // All that the header says of the text (docs/reference/file-formats.md): so it is said where it is acted on.
    bytes_ = file.vocabulary() == 256;
    description_ = files[0] + ", " + count(file.size(), "token") + " of a vocabulary of " +
                   std::to_string(file.vocabulary()) + (bytes_ ? ", taken for bytes" : "");
    tokens_ = std::move(file);
  } else {
    std::string const text = heddle::read_text(files);
    description_ = (files.size() == 1 ? files[0] : count(files.size(), "file")) + ", ";
    if (model.characters) {
      characters_.emplace(text);
      if (characters_->size() != model.vocabulary)
        throw heddle::error("--data: the text has " + std::to_string(characters_->size()) +
                            " different characters, but the model " + model.name + " has a vocabulary of " +
                            std::to_string(model.vocabulary) +
                            "; give the text it was made for, or choose a model on bytes: --model tiny");
      description_ += count(text.size(), "character") + " of " + std::to_string(characters_->size());
      tokens_ = characters_->encode(text);
    } else {
      bytes_ = true;
      description_ += count(text.size(), "byte");
      tokens_ = heddle::byte_tokens(text);
    }
  }
  std::size_t const least = 10 * (model.context + 2);  // then both nine tenths and one tenth hold a window
  if (size() < least)
    throw heddle::error("--data: has " + std::to_string(size()) + " tokens; the model " + model.name + " needs " +
                        std::to_string(least) + ", ten windows of its context; give a longer text");
}

std::size_t text_data::size() const {
  return std::visit([](auto const& t) { return t.size(); }, tokens_);
}
std::size_t text_data::vocabulary() const {
  return std::visit([](auto const& t) { return t.vocabulary(); }, tokens_);
}
void text_data::copy(std::size_t first, std::size_t n, std::int32_t* out) const {
  std::visit([&](auto const& t) { t.copy(first, n, out); }, tokens_);
}

std::string text_data::printable(std::span<std::int32_t const> tokens) const {
  std::string out;
  if (!bytes_ && !characters_) {
    for (std::int32_t t : tokens) out += (out.empty() ? "" : " ") + std::to_string(t);
    return out;
  }
  constexpr char digits[] = "0123456789abcdef";
  for (std::int32_t t : tokens) {
    char const c = characters_ ? characters_->bytes()[static_cast<std::size_t>(t)]
                               : static_cast<char>(static_cast<unsigned char>(t));
    auto const byte = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\t' || (byte >= 0x20 && byte < 0x7F))
      out += c;
    else
      out += std::string("\\x") + digits[byte >> 4] + digits[byte & 15];
  }
  return out;
}

std::int32_t text_data::line_end() const {
  if (characters_) {
    std::size_t const at = characters_->bytes().find('\n');
    return at == std::string::npos ? 0 : static_cast<std::int32_t>(at);
  }
  return bytes_ ? '\n' : 0;
}
