// SPDX-License-Identifier: Apache-2.0
// Files that were damaged at random, the same ones in every run: what reads them says heddle::error, or gives something
// valid. It neither crashes, which the address sanitizer sees too, nor hangs, nor asks for memory that the file does
// not justify. A program by itself, since it replaces operator new.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <heddle/train/metrics.hpp>
#include <heddle/train/text.hpp>
#include <heddle/train/token_file.hpp>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "../comm/watchdog.hpp"
#include "scratch_folder.hpp"

namespace {
std::atomic<std::size_t> largest_request{0};

void* noted(std::size_t bytes) {
  if (bytes > largest_request) largest_request = bytes;
  if (void* const p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
}  // namespace

// Not inlined: g++ would otherwise see a free() of what an operator new gave, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return noted(bytes); }
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

constexpr std::size_t rounds = 8000;
/// Above any file here, and any text of an error.
constexpr std::size_t justified = 1 << 18;

using generator = std::mt19937;  // the standard fixes its numbers, and not those of its distributions

std::size_t below(generator& random, std::size_t n) { return n == 0 ? 0 : random() % n; }

/// Bytes that numbers and lines end at or overflow at.
std::string extreme(generator& random) {
  using namespace std::string_literals;
  static std::string const choices[] = {"\0\0\0\0\0\0\0\0"s,
                                        "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s,
                                        "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"s,
                                        "\0\0\0\0\0\0\0\x80"s,
                                        "\xFF\xFF\xFF\xFF"s,
                                        "\0\0\0\x80"s,
                                        "\1\0\0\0"s,
                                        "\0\0\1\0"s,
                                        "18446744073709551616"s,
                                        "-1"s,
                                        "1e999"s,
                                        "-1e-999"s,
                                        "nan"s,
                                        "inf"s,
                                        "0x1p3"s,
                                        ","s,
                                        "\n"s,
                                        "\r\n"s,
                                        "\0"s};
  return choices[below(random, std::size(choices))];
}

/// One to four changes: a bit, a byte, an extreme value over some bytes or between two, a piece cut out, doubled, or
/// moved, the end cut off or bytes put behind it.
std::string mutated(std::string bytes, generator& random) {
  for (std::size_t changes = 1 + below(random, 4); changes > 0; --changes) {
    std::size_t const at = below(random, bytes.size() + 1), left = bytes.size() - at;
    std::size_t const length = std::min(left, 1 + below(random, 16));
    switch (random() % 9) {
      case 0:
        if (left > 0) bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(random, 8));
        break;
      case 1:
        if (left > 0) bytes[at] = static_cast<char>(random());
        break;
      case 2: {
        std::string const value = extreme(random);
        bytes.replace(at, std::min(left, value.size()), value);
        break;
      }
      case 3: {  // over a field of a header
        std::string const value = extreme(random);
        if (std::size_t const field = 8 + 4 * below(random, 6); field + value.size() <= bytes.size())
          bytes.replace(field, value.size(), value);
        break;
      }
      case 4:
        bytes.insert(at, extreme(random));
        break;
      case 5:
        bytes.erase(at, length);
        break;
      case 6:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 7:
        bytes.resize(at);
        break;
      case 8:
        bytes.append(length, static_cast<char>(random()));
        break;
    }
  }
  return bytes;
}

/// `read(path, bytes)` for damaged copies of some good files. It may throw heddle::error alone, and does for some
/// copies and not for others: damage that is always refused would say nothing of what is read.
template <class Read>
void read_mutated(std::vector<std::string> const& good, unsigned seed, Read read) {
  heddle::testing::watchdog const guard(std::chrono::seconds(60));
  scratch_folder const folder;
  generator random(seed);
  std::size_t refused = 0, read_whole = 0;
  for (std::size_t n = 0; n < rounds; ++n) {
    std::string const bytes = mutated(good[n % good.size()], random);
    std::filesystem::remove(folder / "damaged");  // some file systems bring a file to the disk when it is overwritten
    put_bytes(folder / "damaged", bytes);
    CAPTURE(n);
    largest_request = 0;
    try {
      read(folder / "damaged", bytes);
      ++read_whole;
    } catch (heddle::error const& e) {
      CHECK(std::string(e.what()).find("damaged") != std::string::npos);
      ++refused;
    }
    CHECK(largest_request < justified);
  }
  CHECK(refused > rounds / 20);
  CHECK(read_whole > rounds / 20);
}

std::string token_file_bytes(std::size_t vocabulary, std::size_t count) {
  scratch_folder const folder;
  heddle::token_file_writer out(folder / "good", vocabulary);
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::int32_t>(i * 7919 % vocabulary);
  out.append(tokens);
  out.commit();
  return bytes_of(folder / "good");
}

}  // namespace

TEST_CASE("a damaged token file is refused, or all its tokens are below its vocabulary") {
  read_mutated({token_file_bytes(65536, 40), token_file_bytes(100000, 10), token_file_bytes(50257, 0)}, 1,
               [](std::string const& path, std::string const& bytes) {
                 heddle::token_file const in(path);
                 REQUIRE(in.size() <= bytes.size() / 2);  // what a caller makes room for
                 CHECK((in.vocabulary() > 0 && in.vocabulary() <= std::size_t{1} << 31));
                 std::vector<std::int32_t> tokens(in.size());
                 in.copy(0, in.size(), tokens.data());
                 for (std::int32_t const t : tokens) {
                   CHECK(t >= 0);
                   CHECK(static_cast<std::size_t>(t) < in.vocabulary());
                 }
               });
}

TEST_CASE("a damaged metrics.csv is refused, or its rows are such as are written") {
  std::string good = std::string(heddle::metrics_header) + "\n";
  for (std::uint64_t step = 0; step < 4; ++step)
    good += heddle::metrics_line({.step = step,
                                  .tokens = 768 * step,
                                  .train_loss = 5.5 / static_cast<double>(step + 1),
                                  .gradient_norm = 1e-9,
                                  .learning_rate = 1e-3});
  read_mutated({good}, 2, [](std::string const& path, std::string const& bytes) {
    auto const rows = heddle::read_metrics(path);
    CHECK(rows.size() <= bytes.size() / 8);
    for (auto const& row : rows) {
      std::string const line = heddle::metrics_line(row);
      heddle::metrics_row again;
      REQUIRE(heddle::detail::parse_metrics_line(std::string_view(line).substr(0, line.size() - 1), again));
      CHECK(heddle::metrics_line(again) == line);
    }
  });
}

TEST_CASE("any bytes are a text, and its characters encode and decode it") {
  scratch_folder const folder;
  generator random(3);
  std::string bytes = "To be, or not to be\n";
  for (std::size_t n = 0; n < 500; ++n) {
    bytes = mutated(bytes.substr(0, 200), random);
    std::filesystem::remove(folder / "text");
    put_bytes(folder / "text", bytes);
    std::string const text = heddle::read_text(folder / "text");
    REQUIRE(text == bytes);
    auto const tokens = heddle::byte_tokens(text);
    CHECK(tokens.size() == text.size());
    if (text.empty()) continue;
    heddle::character_vocabulary const characters(text);
    auto const encoded = characters.encode(text);
    std::vector<std::int32_t> copy(encoded.size());
    encoded.copy(0, encoded.size(), copy.data());
    CHECK(characters.decode(copy) == text);
  }
}
