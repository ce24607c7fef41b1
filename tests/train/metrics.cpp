// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <unistd.h>
#include <heddle/train/metrics.hpp>
#include <string>

#include "scratch_folder.hpp"

using heddle::metrics_file;

namespace metrics_test {
namespace {
std::string const header = "step,tokens,train_loss,validation_loss,gradient_norm,learning_rate,tokens_per_second\n";
}

TEST_CASE("rows are in the file when they are written, and what was not measured is empty") {
  scratch_folder const folder;
  put_bytes(folder / "metrics.csv", "of an older run");
  metrics_file out(folder / "metrics.csv");
  CHECK(bytes_of(folder / "metrics.csv") == header);
  out.write({.step = 0, .tokens = 4096, .train_loss = 4.1744, .gradient_norm = 1.5, .learning_rate = 1e-5});
  CHECK(bytes_of(folder / "metrics.csv") == header + "0,4096,4.1744,,1.5,1e-05,\n");
  out.write({.step = 1, .tokens = 8192, .validation_loss = 0.1 + 0.2, .tokens_per_second = 120000});
  CHECK(bytes_of(folder / "metrics.csv") ==
        header + "0,4096,4.1744,,1.5,1e-05,\n1,8192,,0.30000000000000004,,,120000\n");
  CHECK(folder.files() == 1);
}

TEST_CASE("what a killed process of the same number left half-written is in nobody's way, and stays") {
  scratch_folder const folder;
  for (std::size_t n = 0; n < 100; ++n)
    put_bytes(folder / ("metrics.csv." + std::to_string(::getpid()) + "-" + std::to_string(n) + ".partial"), "half");
  metrics_file out(folder / "metrics.csv");
  CHECK(bytes_of(folder / "metrics.csv") == header);
  CHECK(folder.files() == 101);
}

TEST_CASE("a resumed run keeps the rows of the steps it does not repeat") {
  scratch_folder const folder;
  {
    metrics_file out(folder / "metrics.csv");
    for (std::uint64_t step = 0; step < 5; ++step) out.write({.step = step, .tokens = 10 * step});
  }
  put_bytes(folder / "metrics.csv", bytes_of(folder / "metrics.csv") + "5,5");  // cut off by a crash
  auto out = metrics_file::resume(folder / "metrics.csv", 3);
  out.write({.step = 3, .tokens = 30, .train_loss = 2});
  CHECK(bytes_of(folder / "metrics.csv") == header + "0,0,,,,,\n1,10,,,,,\n2,20,,,,,\n3,30,2,,,,\n");
}

TEST_CASE("a file is read back as it was written, and nothing else is accepted") {
  scratch_folder const folder;
  heddle::metrics_row const full{7, 8, 1.25, 0.1 + 0.2, 1e-300, 6e-4, 1e6};
  {
    metrics_file out(folder / "metrics.csv");
    out.write({.step = 1, .learning_rate = 0.5});
    out.write(full);
  }
  auto const rows = heddle::read_metrics(folder / "metrics.csv");
  REQUIRE(rows.size() == 2);
  CHECK_FALSE(rows[0].train_loss);
  CHECK(rows[0].learning_rate == 0.5);
  CHECK_FALSE(rows[0].tokens_per_second);
  CHECK(heddle::metrics_line(rows[1]) == heddle::metrics_line(full));

  auto const refused = [&](std::string const& text, char const* reason) {
    put_bytes(folder / "bad.csv", text);
    CHECK_THROWS_WITH_AS(heddle::read_metrics(folder / "bad.csv"), doctest::Contains(reason), heddle::error);
    CHECK_THROWS_WITH_AS(metrics_file::resume(folder / "bad.csv", 3), doctest::Contains(reason), heddle::error);
    CHECK(bytes_of(folder / "bad.csv") == text);
  };
  refused("", "does not begin with \"step,");
  refused("a,b\n1,2\n", "does not begin with \"step,");
  for (char const* line : {"", "x", "0", "0,1", "0,1,,,,", "0,1,,,,,,", "0,1,,,,,x", "0,1,y,,,,", "0,1,1 ,,,,",
                           "-1,1,,,,,", "0,,,,,,", "99999999999999999999,1,,,,,"})
    refused(header + "0,1,,,,,\n" + line + "\n", "the line at byte 94 is not a row of numbers");
  CHECK_THROWS_WITH_AS(metrics_file::resume(folder / "absent.csv", 3), doctest::Contains("cannot be opened"),
                       heddle::error);
}

}  // namespace metrics_test
