// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/comm/rank_exchange.hpp>

namespace heddle::comm {

class thread_exchange;
/// One for each rank, in their order.
using thread_exchanges = std::vector<std::unique_ptr<thread_exchange>>;

/// The exchange of ranks that are threads of one process. `of_threads` makes them; they live until the last rank has
/// returned.
class thread_exchange : public rank_exchange {
 public:
  /// For `ranks` ranks. `limit` is how long one waits for another's message.
  [[nodiscard]] static std::unique_ptr<thread_exchanges> of_threads(std::size_t ranks,
                                                                    std::chrono::milliseconds limit) {
    auto all = std::make_unique<thread_exchanges>();
    for (std::size_t r = 0; r < ranks; ++r)
      all->push_back(std::unique_ptr<thread_exchange>(
          new thread_exchange({.rank = r, .size = ranks, .local_rank = r}, limit, *all)));
    return all;
  }

  void leave() override {}

 private:
  thread_exchange(rank_place place, std::chrono::milliseconds limit, thread_exchanges const& all)
      : rank_exchange(place, limit), all_(&all) {}

  void post(std::size_t to, std::string const& name, bytes content) override {
    (*all_)[to]->deliver(place().rank, name, std::move(content));
  }
  void tell(detail::run_failure const& failure) override {
    for (auto const& other : *all_)
      if (other.get() != this) other->note(failure);
  }

  thread_exchanges const* all_;
};

}  // namespace heddle::comm
