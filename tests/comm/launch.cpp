// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdlib>
#include <heddle/comm/launch.hpp>
#include <map>
#include <string>

namespace launch_test {

using heddle::comm::launch;
using variables = std::map<std::string, std::string>;

launch read(variables const& all) {
  return heddle::comm::launch_from([&](char const* name) {
    auto const at = all.find(name);
    return at == all.end() ? nullptr : at->second.c_str();
  });
}
std::string failure_of(variables const& all) {
  try {
    (void)read(all);
  } catch (heddle::error const& one) {
    return one.what();
  }
  return {};
}
bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

variables const torchrun{
    {"RANK", "3"}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
variables const slurm{{"SLURM_PROCID", "3"},
                      {"SLURM_NTASKS", "16"},
                      {"SLURM_LOCALID", "1"},
                      {"MASTER_ADDR", "fe80::1"},
                      {"MASTER_PORT", "29500"}};

variables with(variables all, std::string const& name, std::string const& value) {
  all[name] = value;
  return all;
}
variables without(variables all, std::string const& name) {
  all.erase(name);
  return all;
}

TEST_CASE("a launch by torchrun, and by Slurm") {
  for (variables const& one : {torchrun, slurm}) {
    launch const got = read(one);
    CHECK(got.place == heddle::comm::rank_place{.rank = 3, .size = 16, .local_rank = 1});
    CHECK(got.host == one.at("MASTER_ADDR"));
    CHECK(got.port == 29500);
  }
  variables both = slurm;
  for (auto const& [name, value] : torchrun) both[name] = value;
  both["SLURM_PROCID"] = "7";
  CHECK(read(both).place.rank == 3);  // torchrun under Slurm: its own variables
}

TEST_CASE("one process alone needs no host") {
  launch const got = read({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}});
  CHECK(got.place == heddle::comm::rank_place{});
  CHECK(got.host.empty());
}

TEST_CASE("the port beside that of torchrun's agent, or one of its own") {
  variables const agent = with(torchrun, "TORCHELASTIC_USE_AGENT_STORE", "True");
  CHECK(read(agent).port == 29501);
  CHECK(read(with(torchrun, "TORCHELASTIC_USE_AGENT_STORE", "False")).port == 29500);
  CHECK(read(with(agent, "HEDDLE_PORT", "4000")).port == 4000);
  CHECK(has(failure_of(with(agent, "MASTER_PORT", "65535")), "MASTER_PORT is 65535, where torchrun listens"));
}

TEST_CASE("no launcher") {
  std::string const text = failure_of({});
  CHECK(has(text, "neither RANK nor SLURM_PROCID is set; start the program with torchrun or srun"));
}

TEST_CASE("a variable that is missing is named, with what asks for it and what sets it") {
  for (char const* const name : {"WORLD_SIZE", "LOCAL_RANK"})
    CHECK(failure_of(without(torchrun, name)) ==
          "launch_from_environment: RANK is set and " + std::string(name) + " is not; torchrun sets all three");
  CHECK(has(failure_of(without(slurm, "SLURM_LOCALID")),
            "SLURM_PROCID is set and SLURM_LOCALID is not; srun -n sets all three"));
  CHECK(has(failure_of(without(slurm, "MASTER_ADDR")), "MASTER_ADDR is not set; give the name of the machine"));
  CHECK(has(failure_of(without(slurm, "MASTER_PORT")), "MASTER_ADDR is set and MASTER_PORT is not; give a port"));
}

TEST_CASE("a value that is no number, or out of range, is named with its range") {
  for (char const* const name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"})
    for (char const* const value : {"", " 1", "1 ", "-1", "+1", "x", "0x1", "1.5", "99999999999999999999", "2000000"}) {
      CAPTURE(name);
      CAPTURE(value);
      std::string const text = failure_of(with(torchrun, name, value));
      CHECK(has(text, std::string(name) + " is '" + value + "', which is no whole number from "));
    }
  CHECK(has(failure_of(with(torchrun, "WORLD_SIZE", "0")), "WORLD_SIZE is '0', which is no whole number from 1 to "));
  CHECK(has(failure_of(with(torchrun, "MASTER_PORT", "0")), "no whole number from 1 to 65535"));
  CHECK(has(failure_of(with(torchrun, "MASTER_PORT", "65536")), "no whole number from 1 to 65535"));
  CHECK(has(failure_of(with(torchrun, "HEDDLE_PORT", "http")), "HEDDLE_PORT is 'http', which is no"));
  CHECK(has(failure_of(with(torchrun, "RANK", "16")), "RANK is 16, but WORLD_SIZE is 16, so that it must be below"));
  CHECK(has(failure_of(with(torchrun, "LOCAL_RANK", "17")), "LOCAL_RANK is 17, but WORLD_SIZE is 16"));
}

TEST_CASE("a message shows no more of a value than a line, and nothing that a terminal obeys") {
  std::string const text = failure_of(with(torchrun, "RANK", "\033[31m" + std::string(10000, '1')));
  CHECK(has(text, "RANK is '?[31m111"));
  CHECK(text.size() < 300);
}

TEST_CASE("hosts that cannot be one") {
  for (std::string const& host : {std::string(), std::string("a b"), std::string("a\n"), std::string(254, 'a')})
    CHECK(has(failure_of(with(torchrun, "MASTER_ADDR", host)), "which is no name or address of a machine"));
}

TEST_CASE("the process's own environment") {
  for (auto const& [name, value] : torchrun) ::setenv(name.c_str(), value.c_str(), 1);
  CHECK(heddle::comm::launch_from_environment().place.rank == 3);
  for (auto const& [name, value] : torchrun) ::unsetenv(name.c_str());
  CHECK_THROWS_AS((void)heddle::comm::launch_from_environment(), heddle::error);
}

}  // namespace launch_test
