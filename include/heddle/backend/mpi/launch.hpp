// SPDX-License-Identifier: Apache-2.0
#pragma once
// Without MPI-2's C++ classes, which a program would have to be linked with.
// NOLINTBEGIN(readability-identifier-naming): the names are MPI's
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
// NOLINTEND(readability-identifier-naming)
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <heddle/comm/launch.hpp>
#include <heddle/error.hpp>
#include <string>

namespace heddle::comm {

namespace detail {
inline void check_mpi(int status, char const* call) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int size = 0;
  MPI_Error_string(status, text.data(), &size);
  throw error("launch_by_mpi: " + std::string(call) + ": " + text.data() +
              "; start the program with mpirun, and call MPI_Init before");
}
}  // namespace detail

/// The launch of this process by `mpirun`: its place in MPI_COMM_WORLD, and the machine of rank 0, which listens at
/// `port` there. MPI tells the processes of each other, and no more: it is collective, and MPI has to be initialized.
///
/// **Errors.** heddle::error for a call of MPI that fails, and for MPI that was not initialized.
[[nodiscard]] inline launch launch_by_mpi(std::uint16_t port) {
  int initialized = 0;
  detail::check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized == 0) throw error("launch_by_mpi: MPI is not initialized; call MPI_Init before");
  int rank = 0, size = 0, local = 0;
  detail::check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  detail::check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  MPI_Comm machine = MPI_COMM_NULL;
  detail::check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine),
                    "MPI_Comm_split_type");
  int const status = MPI_Comm_rank(machine, &local);
  MPI_Comm_free(&machine);
  detail::check_mpi(status, "MPI_Comm_rank");
  std::array<char, MPI_MAX_PROCESSOR_NAME> host{};
  int length = 0;
  if (rank == 0) detail::check_mpi(MPI_Get_processor_name(host.data(), &length), "MPI_Get_processor_name");
  detail::check_mpi(MPI_Bcast(host.data(), static_cast<int>(host.size()), MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return {{static_cast<std::size_t>(rank), static_cast<std::size_t>(size), static_cast<std::size_t>(local)},
          std::string(host.data(), ::strnlen(host.data(), host.size())),
          port};
}

}  // namespace heddle::comm
