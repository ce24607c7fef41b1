// SPDX-License-Identifier: Apache-2.0
// Ranks and collectives alone: a distributed dot product and one step of power iteration, without layouts or models.
#include <cmath>
#include <cstdio>
#include <heddle/comm/threads.hpp>
#include <heddle/comm/traffic.hpp>
#include <span>
#include <vector>

namespace comm = heddle::comm;

// [power]
constexpr std::size_t ranks = 4, size = 64;

/// The greatest eigenvalue of the matrix a(i, j) = 1 / (i + j + 1), whose rows are dealt to the ranks.
double greatest_eigenvalue(comm::thread_communicator& group) {
  std::size_t const first = comm::chunk_begin(size, group.size(), group.rank());
  std::vector<double> mine(comm::chunk_count(size, group.size(), group.rank())), whole(size, 1.0);
  double norm = 0;
  for (int round = 0; round < 30; ++round) {
    double square = 0;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = 0;
      for (std::size_t j = 0; j < size; ++j) mine[i] += whole[j] / double(first + i + j + 1);
      square += mine[i] * mine[i];
    }
    group.all_reduce(std::span(&square, 1), comm::reduction::sum);  // over all rows, in the order of the ranks
    norm = std::sqrt(square);
    for (double& element : mine) element /= norm;
    group.all_gather(std::span<double const>(mine), std::span(whole));
  }
  return norm;
}
// [/power]

int main() {
  std::vector<double> found(ranks);
  std::vector<comm::communication_counters> sent(ranks);
  // [run]
  comm::run_threads(ranks, [&](comm::thread_communicator& world) {
    found[world.rank()] = greatest_eigenvalue(world);
    sent[world.rank()] = world.counters();
  });
  // [/run]
  for (std::size_t r = 0; r < ranks; ++r)
    std::printf("rank %zu  eigenvalue %.12f  all_gather %zu bytes, all_reduce %zu bytes\n", r, found[r],
                std::size_t{sent[r][comm::operation::all_gather].bytes_sent},
                std::size_t{sent[r][comm::operation::all_reduce].bytes_sent});

  // [failure]
  // What goes wrong on one rank ends all of them with its text, and never hangs.
  try {
    comm::run_threads(ranks, [&](comm::thread_communicator& world) {
      if (world.rank() == 2) throw heddle::error("the disk is full");
      world.barrier();
    });
  } catch (comm::rank_failed const& failure) {
    std::printf("%s\n", failure.what());
  }
  // [/failure]

  bool right = true;
  for (std::size_t r = 0; r < ranks; ++r)
    right = right && found[r] == found[0] &&
            sent[r][comm::operation::all_gather].elements_sent == 30 * comm::all_gather_sent(size, ranks, r);
  return right && std::fabs(found[0] - 2.2) < 0.1 ? 0 : 1;
}
