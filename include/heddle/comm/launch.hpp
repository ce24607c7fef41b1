// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>

namespace heddle::comm {

/// Which rank of a run this is.
struct rank_place {
  std::size_t rank = 0;        ///< 0 ≤ rank < size
  std::size_t size = 1;        ///< ranks of the run
  std::size_t local_rank = 0;  ///< among those of this machine: which of its devices is this rank's

  [[nodiscard]] friend constexpr bool operator==(rank_place const&, rank_place const&) = default;
};

/// What a process of a run was started as: its place, and where rank 0 listens. One process alone needs no host.
struct launch {
  rank_place place{};
  std::string host{};
  std::uint16_t port = 0;
};

/// Ranks of a run, at most: as many as NCCL and MPI can number, and a bound on what a wrong value can ask for.
inline constexpr std::size_t most_launched = std::size_t{1} << 20;

namespace detail {

using heddle::detail::joined_text;

/// Reads the variables that a launcher sets. Their values come from outside: all of them are checked.
template <class Lookup>
class launch_reader {
 public:
  explicit launch_reader(Lookup const& lookup) : lookup_(lookup) {}

  [[nodiscard]] launch read() const {
    launch found;
    if (text_of("RANK") != nullptr) {
      found.place = place_of("RANK", "WORLD_SIZE", "LOCAL_RANK", "torchrun sets all three");
    } else if (text_of("SLURM_PROCID") != nullptr) {
      found.place = place_of("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "srun -n sets all three");
    } else {
      throw error(
          "launch_from_environment: neither RANK nor SLURM_PROCID is set; start the program with torchrun or srun, or "
          "set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each process");
    }
    if (found.place.size == 1) return found;
    found.host = host();
    found.port = port();
    return found;
  }

 private:
  [[nodiscard]] char const* text_of(char const* name) const { return lookup_(name); }

  /// The value, no longer than a message should be.
  [[nodiscard]] static std::string shown(char const* name, std::string_view value) {
    std::string text(value.substr(0, 64));
    for (char& c : text)
      if (c < ' ' || c > '~') c = '?';
    return joined_text({name, " is '", text, value.size() > 64 ? "…'" : "'"});
  }

  [[nodiscard]] std::size_t number(char const* name, char const* with, char const* remedy, std::size_t least,
                                   std::size_t most) const {
    char const* const text = text_of(name);
    if (text == nullptr)
      throw error(joined_text({"launch_from_environment: ", with, " is set and ", name, " is not; ", remedy}));
    std::string_view const value = text;
    std::size_t result = 0;
    auto const [end, code] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (value.empty() || code != std::errc{} || end != value.data() + value.size() || result < least || result > most)
      throw error(joined_text({"launch_from_environment: ", shown(name, value), ", which is no whole number from ",
                               least, " to ", most, "; ", remedy}));
    return result;
  }

  [[nodiscard]] rank_place place_of(char const* rank, char const* size, char const* local, char const* remedy) const {
    rank_place place;
    place.size = number(size, rank, remedy, 1, most_launched);
    place.rank = number(rank, size, remedy, 0, most_launched);
    place.local_rank = number(local, rank, remedy, 0, most_launched);
    require_below(rank, place.rank, size, place.size, remedy);
    require_below(local, place.local_rank, size, place.size, remedy);
    return place;
  }
  static void require_below(char const* name, std::size_t value, char const* limit_name, std::size_t limit,
                            char const* remedy) {
    if (value >= limit)
      throw error(joined_text({"launch_from_environment: ", name, " is ", value, ", but ", limit_name, " is ", limit,
                               ", so that it must be below; ", remedy}));
  }

  [[nodiscard]] std::string host() const {
    char const* const text = text_of("MASTER_ADDR");
    if (text == nullptr)
      throw error(
          "launch_from_environment: MASTER_ADDR is not set; give the name of the machine of rank 0, under Slurm: "
          "export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)");
    std::string_view const value = text;
    bool plain = !value.empty() && value.size() <= 253;  // the longest name of a host (RFC 1035 §3.1)
    for (char const c : value) plain = plain && c > ' ' && c <= '~';
    if (!plain)
      throw error(joined_text({"launch_from_environment: ", shown("MASTER_ADDR", value),
                               ", which is no name or address of a machine; give that of rank 0"}));
    return std::string(value);
  }

  [[nodiscard]] std::uint16_t port() const {
    char const* const remedy =
        "give a port of the machine of rank 0 that is free, the same to all processes; HEDDLE_PORT goes before "
        "MASTER_PORT";
    if (text_of("HEDDLE_PORT") != nullptr)
      return static_cast<std::uint16_t>(number("HEDDLE_PORT", "", remedy, 1, 65535));
    std::size_t const given = number("MASTER_PORT", "MASTER_ADDR", remedy, 1, 65535);
    // torchrun's agent may listen there itself, and says so; the port beside it is as good a guess as any.
    char const* const agent = text_of("TORCHELASTIC_USE_AGENT_STORE");
    if (agent == nullptr || std::string_view(agent) != "True") return static_cast<std::uint16_t>(given);
    if (given == 65535)
      throw error(joined_text(
          {"launch_from_environment: MASTER_PORT is 65535, where torchrun listens, and there is no port above; ",
           remedy}));
    return static_cast<std::uint16_t>(given + 1);
  }

  Lookup const& lookup_;
};

}  // namespace detail

/// The launch that `lookup(name)` tells, which has the value of a variable or null: what `launch_from_environment`
/// reads.
template <class Lookup>
[[nodiscard]] launch launch_from(Lookup const& lookup) {
  return detail::launch_reader<Lookup>(lookup).read();
}

/// The launch of this process by torchrun (RANK, WORLD_SIZE, LOCAL_RANK) or, where there is no RANK, by Slurm
/// (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID). Rank 0 listens at MASTER_ADDR and MASTER_PORT, or the port after it
/// where torchrun says that it uses that one (TORCHELASTIC_USE_AGENT_STORE=True); HEDDLE_PORT goes before both.
///
/// **Errors.** heddle::error for a variable that is missing, no number or out of range: its name, its value, a remedy.
[[nodiscard]] inline launch launch_from_environment() {
  return launch_from([](char const* name) { return std::getenv(name); });
}

}  // namespace heddle::comm
