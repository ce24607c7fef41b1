// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/nn/dims_algebra.hpp>
#include <heddle/nn/op.hpp>

namespace heddle {

/// Token ids [batch, sequence] → rows of `weight` [Vocab, Embed].
///
/// **Layouts.** The result lacks `Vocab`: where an axis splits the vocabulary, each rank contributes the rows it has
/// and zeros elsewhere, and the result is partial over that axis (the vocabulary-parallel embedding of arXiv 1909.08053
/// §3).
template <class Vocab, class Embed, initializer Init = normal(0.02), fixed_string Tie = "">
struct embedding : primitive {
  using reads_tokens = void;
  static constexpr std::size_t identities = Vocab::size;  ///< ids that it can look up
  using parameters = parameter_list<parameter<"weight", dims<Vocab, Embed>, Init, true, Tie>>;
  template <class Input>
  using output = detail::concatenation_t<Input, dims<Embed>>;

  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = Place::trains;
    static constexpr bool skips_gradients = true;
    static constexpr std::size_t rows = Place::input_size;
    static constexpr std::size_t vocabulary = Place::template extent<typename Vocab::name>;
    static constexpr std::size_t width = Place::template extent<typename Embed::name>;

    template <class Context>
    static void forward(Context& c, frame<T> const& f, std::int32_t const* tokens, T* y) {
      Context::backend::template embedding<rows, vocabulary, width>(tokens, f.parameter[0], first(c), y);
    }
    template <class Context>
    static void backward([[maybe_unused]] Context& c, [[maybe_unused]] frame<T> const& f,
                         [[maybe_unused]] std::int32_t const* tokens, T const*, [[maybe_unused]] T const* dy, T*) {
      if constexpr (Place::trains)
        Context::backend::template embedding_backward<rows, vocabulary, width>(tokens, dy, first(c), f.gradient[0]);
    }

   private:
    template <class Context>
    static std::int64_t first(Context const& c) {
      return static_cast<std::int64_t>(Place::template block<typename Vocab::name>(c.at()).origin);
    }
  };
};

}  // namespace heddle
