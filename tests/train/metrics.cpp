// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/train/metrics.hpp>
#include <string>

#include "scratch_folder.hpp"

using heddle::metrics_file;

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

  put_bytes(folder / "other.csv", "a,b\n1,2\n");
  CHECK_THROWS_WITH_AS(metrics_file::resume(folder / "other.csv", 3), doctest::Contains("does not begin with \"step,"),
                       heddle::error);
  put_bytes(folder / "other.csv", header + "0,1,,,,,\nx\n");
  CHECK_THROWS_WITH_AS(metrics_file::resume(folder / "other.csv", 3),
                       doctest::Contains("the line at byte 91 is not a row"), heddle::error);
  CHECK_THROWS_WITH_AS(metrics_file::resume(folder / "absent.csv", 3), doctest::Contains("cannot be opened"),
                       heddle::error);
}
