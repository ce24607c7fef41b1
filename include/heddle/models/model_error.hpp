// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <type_traits>

namespace heddle {

// The vocabulary of a config's faults. Sizes that do not fit together are reported as a use of an incomplete
// `model_error<…>`, since the text of a static_assert cannot show the sizes:
//   model_error<gpt2_config, config_width<64>, must_be_a_multiple_of_heads<5>, use_a_width_of<60, 65>>
// As with a plan_error, arguments say what is wrong and what would do.

/// The member `width` and its value.
template <std::size_t Width>
struct config_width;
/// The rule it breaks: each head takes width / heads.
template <std::size_t Heads>
struct must_be_a_multiple_of_heads;
/// The nearest widths that work.
template <std::size_t... Widths>
struct use_a_width_of;
/// The member `kv_heads` and its value.
template <std::size_t KvHeads>
struct config_kv_heads;
/// The rule it breaks: each key/value head serves as many query heads.
template <std::size_t Heads>
struct must_divide_heads;
/// The nearest numbers of key/value heads that work.
template <std::size_t... KvHeads>
struct use_kv_heads_of;
/// Never defined.
template <class... What>
struct model_error;

namespace detail {

/// The first divisors of `n` from `size` on downwards and upwards.
constexpr std::size_t divisor_below(std::size_t n, std::size_t size) {
  while (n % size != 0) --size;
  return size;
}
constexpr std::size_t divisor_above(std::size_t n, std::size_t size) {
  while (size < n && n % size != 0) ++size;
  return size;
}

/// A size of 0 has a sentence of its own.
constexpr bool leaves_rest(std::size_t n, std::size_t by) { return by != 0 && n % by != 0; }

/// True, or the error, which is then all there is to read. `Step` is `Heads`, or a multiple of it where a head's width
/// has a rule of its own.
template <class Config, std::size_t Width, std::size_t Heads, std::size_t Step = Heads,
          bool Wrong = leaves_rest(Width, Heads)>
struct width_fits : std::true_type {};
template <class Config, std::size_t Width, std::size_t Heads, std::size_t Step>
struct width_fits<Config, Width, Heads, Step, true> : std::true_type {
  using nearest = std::conditional_t<(Width < Step), use_a_width_of<Step>,
                                     use_a_width_of<Width / Step * Step, (Width / Step + 1) * Step>>;
  static_assert(sizeof(model_error<Config, config_width<Width>, must_be_a_multiple_of_heads<Heads>, nearest>) > 0);
};

template <class Config, std::size_t KvHeads, std::size_t Heads, bool Wrong = leaves_rest(Heads, KvHeads)>
struct kv_heads_fit : std::true_type {};
template <class Config, std::size_t KvHeads, std::size_t Heads>
struct kv_heads_fit<Config, KvHeads, Heads, true> : std::true_type {
  using nearest = std::conditional_t<(KvHeads > Heads), use_kv_heads_of<Heads>,
                                     use_kv_heads_of<divisor_below(Heads, KvHeads), divisor_above(Heads, KvHeads)>>;
  static_assert(sizeof(model_error<Config, config_kv_heads<KvHeads>, must_divide_heads<Heads>, nearest>) > 0);
};

}  // namespace detail

}  // namespace heddle
