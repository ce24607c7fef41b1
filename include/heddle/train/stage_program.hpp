// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/plan/parameter_table.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/train/context.hpp>
#include <span>
#include <string>
#include <utility>

namespace heddle {

/// A pipeline stage as values: the constants that its interpreter (`stage_runner`) reads, and the specialised code that
/// it calls. So the interpreter is compiled once, however many plans and kinds of stages a program has.
template <class T, class Backend, class Communicator>
struct stage_program {
  using context = step_context<T, Backend, Communicator>;

  bool is_first = false, is_last = false;
  loss_scale_policy scale{};
  std::size_t micro_batches = 1;
  layout token_layout{};
  layout output_layout{};
  parameter_table const* parameters = nullptr;
  std::size_t first_site = 0;
  // Memory in elements (plan/stage_memory.hpp): of a micro-batch's slot, and of all.
  std::size_t input = 0, input_size = 0;
  std::size_t output = 0, output_size = 0;
  std::size_t input_gradient = 0;
  std::size_t slot_elements = 0;
  std::size_t output_gradient_elements = 0;
  std::size_t scratch_elements = 0;
  std::size_t token_count = 0;
  std::size_t tokens_per_micro_batch = 0;
  // The schedule, by stage.
  std::span<schedules::action const> (*actions)(std::size_t stage) = nullptr;
  std::size_t (*slot_of)(std::size_t stage, std::size_t micro_batch) = nullptr;
  std::size_t (*peak_in_flight)(std::size_t stage) = nullptr;
  std::size_t (*output_gradients)(std::size_t stage) = nullptr;
  /// `tokens` is for the first stage, which has no `x` and no `dx`.
  void (*forward)(context&, frame<T> const&, std::int32_t const* tokens, T const* x, T* y) = nullptr;
  void (*backward)(context&, frame<T> const&, std::int32_t const* tokens, T const* x, T const* y, T const* dy,
                   T* dx) = nullptr;
  /// Of the last stage: what its modules give before the loss, [micro_batch, context, vocabulary] as tokens lie.
  void (*logits)(context&, frame<T> const&, std::int32_t const* tokens, T const* x, T* out, std::size_t size) = nullptr;
};

/// The program of a kind of stage of a plan.
template <class R, stage_kind Kind, class Communicator>
struct stage_program_of {
 private:
  using memory = stage_memory<R, Kind>;
  using partition = stage_partition<R>;
  using stage = typename memory::stage;
  using table = schedule_of<R>;
  using element = typename R::element;
  using program = stage_program<element, typename R::backend, Communicator>;
  using context = typename program::context;
  static constexpr mesh_value mesh = R::mesh::value;

  // A constant expression for each stage, since compilers bound the work of each.
  template <std::size_t Stage>
  static constexpr bool splits_backward_on = [] {
    for (schedules::action const& a : table::actions(Stage))
      if (a.kind == schedules::action_kind::backward_input || a.kind == schedules::action_kind::backward_weight)
        return true;
    return false;
  }();
  static constexpr bool splits_backward = []<std::size_t... Stage>(std::index_sequence<Stage...>) {
    return (splits_backward_on<Stage> || ...);
  }
  (std::make_index_sequence<partition::stages>{});
  static_assert(!splits_backward,
                "trainer<Model, Plan>: the schedule must run whole backwards, since modules do not split theirs; emit "
                "backward instead of backward_input and backward_weight");
  static_assert(table::chunks == 1,
                "trainer<Model, Plan>: the schedule must have one chunk per stage, since a stage holds one stretch of "
                "layers; use a schedule that does not interleave");

  static void forward(context& c, frame<element> const& f, [[maybe_unused]] std::int32_t const* tokens,
                      [[maybe_unused]] element const* x, element* y) {
    if constexpr (memory::is_first)
      stage::forward(c, f, tokens, y);
    else
      stage::forward(c, f, x, y);
  }
  static void backward(context& c, frame<element> const& f, [[maybe_unused]] std::int32_t const* tokens,
                       [[maybe_unused]] element const* x, element const* y, element const* dy, element* dx) {
    if constexpr (memory::is_first)
      stage::backward(c, f, tokens, y, dy, static_cast<element*>(nullptr));
    else
      stage::backward(c, f, x, y, dy, dx);
  }
  static void logits(context& c, frame<element> const& of_stage, [[maybe_unused]] std::int32_t const* tokens,
                     [[maybe_unused]] element const* x, element* out, std::size_t size) {
    using head = placed<typename detail::without_last<typename partition::template module<Kind>>::type,
                        typename R::modules, typename stage::input>;
    using vocabulary_dims = typename head::output;
    constexpr dimension_list d = R::stored(vocabulary_dims::value);
    if (std::size_t const real = d.dim[d.rank - 1].size; real != R::model::vocabulary)
      throw error(detail::joined_text({"trainer: the model's 'vocabulary' is ", R::model::vocabulary,
                                       ", but the module before its loss gives rows of ", real,
                                       "; give both the same size to ask for logits"}));
    // As tokens lie: this rank's own sequences, also where the vocabulary has taken an axis from the batch.
    constexpr redistribution path = find_redistribution(mesh, d, head::output_layout, R::token_layout);
    using arenas = typename R::backend::memory;
    typename arenas::template arena<element> const saved(head::saved + head::forward_scratch + path.from_size +
                                                         path.to_size + redistribution_scratch(mesh, path));
    frame<element> f = of_stage;
    f.saved = saved.data();
    f.scratch = f.saved + head::saved;
    element* const mine = f.scratch + head::forward_scratch;
    element* const all = mine + path.from_size;
    if constexpr (memory::is_first)
      head::forward(c, f, tokens, mine);
    else
      head::forward(c, f, x, mine);
    c.redistribute(path, static_cast<element const*>(mine), all, all + path.to_size);
    // Gathered logits have the stored vocabulary; users see the real one.
    auto const& last = d.dim[d.rank - 1];
    for (std::size_t row = 0; row * last.size < size; ++row)
      arenas::copy(static_cast<element const*>(all + row * last.stored), out + row * last.size, last.size);
  }
  static constexpr program build() {
    program p{};
    p.is_first = memory::is_first;
    p.is_last = memory::is_last;
    p.scale = R::precision.scale;
    p.micro_batches = R::plan::micro_batches;
    p.token_layout = R::token_layout;
    p.output_layout = stage::output_layout;
    p.parameters = &parameter_table_of<R, Kind>::value;
    p.first_site = partition::template first_site<Kind>();
    p.input = memory::input;
    p.input_size = memory::input_size;
    p.output = memory::output;
    p.output_size = memory::output_size;
    p.input_gradient = memory::input_gradient;
    p.slot_elements = memory::slot_elements;
    p.output_gradient_elements = memory::output_gradient_elements;
    p.scratch_elements = memory::scratch_elements;
    p.token_count = memory::token_count;
    p.tokens_per_micro_batch = local_size(mesh, R::tokens::value, R::token_layout);
    p.actions = &table::actions;
    p.slot_of = [](std::size_t s, std::size_t m) { return table::slot_of(s, m); };
    p.peak_in_flight = &table::peak_in_flight;
    p.output_gradients = &output_gradients_of<R>;
    p.forward = &forward;
    p.backward = &backward;
    if constexpr (memory::is_last) p.logits = &logits;
    return p;
  }

 public:
  static constexpr program value = build();
};

}  // namespace heddle
