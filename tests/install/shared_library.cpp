// SPDX-License-Identifier: Apache-2.0
// A shared library that has heddle inside and exports one function: what two ranks say of a call that does not match.
#include <heddle/comm/threads.hpp>
#include <span>
#include <string>

extern "C" __attribute__((visibility("default"))) char const* said_of_a_mismatch() {
  static std::string text;
  text = "nothing";
  try {
    heddle::comm::run_threads(2, [](heddle::comm::thread_communicator& world) {
      double sum[2] = {1.0, 2.0};
      world.all_reduce(std::span<double>(sum, 2));
      if (sum[0] != 2.0 || sum[1] != 4.0) throw heddle::error("a wrong sum");
      world.all_reduce(std::span<double>(sum, 1 + world.rank()));
    });
  } catch (heddle::error const& e) {
    text = e.what();
  }
  return text.c_str();
}
