// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/layout/op_rules.hpp>
#include <heddle/layout/redistribution.hpp>
#include <heddle/nn/frame.hpp>
#include <heddle/nn/module_concepts.hpp>
#include <heddle/nn/op_place.hpp>
#include <heddle/nn/parameter.hpp>
#include <heddle/nn/parameter_unit.hpp>
#include <heddle/tensor/traffic.hpp>
#include <type_traits>

namespace heddle {

namespace detail {
/// How many of `rows` rows of `row_bytes` each are within `limit` bytes, all chunks alike where that is possible with
/// less than twice as many; 0 for a limit of 0.
constexpr std::size_t rows_of_chunk(std::size_t rows, std::size_t row_bytes, std::size_t limit) {
  if (limit == 0) return 0;
  if (rows * row_bytes <= limit) return rows;
  std::size_t const most = limit < row_bytes ? 1 : limit / row_bytes;
  std::size_t const chunks = (rows + most - 1) / most;
  std::size_t const tried = chunks < 4096 ? chunks : 4096;  // compilers bound the length of loops
  for (std::size_t n = chunks; n < chunks + tried; ++n)
    if (rows % n == 0) return rows / n;
  return (rows + chunks - 1) / chunks;
}
/// Elements of slots for the gradients of one copy of each use.
template <class T>
constexpr std::size_t gradient_room(mesh_value const& mesh, parameter_use const* uses, std::size_t count) {
  std::size_t room = 0;
  for (std::size_t k = 0; k < count; ++k) room += slot<T>(local_size(mesh, uses[k].dims, uses[k].gradient));
  return room;
}
/// Whether what a chain executes has a backward.
template <class Placed>
inline constexpr bool goes_back = true;
template <class Placed>
concept GivesRows = requires {
  requires Placed::independent_rows != 0;
};
/// As of `placed`, of what may give no rows.
template <class Placed>
inline constexpr bool rows_read_input = false;
template <GivesRows Placed>
inline constexpr bool rows_read_input<Placed> = Placed::rows_read_input;
template <class Placed>
inline constexpr std::size_t rows_scratch = Placed::backward_scratch;
template <GivesRows Placed>
inline constexpr std::size_t rows_scratch<Placed> = Placed::rows_scratch;
template <class Placed>
inline constexpr std::size_t rows_first_use = 0;
template <GivesRows Placed>
inline constexpr std::size_t rows_first_use<Placed> = Placed::rows_first_use;
}  // namespace detail

/// A module under a plan: declaration and placement are two things. `Module` says which parameters there are and what
/// they mean; `placed<Module, Plan, Input>` is the specialised layer for an input with the dimensions `Input`: local
/// shapes, layouts, redistributions, the memory it needs, `forward` and `backward`. This primary template places
/// primitive modules by their op rule; compositions (sequential, residual, repeat, named) specialise it.
///
/// Members (all static; sizes in elements of `Plan::element`):
///   input, output              the dimensions of the values in and out
///   output_layout              the placement of the output's own dimensions (a loss alone stays partial)
///   uses                       std::array<parameter_use>
///   units                      std::array<parameter_unit>: the uses that are asked for together
///   needs_input, needs_output  backward reads that value: the caller keeps it until then
///   in_place                   forward may be called with y == x
///   identity_cotangent         dx equals dy: backward may be called with dx == dy
///   adds_forward               there is forward_onto(context, frame, base, x, y): y = base + what forward gives
///   adds_backward              there is backward_onto(context, frame, x, y, dy, base, dx), likewise for dx
///   independent_rows           rows of the output that backward can have one by one, by forward_rows and
///                              backward_rows; 0 if none
///   rows_read_input            backward_rows reads the input where backward does not: who asks for rows keeps it
///   rows_scratch               of backward_rows
///   rows_first_use             the first of the uses that have gradients by rows: those from it on
///   goes_back                  of primitives: false where nothing before or in them is trained: there is no backward
///   logit_rows                 of what ends in a loss in chunks (nn/chunked_loss.hpp): in training forward gives 0,
///                              and backward the loss
///   saved, forward_scratch, backward_scratch, sites
///   forward(context, frame, x, y), backward(context, frame, x, y, dy, dx)
///   count_forward(t, at), count_backward(t, at)   what one call moves, as constants
template <class Module, class Plan, class Input>
struct placed {
  static_assert(
      Primitive<Module>,
      "placed<Module, Plan, Input>: 'Module' must be a module; derive it from heddle::primitive and give it the "
      "members of heddle::Primitive, or compose it from modules");

  using place = op_place<Module, Plan, Input>;
  using element = typename Plan::element;
  using input = Input;
  using output = typename place::output_dims;
  using kernel = typename Module::template kernel<place>;
  /// False where nothing before or in the module is trained (nn/forward_only.hpp): it has no backward.
  static constexpr bool goes_back = detail::goes_back_under<Plan>;
  static constexpr bool keeps_input = kernel::keeps_input && goes_back;
  static constexpr bool keeps_output = kernel::keeps_output && goes_back;

  static constexpr mesh_value mesh = place::mesh;
  static constexpr std::size_t all_rows = kernel::independent_rows == 0 ? 1 : kernel::independent_rows;
  static constexpr bool reads_tokens = requires { typename Module::reads_tokens; };
  static constexpr bool is_loss = requires { typename Module::is_loss; };
  static constexpr layout input_layout =
      reads_tokens ? Plan::token_layout : heddle::place(mesh, Plan::rules::value, place::in);
  static constexpr layout output_layout =
      is_loss ? place::output_layout : heddle::place(mesh, Plan::rules::value, place::out);

  /// Own placement → compute layout, and compute layout → own placement.
  static constexpr redistribution in_path = find_redistribution(mesh, place::in, input_layout, place::input_layout);
  static constexpr redistribution out_path = find_redistribution(mesh, place::out, place::output_layout, output_layout);
  /// Their duals: the output's cotangent arrives complete; the input's leaves the op as a sum over what it lacks.
  static constexpr redistribution out_dual =
      find_redistribution(mesh, place::out, cotangent(output_layout), cotangent(place::output_layout));
  static constexpr redistribution in_dual =
      reads_tokens ? in_path : find_redistribution(mesh, place::in, place::op.sum(place::in), input_layout);

  static constexpr auto uses = Module::parameters::template uses<Plan>(place::op);
  static constexpr std::array<parameter_unit, uses.size() == 0 ? 0 : 1> units = [] {
    std::array<parameter_unit, uses.size() == 0 ? 0 : 1> one{};
    if constexpr (uses.size() != 0) one[0] = {0, uses.size(), 1, goes_back};
    return one;
  }();

  static constexpr bool needs_input = keeps_input && in_path.empty();
  static constexpr bool needs_output = keeps_output && out_path.empty();
  static constexpr bool in_place = kernel::in_place && in_path.empty() && out_path.empty();
  static constexpr bool identity_cotangent = kernel::identity_cotangent && in_dual.empty() && out_dual.empty();
  static constexpr bool identity = kernel::identity && kernel::sites == 0 && uses.size() == 0 && in_place &&
                                   identity_cotangent && std::is_same_v<output, Input>;
  // A sum that is to be completed, or cut, on the way is no place to add to.
  static constexpr bool adds_forward = kernel::adds_forward && out_path.empty();
  static constexpr bool adds_backward = kernel::adds_backward && in_dual.empty();
  static constexpr bool adds_constant = kernel::adds_constant && in_place && identity_cotangent;
  static constexpr bool moves_nothing = in_path.empty() && in_dual.empty() && out_path.empty() && out_dual.empty();
  /// Whether some of the kernel's rows can be computed without the others: it draws no random numbers, for whose places
  /// in the whole it would need to know which, and backward does not read the output.
  static constexpr bool splits_into_rows = kernel::independent_rows != 0 && kernel::sites == 0 && !keeps_output;
  /// Whether the kernel's own algorithm moves nothing.
  static constexpr bool stays_local = [] {
    traffic_table moved{};
    kernel::count_forward(moved, coordinates{});
    kernel::count_backward(moved, coordinates{});
    return moved == traffic_table{};
  }();
  /// Rows that forward can give one by one in backward, from the input, which is kept; 0 where it cannot. What it moved
  /// it would move for each chunk.
  static constexpr std::size_t independent_rows = splits_into_rows && (keeps_input || kernel::rows_from_input) &&
                                                          out_path.empty() && out_dual.empty() && stays_local
                                                      ? kernel::independent_rows
                                                      : 0;
  static constexpr bool rows_read_input = independent_rows != 0 && !keeps_input;
  static constexpr std::size_t rows_first_use = 0;
  /// Targets are handed to a loss by rows, so its rows must be tokens.
  static constexpr std::size_t local_tokens = local_size(mesh, place::token_dims, place::op.operand(place::token_dims));
  /// Of a loss: how many rows of logits at a time are within the plan's `logit_chunk`; 0 where it needs all.
  static constexpr std::size_t chunk_rows =
      is_loss && uses.size() == 0 && moves_nothing && splits_into_rows && all_rows == local_tokens
          ? detail::rows_of_chunk(all_rows, place::input_size / all_rows * sizeof(element), Plan::logit_bytes)
          : 0;
  /// The kernel on `Rows` of its rows.
  template <std::size_t Rows>
  using kernel_of_rows = typename Module::template kernel<place_of_rows<place, all_rows, Rows>>;
  static constexpr std::size_t sites = kernel::sites;

  // Saved: the redistributed input or output where backward reads it, then what the kernel keeps.
  static constexpr std::size_t saved_input_size = keeps_input && !in_path.empty() ? in_path.to_size : 0;
  static constexpr std::size_t saved_output_size = keeps_output && !out_path.empty() ? out_path.from_size : 0;
  static constexpr std::size_t saved_output = slot<element>(saved_input_size);
  static constexpr std::size_t saved_kernel = saved_output + slot<element>(saved_output_size);
  static constexpr std::size_t saved = saved_kernel + (goes_back ? slot<element>(kernel::saved) : 0);

  // Scratch: values in compute layout, then what redistributions and the kernel use, one after the other. What an
  // all-reduce completes, it completes where it stands.
  static constexpr bool moves_dx = !in_dual.empty() && !reads_tokens;
  static constexpr std::size_t gathered_input = in_path.empty() || keeps_input ? 0 : slot<element>(in_path.to_size);
  static constexpr std::size_t pending_output =
      works_in_place(out_path) || keeps_output ? 0 : slot<element>(out_path.from_size);
  static constexpr std::size_t unsaved_kernel = goes_back ? 0 : slot<element>(kernel::saved);
  static constexpr std::size_t forward_scratch =
      gathered_input + pending_output + unsaved_kernel +
      slot<element>(
          detail::larger(detail::larger(redistribution_scratch(mesh, in_path), redistribution_scratch(mesh, out_path)),
                         kernel::forward_scratch));
  static constexpr std::size_t gathered_dy = out_dual.empty() ? 0 : slot<element>(out_dual.to_size);
  static constexpr std::size_t pending_dx = !moves_dx || works_in_place(in_dual) ? 0 : slot<element>(in_dual.from_size);
  /// Of frozen parameters, where the kernel knows of none and adds to their gradients: it may, and nobody reads them.
  static constexpr std::size_t unread_gradients =
      place::trains || kernel::skips_gradients ? 0 : detail::gradient_room<element>(mesh, uses.data(), uses.size());
  static constexpr std::size_t backward_scratch =
      gathered_dy + pending_dx + unread_gradients +
      slot<element>(
          detail::larger(detail::larger(redistribution_scratch(mesh, in_dual), redistribution_scratch(mesh, out_dual)),
                         // Rows may be computed in backward.
                         independent_rows != 0 ? detail::larger(kernel::forward_scratch, kernel::backward_scratch)
                                               : kernel::backward_scratch));
  // An input that backward does not read is brought for its rows then, and not in forward.
  static constexpr std::size_t gathered_for_rows =
      rows_read_input && !in_path.empty() ? slot<element>(in_path.to_size) : 0;
  static constexpr std::size_t rows_scratch =
      gathered_for_rows + detail::larger(backward_scratch, gathered_for_rows == 0
                                                               ? 0
                                                               : slot<element>(redistribution_scratch(mesh, in_path)));

  template <class Context, class X>
  static void forward(Context& c, frame<element> f, X const* x, element* y) {
    element* const kept = f.saved;
    element* const pending = keeps_output ? kept + saved_output : pending_output == 0 ? y : f.scratch + gathered_input;
    X const* const x_compute = begin_forward(c, f, x);
    if constexpr (out_path.empty()) {
      kernel::forward(c, f, x_compute, y);
    } else {
      kernel::forward(c, f, x_compute, pending);
      c.redistribute(out_path, pending, y, f.scratch);
    }
  }
  /// `base` may be x; it may be y unless the module works in place.
  template <class Context, class X>
  static void forward_onto(Context& c, frame<element> f, element const* base, X const* x, element* y) {
    X const* const x_compute = begin_forward(c, f, x);
    kernel::forward_onto(c, f, base, x_compute, y);
  }

  template <class Context, class X>
  static void backward(Context& c, frame<element> f, X const* x, element const* y, element const* dy, element* dx) {
    backward_by(c, f, x, y, dy, dx, [&](X const* x_here, element const* y_here, element const* dy_here, element* to) {
      kernel::backward(c, f, x_here, y_here, dy_here, to);
    });
  }
  /// `base` may be dy.
  template <class Context, class X>
  static void backward_onto(Context& c, frame<element> f, X const* x, element const* y, element const* dy,
                            element const* base, element* dx) {
    backward_by(c, f, x, y, dy, dx, [&](X const* x_here, element const* y_here, element const* dy_here, element* to) {
      kernel::backward_onto(c, f, x_here, y_here, dy_here, base, to);
    });
  }

  /// `use(get)` with get(size, first, y, onto): a constant `size` of rows from `first` on, of what forward gives, to
  /// y[size, …]; added where `onto`.
  template <class Context, class X, class F>
  static void forward_rows(Context& c, frame<element> f, X const* x, F use) {
    if constexpr (gathered_for_rows != 0)
      if (c.training()) {  // nobody computes before backward
        if constexpr (uses.size() != 0)
          if (!f.asked) c.before_forward(f.use, 0);
        return;
      }
    X const* const x_compute = begin_forward(c, f, x);
    use(rows_of(c, f, x_compute));
  }
  /// `use(get, put)` with put(size, first, dy): these rows of dy to the gradients and to their rows of dx.
  template <class Context, class X, class F>
  static void backward_rows(Context& c, frame<element> f, X const* x, element* dx, F use) {
    if constexpr (gathered_for_rows != 0) {
      X* const all = reinterpret_cast<X*>(f.scratch);
      f.scratch += gathered_for_rows;
      c.redistribute(in_path, x, all, reinterpret_cast<X*>(f.scratch));
      x = all;
    }
    backward_by(c, f, x, nullptr, nullptr, dx, [&](X const* x_here, element const*, element const*, element* to) {
      use(rows_of(c, f, x_here),
          [&]<std::size_t Rows>(std::integral_constant<std::size_t, Rows>, std::size_t first, element const* dy) {
            element const* const no_output = nullptr;
            kernel_of_rows<Rows>::backward(c, f, x_here + first * row_size, no_output, dy,
                                           reads_tokens ? nullptr : to + first * row_size);
            f.fresh = nullptr;  // the next rows are added
          });
    });
  }

  /// Asks for the parameters and brings x to where the op reads it; `f` becomes the kernel's frame.
  template <class Context, class X>
  static X const* begin_forward(Context& c, frame<element>& f, X const* x) {
    if constexpr (uses.size() != 0)
      if (!f.asked) c.before_forward(f.use, 0);
    element* const kept = f.saved;
    element* const gathered = f.scratch;
    f.saved = goes_back ? kept + saved_kernel : gathered + gathered_input + pending_output;
    f.scratch = gathered + gathered_input + pending_output + unsaved_kernel;
    if constexpr (in_path.empty()) {
      return x;
    } else {
      X* const to = reinterpret_cast<X*>(keeps_input ? kept : gathered);
      c.redistribute(in_path, x, to, reinterpret_cast<X*>(f.scratch));
      return to;
    }
  }
  /// Backward with the kernel's own part as `kernel_backward(x, y, dy, dx)`; `f` becomes the kernel's frame.
  template <class Context, class X, class F>
  static void backward_by(Context& c, frame<element>& f, X const* x, element const* y, element const* dy, element* dx,
                          F kernel_backward) {
    if constexpr (!goes_back) return;
    if constexpr (uses.size() != 0)
      if (!f.asked) c.before_backward(f.use, 0);
    element* const kept = f.saved;
    element* const work = f.scratch + gathered_dy + pending_dx + unread_gradients;
    element const* dy_compute = dy;
    if constexpr (!out_dual.empty()) {
      c.redistribute(out_dual, dy, f.scratch, work);
      dy_compute = f.scratch;
    }
    element* const dx_compute = pending_dx == 0 ? dx : f.scratch + gathered_dy;
    X const* const x_compute = keeps_input && !in_path.empty() ? reinterpret_cast<X const*>(kept) : x;
    element const* const y_compute = saved_output_size == 0 ? y : kept + saved_output;
    f.saved = kept + saved_kernel;
    f.scratch = work;
    [[maybe_unused]] std::array<element*, unread_gradients == 0 ? 0 : uses.size()> unread;
    if constexpr (unread_gradients != 0) {
      element* at = work - unread_gradients;
      for (std::size_t k = 0; k < uses.size(); ++k) {
        unread[k] = at;
        at += slot<element>(gradient_size[k]);
      }
      f.gradient = unread.data();
    }
    if constexpr (!std::is_same_v<typename kernel::replaces_gradients, kernel>) clear_fresh(c, f);
    kernel_backward(x_compute, y_compute, dy_compute, dx_compute);
    if constexpr (uses.size() != 0)
      if (!f.asked) c.after_backward(f.use, 0);
    if constexpr (moves_dx) c.redistribute(in_dual, static_cast<element const*>(dx_compute), dx, work);
  }

  /// Fresh gradients become zeros, to be added to.
  template <class Context>
  static void clear_fresh(Context&, [[maybe_unused]] frame<element> const& f) {
    for (std::size_t k = 0; k != (place::trains ? uses.size() : 0); ++k)
      if (f.is_fresh(k)) Context::backend::clear(f.gradient[k], gradient_size[k]);
  }

  static constexpr void count_forward(traffic_table& t, coordinates const& at) {
    count_redistribution<std::conditional_t<reads_tokens, std::int32_t, element>>(t, mesh, at, in_path);
    kernel::count_forward(t, at);
    count_redistribution<element>(t, mesh, at, out_path);
  }
  static constexpr void count_backward(traffic_table& t, coordinates const& at) {
    if constexpr (goes_back) {
      count_redistribution<element>(t, mesh, at, out_dual);
      kernel::count_backward(t, at);
      if constexpr (moves_dx) count_redistribution<element>(t, mesh, at, in_dual);
    }
  }

 private:
  static constexpr auto gradient_size = [] {
    std::array<std::size_t, uses.size()> sizes{};
    for (std::size_t k = 0; k != uses.size(); ++k) sizes[k] = local_size(mesh, uses[k].dims, uses[k].gradient);
    return sizes;
  }();
  static constexpr std::size_t row_size = kernel::independent_rows == 0 ? 0 : place::input_size / all_rows;
  template <class Context, class X>
  static auto rows_of(Context& c, frame<element> const& f, X const* x) {
    return [&c, &f, x]<std::size_t Rows>(std::integral_constant<std::size_t, Rows>, std::size_t first, element* y,
                                         [[maybe_unused]] bool onto = false) {
      if constexpr (kernel::adds_forward) {
        if (onto) {
          kernel_of_rows<Rows>::forward_onto(c, f, y, x + first * row_size, y);
          return;
        }
      }
      kernel_of_rows<Rows>::forward(c, f, x + first * row_size, y);
    };
  }
};

/// Base of kernels, with the defaults that most have.
struct kernel_traits {
  static constexpr bool keeps_input = false;
  static constexpr bool keeps_output = false;
  static constexpr bool in_place = false;
  static constexpr bool identity_cotangent = false;
  static constexpr bool backward_in_place = false;  ///< backward may be called with dx == x
  static constexpr bool identity = false;       ///< y equals x, and dx dy, whatever the step: compositions leave it out
  static constexpr bool adds_forward = false;   ///< has forward_onto(c, f, base, x, y)
  static constexpr bool adds_backward = false;  ///< has backward_onto(c, f, x, y, dy, base, dx)
  static constexpr bool adds_constant = false;  ///< y = x + constant: has constant_onto(c, f, base or null, y)
  /// Rows of a kernel each of whose rows (all but the dimensions that it reads as one: a token) depends on the same row
  /// of the input alone, or whose loss is the sum of its rows'. `kernel<Place>` then works for a place with fewer of
  /// them, which has the smaller `input_size` and `output_size`, and for a loss the targets of those rows.
  static constexpr std::size_t independent_rows = 0;
  /// Where backward reads no input, those rows may still be computed in backward, from an input that is kept for that.
  static constexpr bool rows_from_input = false;
  /// Where `Place::trains` is false, backward leaves `frame::gradient` alone, which leads nowhere then; else, of frozen
  /// parameters, it leads to scratch.
  static constexpr bool skips_gradients = false;
  /// The kernel itself (one that derives from it promises nothing), where its backward asks `frame::is_fresh(k)` for
  /// each use, and replaces what stands in a fresh gradient; else a fresh one is cleared before, and backward adds.
  using replaces_gradients = void;
  static constexpr std::size_t sites = 0;
  static constexpr std::size_t saved = 0;
  static constexpr std::size_t forward_scratch = 0;
  static constexpr std::size_t backward_scratch = 0;
  static constexpr void count_forward(traffic_table&, coordinates const&) {}
  static constexpr void count_backward(traffic_table&, coordinates const&) {}
};

}  // namespace heddle
