// SPDX-License-Identifier: Apache-2.0
// MPI tells the processes of each other: run alone, this starts itself as three ranks with mpirun.
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <heddle/backend/mpi/launch.hpp>
#include <heddle/comm/tcp_exchange.hpp>
#include <string>

namespace {

/// What a rank finds wrong, or nothing.
char const* wrong_of(heddle::comm::launch const& from) {
  if (from.place.size != 3 || from.place.local_rank != from.place.rank) return "another place";
  heddle::comm::tcp_exchange mine(from, std::chrono::seconds(60));
  std::array<std::byte, 128> id{};
  if (from.place.rank == 0) id.fill(std::byte{42});
  mine.broadcast("id", id);
  return id[127] == std::byte{42} ? nullptr : "other bytes than rank 0's";
}

int rank_of_run(std::string const& port) {
  try {
    (void)heddle::comm::launch_by_mpi(1);
    std::fprintf(stderr, "a launch before MPI_Init\n");
    return 1;
  } catch (heddle::error const&) {
  }
  MPI_Init(nullptr, nullptr);
  char const* wrong = "an exception";
  try {
    wrong = wrong_of(heddle::comm::launch_by_mpi(static_cast<std::uint16_t>(std::atoi(port.c_str()))));
  } catch (heddle::error const& one) {
    std::fprintf(stderr, "%s\n", one.what());
  }
  MPI_Finalize();
  if (wrong != nullptr) std::fprintf(stderr, "%s\n", wrong);
  return wrong == nullptr ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 2) return rank_of_run(arguments[2]);
  std::string port = std::to_string(heddle::comm::tcp_listener("0.0.0.0", 0).port());
  std::array<char*, 9> command{arguments[1],
                               const_cast<char*>("--oversubscribe"),
                               const_cast<char*>("--allow-run-as-root"),
                               const_cast<char*>("-n"),
                               const_cast<char*>("3"),
                               arguments[0],
                               arguments[1],
                               port.data(),
                               nullptr};
  ::execv(arguments[1], command.data());
  std::perror(arguments[1]);
  return 1;
}
