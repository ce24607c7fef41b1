// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/train/trace.hpp>
#include <optional>
#include <string>

namespace heddle {

namespace detail {

template <class Memory>
concept Records = requires {
  typename Memory::recording;
};

/// What a step must be to be captured: an error names what is not so.
inline void check_capture(bool records, bool listed, std::size_t ranks, std::size_t axes) {
  auto const refuse = [](std::string const& why, char const* remedy) {
    throw error(joined_text(
        {"trainer: 'capture' asks for steps that are replayed as a graph, ", why, "; leave it off, or ", remedy}));
  };
  if (!records) refuse("and the host has none", "train on a device (cuda_backend)");
  if (!listed)
    refuse("and this optimizer is told its facts by the host in the midst of them",
           "give it a 'list' and 'coefficients_of', as heddle::adamw has them, and masters of the type that gradients "
           "are computed with in");
  if (ranks != 1)
    refuse(joined_text({"and this mesh has ", ranks, " ranks, whose calls to each other no graph of one of them has"}),
           "train on one rank");
  if (axes != 0)
    refuse("and this mesh has axes, of one rank each, whose calls are counted when they are made",
           "name no axis: plan<mesh<>, ...>");
}

}  // namespace detail

/// How a step's work reaches the backend: given anew each time; or, where it is captured, recorded at the second step
/// and replayed from then on. The first is given as it is, so that whatever is loaded, or asked for, once is there
/// before the recording, which allows no such thing.
template <class Memory>
class step_capture {
 public:
  step_capture(bool wanted, trace_recorder* trace) : wanted_(wanted), trace_(trace) {}

  template <class Work>
  void run(Work const& work) {
    if constexpr (detail::Records<Memory>) {
      if (wanted_ && began_) {
        if (!recording_) recording_.emplace(work);
        step_span<Memory> const span(trace_, "replay");
        recording_->replay();
        return;
      }
      began_ = true;
    }
    work();
  }

 private:
  struct nothing {};
  template <class M>
  struct recording_of {
    using type = nothing;
  };
  template <detail::Records M>
  struct recording_of<M> {
    using type = typename M::recording;
  };

  bool wanted_;
  bool began_ = false;
  trace_recorder* trace_;
  std::optional<typename recording_of<Memory>::type> recording_;
};

}  // namespace heddle
