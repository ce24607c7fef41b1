// SPDX-License-Identifier: Apache-2.0
// A user's program: it sees what is installed, and nothing of this repository.
#include <cstdio>
#include <heddle/error.hpp>

int main() {
  try {
    throw heddle::error("consumer: this text must arrive");
  } catch (std::exception const& failure) {
    std::puts(failure.what());
  }
}
