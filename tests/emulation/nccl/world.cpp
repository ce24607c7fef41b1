// SPDX-License-Identifier: Apache-2.0
#include "world.hpp"

#include <algorithm>

#include "control.hpp"

namespace heddle::emulation {

nccl_library& nccl_library::get() {
  static nccl_library one;
  return one;
}

meeting::progress nccl_launch::step() {
  if (*aborted) return progress::done;  // what it would have written is whatever was there
  progress came = started_ ? progress::none : progress::some;
  started_ = true;
  bool all_done = true;
  for (auto const& [match, part] : all) {
    match->parts[part].started = true;
    if (!match->done &&
        std::all_of(match->parts.begin(), match->parts.end(), [](auto const& one) { return one.started; })) {
      std::vector<nccl_request> calls;
      for (nccl_match::part const& one : match->parts) calls.push_back(one.call);
      perform(calls);
      match->done = true;
      came = progress::some;
    }
    all_done = all_done && match->done;
  }
  return all_done ? progress::done : came;
}

void nccl_launch::partners(std::vector<operation const*>& out) const {
  for (auto const& [match, part] : all)
    for (nccl_match::part const& one : match->parts)
      if (!match->done && one.here && one.in_stream != nullptr) out.push_back(one.in_stream.get());
}

std::string nccl_launch::text() const {
  for (auto const& [match, part] : all) {
    if (match->done) continue;
    std::string missing;
    for (std::size_t i = 0; i < match->parts.size(); ++i) {
      nccl_match::part const& one = match->parts[i];
      if (one.started) continue;
      missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(match->ranks[i]);
      missing += one.here ? " (whose stream has other work before it)" : " (which has not called)";
    }
    return "rank " + std::to_string(match->ranks[part]) + "'s " + heddle::emulation::text_of(match->parts[part].call) +
           " (" + match->name + ") waits for " + (missing.empty() ? "nobody" : missing);
  }
  return text_of_it;
}

namespace {
std::unique_lock<std::mutex> alone() { return std::unique_lock<std::mutex>(machine::get().mutex); }
}  // namespace

std::size_t nccl_communicators() {
  auto const lock = alone();
  return nccl_library::get().live.size();
}
std::size_t nccl_aborted() {
  auto const lock = alone();
  return nccl_library::get().aborted;
}
std::size_t nccl_sent() {
  auto const lock = alone();
  return nccl_library::get().sent[machine::device()];
}
void inject_nccl_error(int device, ncclResult_t code) {
  auto const lock = alone();
  nccl_library::get().injected[device] = code;
}
void reset_nccl() {
  auto const lock = alone();
  nccl_library& all = nccl_library::get();
  for (nccl_member* const one : all.live) delete one;
  all = {};
}

}  // namespace heddle::emulation
