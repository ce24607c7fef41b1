// SPDX-License-Identifier: Apache-2.0
// A user's program: it sees what is installed, and nothing of this repository.
#include <cstdio>
#include <heddle/comm/threads.hpp>
#include <heddle/layout/mesh.hpp>
#include <heddle/layout/names.hpp>

using pair = heddle::mesh<heddle::axis<heddle::dp, 2>>;
int main() {
  heddle::comm::run_threads(pair::size, [](heddle::comm::thread_communicator& world) {
    if (world.rank() == 1) std::puts("consumer: this text must arrive");
  });
}
