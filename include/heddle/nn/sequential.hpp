// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/nn/chain_steps.hpp>
#include <heddle/nn/op.hpp>
#include <tuple>
#include <utility>

namespace heddle {

/// The composition of modules, first to last.
template <class... Modules>
struct sequential {
  static_assert(sizeof...(Modules) > 0,
                "sequential<Modules...>: must have at least one module; add one or leave it out");
};

namespace detail {

/// The placed children of a sequential: each takes the dimensions that the one before it gives.
template <class Plan, class Input, class... Modules>
struct placed_chain;
template <class Plan, class Input, class Last>
struct placed_chain<Plan, Input, Last> {
  using types = std::tuple<placed<Last, Plan, Input>>;
};
template <class Plan, class Input, class First, class... Rest>
struct placed_chain<Plan, Input, First, Rest...> {
  using first = placed<First, Plan, Input>;
  using types =
      decltype(std::tuple_cat(std::declval<std::tuple<first>>(),
                              std::declval<typename placed_chain<Plan, typename first::output, Rest...>::types>()));
};

/// Where the values between the steps of a chain live. Value 0 is the chain's input and value N its output; both are
/// the caller's. Value i is written by step i-1 and read by step i.
template <std::size_t N>
struct value_plan {
  enum class place : unsigned char { caller, saved, scratch };
  std::array<place, N + 1> where{};
  std::array<std::size_t, N + 1> offset{};
  std::array<std::size_t, N + 1> buffer{};  ///< the value whose buffer this one shares (itself, or a later one)
  std::size_t saved = 0;
  std::size_t scratch = 0;
};

struct step_facts {
  std::size_t output_size;  ///< rounded up to a slot
  bool needs_input, needs_output, in_place, identity_cotangent;
};

/// Values that a backward reads are saved; the others alternate between two scratch areas, since only neighbours are
/// alive together. A child that works in place shares its input's buffer with its output's.
template <std::size_t N>
constexpr value_plan<N> plan_values(std::array<step_facts, N> const& step) {
  value_plan<N> plan{};
  using place = typename value_plan<N>::place;
  plan.buffer[N] = N;
  for (std::size_t i = N; i-- > 1;) {
    bool const needed = step[i].needs_input || step[i - 1].needs_output;
    bool const shares = step[i].in_place && !needed;
    plan.buffer[i] = shares ? plan.buffer[i + 1] : i;
  }
  std::array<std::size_t, 2> area{};
  std::size_t parity = 0;
  for (std::size_t i = 1; i < N; ++i) {
    if (plan.buffer[i] != i) continue;
    if (step[i].needs_input || step[i - 1].needs_output) {
      plan.where[i] = place::saved;
      plan.offset[i] = plan.saved;
      plan.saved += step[i - 1].output_size;
    } else {
      plan.where[i] = place::scratch;
      plan.offset[i] = parity;  // area for now
      area[parity] = larger(area[parity], step[i - 1].output_size);
      parity ^= 1;
    }
  }
  for (std::size_t i = 1; i < N; ++i)
    if (plan.where[i] == place::scratch) plan.offset[i] = plan.offset[i] == 0 ? 0 : area[0];
  for (std::size_t i = 1; i < N; ++i)
    if (plan.buffer[i] != i) {
      plan.where[i] = plan.where[plan.buffer[i]];
      plan.offset[i] = plan.offset[plan.buffer[i]];
    }
  plan.scratch = area[0] + area[1];
  return plan;
}

/// The same for cotangents in backward: a step whose cotangent is the identity passes its pointer on.
template <std::size_t N>
constexpr value_plan<N> plan_cotangents(std::array<step_facts, N> const& step) {
  value_plan<N> plan{};
  using place = typename value_plan<N>::place;
  plan.buffer[N] = N;
  std::array<std::size_t, 2> area{};
  std::size_t parity = 0;
  for (std::size_t i = N; i-- > 1;) {
    if (step[i].identity_cotangent) {
      plan.buffer[i] = plan.buffer[i + 1];
      plan.where[i] = plan.where[i + 1];
      plan.offset[i] = plan.offset[i + 1];
      continue;
    }
    plan.buffer[i] = i;
    plan.where[i] = place::scratch;
    plan.offset[i] = parity;
    area[parity] = larger(area[parity], step[i - 1].output_size);
    parity ^= 1;
  }
  for (std::size_t i = 1; i < N; ++i)
    if (plan.where[i] == place::scratch) plan.offset[i] = plan.offset[i] == 0 ? 0 : area[0];
  plan.scratch = area[0] + area[1];
  return plan;
}

}  // namespace detail

template <class... Modules, class Plan, class Input>
struct placed<sequential<Modules...>, Plan, Input> {
  using element = typename Plan::element;
  using children = typename detail::placed_chain<Plan, Input, Modules...>::types;
  /// Module number Index, placed.
  template <std::size_t Index>
  using child = std::tuple_element_t<Index, children>;
  /// What is executed: children, or several of them as one.
  using steps = typename detail::steps_of<children>::type;
  static constexpr std::size_t count = std::tuple_size_v<steps>;
  template <std::size_t Index>
  using step = std::tuple_element_t<Index, steps>;
  using first = step<0>;
  using last = step<count - 1>;
  using input = Input;
  using output = typename last::output;
  static constexpr layout input_layout = first::input_layout;
  static constexpr layout output_layout = last::output_layout;

 private:
  using indices = std::make_index_sequence<count>;
  template <class Step>
  static constexpr detail::step_facts facts_of() {
    return {slot<element>(local_size(Plan::mesh::value, Plan::stored(Step::output::value), Step::output_layout)),
            Step::needs_input, Step::needs_output, Step::in_place,
            Step::identity_cotangent || !detail::goes_back<Step>};
  }
  template <std::size_t... Index>
  static constexpr std::array<detail::step_facts, count> all_facts(std::index_sequence<Index...>) {
    return {facts_of<step<Index>>()...};
  }
  template <std::size_t... Index>
  static constexpr bool ends_in_its_loss(std::index_sequence<Index...>) {
    return (true && ... && (Index + 1 == count || !detail::ChunkedLoss<step<Index>>));
  }
  static constexpr std::array<detail::step_facts, count> facts = all_facts(indices{});
  static constexpr detail::value_plan<count> values = detail::plan_values(facts);
  static constexpr detail::value_plan<count> cotangents = detail::plan_cotangents(facts);

  /// Where each step's share of the frame begins.
  struct shares {
    std::array<std::size_t, count + 1> uses{}, saved{}, sites{};
    std::size_t forward_scratch = 0, backward_scratch = 0;
  };
  template <std::size_t... Index>
  static constexpr shares all_shares(std::index_sequence<Index...>) {
    shares s{};
    s.saved[0] = values.saved;
    ((s.uses[Index + 1] = s.uses[Index] + step<Index>::uses.size(),
      s.saved[Index + 1] = s.saved[Index] + step<Index>::saved,
      s.sites[Index + 1] = s.sites[Index] + step<Index>::sites,
      s.forward_scratch = detail::larger(s.forward_scratch, step<Index>::forward_scratch),
      s.backward_scratch =
          detail::larger(s.backward_scratch, detail::goes_back<step<Index>> ? step<Index>::backward_scratch : 0)),
     ...);
    return s;
  }
  static constexpr shares share = all_shares(indices{});
  template <std::size_t... Index>
  static constexpr auto all_uses(std::index_sequence<Index...>) {
    std::array<parameter_use, (step<Index>::uses.size() + ...)> all{};
    std::size_t n = 0;
    auto const append = [&](auto const& some) {
      for (auto const& u : some) all[n++] = u;
    };
    (append(step<Index>::uses), ...);
    return all;
  }
  template <std::size_t... Index>
  static constexpr auto all_units(std::index_sequence<Index...>) {
    std::array<parameter_unit, (step<Index>::units.size() + ...)> all{};
    std::size_t n = 0;
    auto const append = [&](auto const& some, std::size_t uses_before) {
      for (parameter_unit u : some) {
        u.first_use += uses_before;
        all[n++] = u;
      }
    };
    (append(step<Index>::units, share.uses[Index]), ...);
    return all;
  }

 public:
  static constexpr auto uses = all_uses(indices{});
  static constexpr auto units = all_units(indices{});
  static constexpr bool needs_input = first::needs_input;
  static constexpr bool needs_output = last::needs_output;
  static constexpr bool in_place = count == 1 && first::in_place;
  static constexpr bool identity_cotangent = count == 1 && first::identity_cotangent;
  static constexpr bool adds_forward = detail::AddsForward<last>;
  static constexpr bool adds_backward = detail::AddsBackward<first>;
  /// Not where the last step's input stands in the output, or its cotangent in the output's: there is none. Nor where
  /// it is a value between two steps that no backward reads.
  static constexpr std::size_t independent_rows = [] {
    if constexpr (detail::GivesRows<last>)
      return count == 1 || (!last::in_place && !last::identity_cotangent && !last::rows_read_input)
                 ? last::independent_rows
                 : std::size_t{0};
    else
      return std::size_t{0};
  }();
  static_assert(ends_in_its_loss(indices{}),
                "sequential<Modules...>: a module that ends in a loss must be the last, since in training the loss is "
                "known after "
                "its backward; put what follows it before it, or into the loss");
  /// Rows of the logits at a time (nn/chunked_loss.hpp); 0 without a loss, and where they stand whole.
  static constexpr std::size_t logit_rows = [] {
    if constexpr (requires { last::logit_rows; })
      return last::logit_rows;
    else
      return std::size_t{0};
  }();
  static constexpr std::size_t sites = share.sites[count];
  static constexpr std::size_t saved = share.saved[count];
  static constexpr std::size_t forward_scratch = values.scratch + share.forward_scratch;
  static constexpr std::size_t backward_scratch = cotangents.scratch + share.backward_scratch;
  static constexpr bool rows_read_input = count == 1 && detail::rows_read_input<last>;
  static constexpr std::size_t rows_first_use = share.uses[count - 1] + detail::rows_first_use<last>;
  static constexpr std::size_t rows_scratch = count == 1 ? detail::rows_scratch<last> : backward_scratch;

  template <class Context, class X>
  static void forward(Context& c, frame<element> f, X const* x, element* y) {
    forward_all(c, f, x, y, std::make_index_sequence<count - 1>{});
    forward_one<count - 1>(c, f, x, y);
  }
  /// The last step adds; `base` may be x, and is not y.
  template <class Context, class X>
  static void forward_onto(Context& c, frame<element> f, element const* base, X const* x, element* y) {
    forward_all(c, f, x, y, std::make_index_sequence<count - 1>{});
    last::forward_onto(c, frame_of<count - 1>(f, values.scratch), base, input_at<count - 1>(f, x, y), y);
  }
  template <class Context, class X>
  static void backward(Context& c, frame<element> f, [[maybe_unused]] X const* x, element const* y, element const* dy,
                       [[maybe_unused]] element* dx) {
    backward_down<count - 1>(c, f, y, dy, std::make_index_sequence<count - 1>{});
    if constexpr (detail::goes_back<first>)
      first::backward(c, frame_of<0>(f, cotangents.scratch), x, value_at<1>(f, const_cast<element*>(y)),
                      cotangent_at<1>(f, dy), dx);
  }
  /// The first step adds; `base` may be dy.
  template <class Context, class X>
  static void backward_onto(Context& c, frame<element> f, X const* x, element const* y, element const* dy,
                            element const* base, element* dx) {
    backward_down<count - 1>(c, f, y, dy, std::make_index_sequence<count - 1>{});
    first::backward_onto(c, frame_of<0>(f, cotangents.scratch), x, value_at<1>(f, const_cast<element*>(y)),
                         cotangent_at<1>(f, dy), base, dx);
  }

  /// The last step gives them (`placed`).
  template <class Context, class X, class F>
  static void forward_rows(Context& c, frame<element> f, X const* x, F use) {
    element* const no_output = nullptr;
    forward_all(c, f, x, no_output, std::make_index_sequence<count - 1>{});
    last::forward_rows(c, frame_of<count - 1>(f, values.scratch), input_at<count - 1>(f, x, no_output), use);
  }
  template <class Context, class X, class F>
  static void backward_rows(Context& c, frame<element> f, X const* x, element* dx, F use) {
    element* const no_output = nullptr;
    auto const frame_of_last = frame_of<count - 1>(f, cotangents.scratch);
    if constexpr (count == 1) {
      last::backward_rows(c, frame_of_last, x, dx, use);
    } else {
      last::backward_rows(c, frame_of_last, input_at<count - 1>(f, x, no_output),
                          const_cast<element*>(cotangent_at<count - 1>(f, no_output)), use);
      backward_down<count - 2>(c, f, no_output, no_output, std::make_index_sequence<count - 2>{});
      first::backward(c, frame_of<0>(f, cotangents.scratch), x, value_at<1>(f, no_output),
                      cotangent_at<1>(f, no_output), dx);
    }
  }

  static constexpr void count_forward(traffic_table& t, coordinates const& at) { count_all<true>(t, at, indices{}); }
  static constexpr void count_backward(traffic_table& t, coordinates const& at) { count_all<false>(t, at, indices{}); }

 private:
  template <std::size_t Index>
  static frame<element> frame_of(frame<element> f, std::size_t own_scratch) {
    f.parameter += share.uses[Index];
    f.gradient += share.uses[Index];
    f.saved += share.saved[Index];
    f.scratch += own_scratch;
    f.site += share.sites[Index];
    f.use += share.uses[Index];
    return f;
  }
  /// Value Index >= 1; value 0 may be of another type and is passed as it is.
  template <std::size_t Index>
  static element* value_at(frame<element> const& f, element* y) {
    constexpr auto where = values.where[Index];
    if constexpr (where == detail::value_plan<count>::place::caller)
      return y;
    else if constexpr (where == detail::value_plan<count>::place::saved)
      return f.saved + values.offset[Index];
    else
      return f.scratch + values.offset[Index];
  }
  template <std::size_t Index, class X>
  static auto const* input_at(frame<element> const& f, X const* x, element* y) {
    if constexpr (Index == 0)
      return x;
    else
      return static_cast<element const*>(value_at<Index>(f, y));
  }
  template <std::size_t Index>
  static element const* cotangent_at(frame<element> const& f, element const* dy) {
    if constexpr (cotangents.where[Index] == detail::value_plan<count>::place::caller)
      return dy;
    else
      return f.scratch + cotangents.offset[Index];
  }

  template <class Context, class X, std::size_t... Index>
  static void forward_all([[maybe_unused]] Context& c, [[maybe_unused]] frame<element> const& f,
                          [[maybe_unused]] X const* x, [[maybe_unused]] element* y, std::index_sequence<Index...>) {
    (forward_one<Index>(c, f, x, y), ...);
  }
  template <std::size_t Index, class Context, class X>
  static void forward_one(Context& c, frame<element> const& f, X const* x, element* y) {
    step<Index>::forward(c, frame_of<Index>(f, values.scratch), input_at<Index>(f, x, y), value_at<Index + 1>(f, y));
  }

  /// Step From, and those before it down to the second.
  template <std::size_t From, class Context, std::size_t... Index>
  static void backward_down([[maybe_unused]] Context& c, [[maybe_unused]] frame<element> const& f,
                            [[maybe_unused]] element const* y, [[maybe_unused]] element const* dy,
                            std::index_sequence<Index...>) {
    (backward_one<From - Index>(c, f, y, dy), ...);
  }
  template <std::size_t Index, class Context>
  static void backward_one([[maybe_unused]] Context& c, [[maybe_unused]] frame<element> const& f,
                           [[maybe_unused]] element const* y, [[maybe_unused]] element const* dy) {
    // Values in scratch are gone, and nobody asks for them: only saved ones, and the caller's, are read again.
    if constexpr (detail::goes_back<step<Index>>) {
      element* const caller_y = const_cast<element*>(y);
      step<Index>::backward(c, frame_of<Index>(f, cotangents.scratch), value_at<Index>(f, caller_y),
                            value_at<Index + 1>(f, caller_y), cotangent_at<Index + 1>(f, dy),
                            const_cast<element*>(cotangent_at<Index>(f, dy)));
    }
  }

  template <bool Forward, std::size_t... Index>
  static constexpr void count_all(traffic_table& t, coordinates const& at, std::index_sequence<Index...>) {
    if constexpr (Forward)
      (step<Index>::count_forward(t, at), ...);
    else
      (step<count - 1 - Index>::count_backward(t, at), ...);
  }
};

}  // namespace heddle
