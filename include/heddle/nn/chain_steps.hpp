// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/chunked_loss.hpp>
#include <heddle/nn/fused_step.hpp>
#include <tuple>

namespace heddle {

namespace detail {

/// What does nothing under any plan, and is left out: a dropout with probability 0.
template <class Placed>
concept Identity = requires {
  requires Placed::identity;
};
template <class Placed>
concept AddsForward = requires {
  requires Placed::adds_forward;
};
template <class Placed>
concept AddsBackward = requires {
  requires Placed::adds_backward;
};
/// What ends in a loss in chunks.
template <class Placed>
concept ChunkedLoss = requires {
  requires Placed::logit_rows != 0;
};
/// A loss in chunks, and what gives it the rows of a chunk: a product, with its bias or as the end of a chain.
template <class Source, class Loss>
concept Chunks = GivesRows<Source> && requires {
  requires Loss::chunk_rows != 0;
  requires Source::independent_rows == Loss::all_rows;
};
/// What fuses: primitives, whose parameters are one unit. One that works in place would have its input in the output.
template <class Sum, class Constant>
concept Fuses = requires {
  requires Sum::adds_forward && !Sum::in_place && !Sum::needs_output;
  requires Constant::adds_constant && Constant::saved == 0 && Constant::forward_scratch == 0;
  requires !Constant::needs_input && !Constant::needs_output && !Identity<Constant>;
  typename Sum::kernel;
};

template <class Step, class Steps>
struct steps_before;
template <class Step, class... Steps>
struct steps_before<Step, std::tuple<Steps...>> {
  using type = std::tuple<Step, Steps...>;
};

/// What a chain of placed modules executes: all of them but those that do nothing, and neighbours that fuse as one.
template <class... Children>
struct chain_steps {
  using type = std::tuple<Children...>;  // none, or one
};
template <class First, class Second, class... Rest>
struct chain_steps<First, Second, Rest...> : steps_before<First, typename chain_steps<Second, Rest...>::type> {};
template <Identity First, class Second, class... Rest>
struct chain_steps<First, Second, Rest...> : chain_steps<Second, Rest...> {};
template <class First, Identity Second, class... Rest>
requires(!Identity<First>) struct chain_steps<First, Second, Rest...> : chain_steps<First, Rest...> {
};
template <class First, class Second, class... Rest>
requires Fuses<First, Second>
struct chain_steps<First, Second, Rest...> : chain_steps<fused_step<First, Second>, Rest...> {
};
template <class First, class Second>
requires Chunks<First, Second>
struct chain_steps<First, Second> : chain_steps<chunked_loss<First, Second>> {
};

template <class Children>
struct steps_of;
template <class... Children>
struct steps_of<std::tuple<Children...>> : chain_steps<Children...> {};

}  // namespace detail

}  // namespace heddle
