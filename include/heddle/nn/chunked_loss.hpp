// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/nn/op.hpp>
#include <heddle/nn/targets.hpp>
#include <heddle/tensor/accumulation.hpp>
#include <type_traits>

namespace heddle {

/// The chunks of tokens in which a placed loss is computed: all of `chunk_rows` but the last, which has the rest.
template <class Loss>
struct loss_chunks {
  static constexpr std::size_t rows = Loss::kernel::independent_rows;
  static constexpr std::size_t chunk = Loss::chunk_rows;
  static constexpr std::size_t whole = rows / chunk;
  static constexpr std::size_t rest = rows % chunk;
  static constexpr bool several = whole + (rest != 0 ? 1 : 0) > 1;

  /// `f(size, first)` for each chunk, its size a constant.
  template <class F>
  static constexpr void for_each(F f) {
    for (std::size_t n = 0; n < whole; ++n) f(std::integral_constant<std::size_t, chunk>{}, n * chunk);
    if constexpr (rest != 0) f(std::integral_constant<std::size_t, rest>{}, whole * chunk);
  }
  /// Adds what the loss of all chunks and its gradient move.
  static constexpr void count(traffic_table& t, coordinates const& at) {
    count_redistribution<std::int32_t>(t, Loss::place::mesh, at, Loss::place::token_path);
    for_each([&]<std::size_t Rows>(std::integral_constant<std::size_t, Rows>, std::size_t) {
      Loss::template kernel_of_rows<Rows>::count_forward(t, at);
      Loss::template kernel_of_rows<Rows>::count_backward(t, at);
    });
  }
};

/// A gradient of which chunks leave a narrow part each: their sum, in what T is summed in.
template <class T>
struct wide_gradient {
  std::size_t use;
  std::size_t size;
  [[nodiscard]] constexpr std::size_t room() const { return slot<T>(room_for<T, accumulation_t<T>>(size)); }
};

/// The product to the vocabulary and its loss as one, so that the logits never stand whole. In training nothing is
/// computed before backward, which has all it needs: a chunk of tokens at a time it computes their logits, the loss,
/// the gradient in the logits' place, and from that the gradients of weight and input. Where [tokens, vocabulary]
/// would stand twice, [chunk, vocabulary] stands once (twice for a loss that does not work in place), and the products
/// are as many. An evaluation has the loss from forward, in the same chunks.
///
/// A narrow gradient stops growing under many summands: where there are several chunks, each leaves its part of the
/// gradients of what gives the rows, and these are added up in `accumulation_t`, in scratch, and rounded once.
///
/// A model of what `placed` is, but that in training backward writes the output. `Source` gives rows on demand; the
/// loss of a row depends on that row. Nothing may read the loss between forward and backward: it ends its chain, which
/// is the last of all.
template <class Source, class Loss>
struct chunked_loss {
  using element = typename Source::element;
  using input = typename Source::input;
  using output = typename Loss::output;
  using chunks = loss_chunks<Loss>;
  static constexpr layout input_layout = Source::input_layout;
  static constexpr layout output_layout = Loss::output_layout;
  static constexpr auto uses = Source::uses;
  static constexpr auto units = Source::units;

  static constexpr std::size_t logit_rows = chunks::chunk;  ///< tokens at a time
  static constexpr std::size_t logits = slot<element>(Loss::place::input_size / chunks::rows * chunks::chunk);
  static constexpr std::size_t gradient = Loss::kernel::backward_in_place ? 0 : logits;
  using kernel_of_chunk = typename Loss::template kernel_of_rows<chunks::chunk>;
  static constexpr std::size_t scratch_of_loss =
      slot<element>(kernel_of_chunk::saved) +
      slot<element>(detail::larger(kernel_of_chunk::forward_scratch, kernel_of_chunk::backward_scratch));
  static constexpr std::size_t loss = slot<element>(1);  ///< of a chunk
  static constexpr std::size_t own_scratch =
      logits + gradient + scratch_of_loss + loss + slot<element>(target_slots<typename Loss::place, chunks::rows>);

  /// The gradients that are summed beside where they belong.
  static constexpr bool widens = chunks::several && !std::is_same_v<element, accumulation_t<element>>;
  static constexpr std::size_t wide_count = [] {
    std::size_t n = 0;
    for (std::size_t k = Source::rows_first_use; k < uses.size(); ++k) n += widens && uses[k].trainable ? 1 : 0;
    return n;
  }();
  static constexpr auto wide = [] {
    std::array<wide_gradient<element>, wide_count> all{};
    for (std::size_t k = Source::rows_first_use, n = 0; n != wide_count; ++k)
      if (uses[k].trainable) all[n++] = {k, local_size(Loss::place::mesh, uses[k].dims, uses[k].gradient)};
    return all;
  }();
  static constexpr std::size_t wide_scratch = [] {
    std::size_t room = 0;
    for (auto const& g : wide) room += g.room();
    return room;
  }();

  static constexpr bool needs_input = Source::needs_input || Source::rows_read_input;
  static constexpr bool needs_output = false;
  static constexpr bool in_place = false;
  static constexpr bool identity_cotangent = false;
  static constexpr std::size_t sites = Source::sites + Loss::sites;
  static constexpr std::size_t saved = Source::saved;
  static constexpr std::size_t forward_scratch = Source::forward_scratch + own_scratch;
  static constexpr std::size_t backward_scratch = Source::rows_scratch + own_scratch + wide_scratch;

  template <class Context, class X>
  static void forward(Context& c, frame<element> const& f, X const* x, element* y) {
    if (c.training()) {
      Source::forward_rows(c, f, x, [](auto) {});  // what backward reads comes to where it is kept
      Context::backend::clear(loss_value(y), 1);
      return;
    }
    Source::forward_rows(
        c, f, x, [&](auto get) { over_chunks(c, f, f.scratch + Source::forward_scratch, y, get, [](auto...) {}); });
  }
  template <class Context, class X>
  static void backward(Context& c, frame<element> const& f, X const* x, element const* y, element const* dy,
                       element* dx) {
    Source::backward_rows(c, f, x, dx, [&](auto get, auto put) {
      element* const sums = f.scratch + Source::rows_scratch + own_scratch;
      // What is there already is the first summand.
      for_each_wide(f, sums, [](element* part, auto* sum, std::size_t n, bool fresh) {
        fresh ? memory<Context>::clear(sum, n) : memory<Context>::copy(static_cast<element const*>(part), sum, n);
      });
      over_chunks(c, f, f.scratch + Source::rows_scratch, const_cast<element*>(y), get,
                  [&]<std::size_t Rows>(std::integral_constant<std::size_t, Rows> size, std::size_t first,
                                        auto& context, frame<element> const& of_loss, element* rows) {
                    element const* const no_output = nullptr;
                    Loss::template kernel_of_rows<Rows>::backward(context, of_loss, static_cast<element const*>(rows),
                                                                  no_output, dy, rows + gradient);
                    for_each_wide(f, sums,
                                  [](element* part, auto*, std::size_t n, bool) { memory<Context>::clear(part, n); });
                    put(size, first, static_cast<element const*>(rows + gradient));
                    for_each_wide(f, sums, [](element* part, auto* sum, std::size_t n, bool) {
                      memory<Context>::add(static_cast<element const*>(part), sum, n);
                    });
                  });
      for_each_wide(f, sums, [](element* part, auto* sum, std::size_t n, bool) {
        memory<Context>::copy(static_cast<accumulation_t<element> const*>(sum), part, n);
      });
    });
  }

  static constexpr void count_forward(traffic_table& t, coordinates const& at) { Source::count_forward(t, at); }
  static constexpr void count_backward(traffic_table& t, coordinates const& at) {
    chunks::count(t, at);
    Source::count_backward(t, at);
  }

 private:
  template <class Context>
  using memory = typename Context::backend::memory;
  /// `use(where it belongs, its sum, size, whether what stands there counts for nothing)` for each gradient that is
  /// summed.
  template <class Use>
  static void for_each_wide(frame<element> const& f, element* sums, Use use) {
    for (auto const& g : wide) {
      use(f.gradient[g.use], reinterpret_cast<accumulation_t<element>*>(sums), g.size, f.is_fresh(g.use));
      sums += g.room();
    }
  }
  /// y = the sum of the losses of chunks whose logits `get` gives, and `use` may use up.
  template <class Context, class Get, class Use>
  static void over_chunks(Context& c, frame<element> const& f, element* scratch, element* y, Get get, Use use) {
    element* const rows = scratch;
    frame<element> of_loss = f;
    of_loss.parameter += uses.size();
    of_loss.gradient += uses.size();
    of_loss.use += uses.size();
    of_loss.site += Source::sites;
    of_loss.saved = rows + logits + gradient;
    of_loss.scratch = of_loss.saved + slot<element>(kernel_of_chunk::saved);
    std::int32_t const* const targets =
        local_targets<typename Loss::place, chunks::rows>(c, of_loss.saved + scratch_of_loss + loss);
    element* const loss_of_chunk = of_loss.saved + scratch_of_loss;
    Context::backend::clear(loss_value(y), 1);
    chunks::for_each([&]<std::size_t Rows>(std::integral_constant<std::size_t, Rows> size, std::size_t first) {
      auto context = c.with_targets(targets + first);
      get(size, first, rows);
      Loss::template kernel_of_rows<Rows>::forward(context, of_loss, static_cast<element const*>(rows), loss_of_chunk);
      Context::backend::template add_to<1>(loss_value(static_cast<element const*>(loss_of_chunk)), loss_value(y));
      use(size, first, context, of_loss, rows);
    });
  }
};

}  // namespace heddle
