// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <heddle/backend/host.hpp>
#include <vector>

namespace bench {

/// The primitives of a step and what its communicator does (timed_communicator.hpp), as rows of the table.
enum class primitive : std::size_t {
  product,
  attention,
  attention_backward,
  norm,
  norm_backward,
  activation,
  activation_backward,
  bias_and_sums,
  embedding,
  cross_entropy,
  dropout,
  rotary,
  gradient_norm,
  optimizer,
  clearing,
  gathers,
  buckets,
  starting,
  transfers,
  count
};
inline constexpr char const* primitive_names[] = {
    "product",          "attention",        "attention backward", "norm",           "norm backward",
    "activation",       "activation bw",    "bias and sums",      "embedding",      "cross-entropy",
    "dropout",          "rotary",           "gradient norm",      "optimizer",      "clearing gradients",
    "waiting: gathers", "waiting: buckets", "starting those",     "other transfers"};

/// What one rank (a thread) spent.
struct spent {
  std::array<double, static_cast<std::size_t>(primitive::count)> seconds{};
  std::array<double, static_cast<std::size_t>(primitive::count)> flop{};
};
inline thread_local spent mine;

/// A product of a step, to be called again on memory of its own (step.cpp).
struct recorded_product {
  void (*run)(void const* a, void const* b, void* c);
  std::size_t a_bytes, b_bytes, c_bytes;
  double flop;
  std::size_t calls;
};
/// Where this thread's products are noted; nowhere while it is null.
inline thread_local std::vector<recorded_product>* products_of_step = nullptr;
inline void note_product(recorded_product const& one) {
  if (products_of_step == nullptr) return;
  for (recorded_product& p : *products_of_step)
    if (p.run == one.run) {
      ++p.calls;
      return;
    }
  products_of_step->push_back(one);
}

class stopwatch {
 public:
  explicit stopwatch(primitive what, double flop = 0) : what_(static_cast<std::size_t>(what)) {
    mine.flop[what_] += flop;
  }
  stopwatch(stopwatch const&) = delete;
  stopwatch& operator=(stopwatch const&) = delete;
  ~stopwatch() {
    mine.seconds[what_] += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::size_t what_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// The host backend with a stopwatch around each primitive: any model under any plan can be profiled by naming this
/// backend instead.
struct timed_backend : heddle::host_backend {
  using base = heddle::host_backend;

  template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B, class T>
  static void product(T const* a, T const* b, T* c, T* = nullptr) {
    note_product({[](void const* x, void const* y, void* z) {
                    base::product<M, N, K, A, B>(static_cast<T const*>(x), static_cast<T const*>(y),
                                                 static_cast<T*>(z));
                  },
                  M * K * sizeof(T), N * K * sizeof(T), M * N * sizeof(T), 2.0 * M * N * K, 1});
    stopwatch const time(primitive::product, 2.0 * M * N * K);
    base::product<M, N, K, A, B>(a, b, c);
  }
  template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B, class T>
  static void product_accumulate(T const* a, T const* b, T* c, T* = nullptr) {
    note_product({[](void const* x, void const* y, void* z) {
                    base::product_accumulate<M, N, K, A, B>(static_cast<T const*>(x), static_cast<T const*>(y),
                                                            static_cast<T*>(z));
                  },
                  M * K * sizeof(T), N * K * sizeof(T), M * N * sizeof(T), 2.0 * M * N * K, 1});
    stopwatch const time(primitive::product, 2.0 * M * N * K);
    base::product_accumulate<M, N, K, A, B>(a, b, c);
  }
  // Causal attention does two products of Sequence²/2 forward, five backward.
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class... P>
  static void attention(P... p) {
    stopwatch const time(primitive::attention, 2.0 * Batch * KvHeads * Group * Sequence * Sequence * HeadDim);
    base::attention<Batch, Sequence, KvHeads, Group, HeadDim>(p...);
  }
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class... P>
  static void attention_backward(P... p) {
    stopwatch const time(primitive::attention_backward, 5.0 * Batch * KvHeads * Group * Sequence * Sequence * HeadDim);
    base::attention_backward<Batch, Sequence, KvHeads, Group, HeadDim>(p...);
  }
  template <std::size_t Rows, std::size_t Width, class... P>
  static void layer_norm(P... p) {
    stopwatch const time(primitive::norm);
    base::layer_norm<Rows, Width>(p...);
  }
  template <std::size_t Rows, std::size_t Width, class... P>
  static void layer_norm_backward(P... p) {
    stopwatch const time(primitive::norm_backward);
    base::layer_norm_backward<Rows, Width>(p...);
  }
  template <std::size_t Rows, std::size_t Width, class... P>
  static void rms_norm(P... p) {
    stopwatch const time(primitive::norm);
    base::rms_norm<Rows, Width>(p...);
  }
  template <std::size_t Rows, std::size_t Width, class... P>
  static void rms_norm_backward(P... p) {
    stopwatch const time(primitive::norm_backward);
    base::rms_norm_backward<Rows, Width>(p...);
  }
  template <heddle::activation_kind Kind, std::size_t N, class... P>
  static void activation(P... p) {
    stopwatch const time(primitive::activation);
    base::activation<Kind, N>(p...);
  }
  template <heddle::activation_kind Kind, std::size_t N, class... P>
  static void activation_backward(P... p) {
    stopwatch const time(primitive::activation_backward);
    base::activation_backward<Kind, N>(p...);
  }
  template <heddle::activation_kind Kind, std::size_t Rows, std::size_t Width, class... P>
  static void gated(P... p) {
    stopwatch const time(primitive::activation);
    base::gated<Kind, Rows, Width>(p...);
  }
  template <heddle::activation_kind Kind, std::size_t Rows, std::size_t Width, class... P>
  static void gated_backward(P... p) {
    stopwatch const time(primitive::activation_backward);
    base::gated_backward<Kind, Rows, Width>(p...);
  }
  template <std::size_t Rows, std::size_t Width, class... P>
  static void biased_sum(P... p) {
    stopwatch const time(primitive::bias_and_sums);
    base::biased_sum<Rows, Width>(p...);
  }
  template <std::size_t Rows, std::size_t Width, class... P>
  static void bias_gradient(P... p) {
    stopwatch const time(primitive::bias_and_sums);
    base::bias_gradient<Rows, Width>(p...);
  }
  template <std::size_t N, class... P>
  static void add(P... p) {
    stopwatch const time(primitive::bias_and_sums);
    base::add<N>(p...);
  }
  template <std::size_t N, class... P>
  static void add_to(P... p) {
    stopwatch const time(primitive::bias_and_sums);
    base::add_to<N>(p...);
  }
  template <std::size_t N, class T>
  static void fill(T value, T* x) {
    stopwatch const time(primitive::bias_and_sums);
    base::fill<N>(value, x);
  }
  template <std::size_t N, class... P>
  static void copy(P... p) {
    stopwatch const time(primitive::bias_and_sums);
    base::copy<N>(p...);
  }
  template <std::size_t Rows, std::size_t Vocab, std::size_t Width, class... P>
  static void embedding(P... p) {
    stopwatch const time(primitive::embedding);
    base::embedding<Rows, Vocab, Width>(p...);
  }
  template <std::size_t Rows, std::size_t Vocab, std::size_t Width, class... P>
  static void embedding_backward(P... p) {
    stopwatch const time(primitive::embedding);
    base::embedding_backward<Rows, Vocab, Width>(p...);
  }
  template <std::size_t Rows, std::size_t Vocab, class... P>
  static void cross_entropy_max(P... p) {
    stopwatch const time(primitive::cross_entropy);
    base::cross_entropy_max<Rows, Vocab>(p...);
  }
  template <std::size_t Rows, std::size_t Vocab, class... P>
  static void cross_entropy_sum(P... p) {
    stopwatch const time(primitive::cross_entropy);
    base::cross_entropy_sum<Rows, Vocab>(p...);
  }
  template <std::size_t Rows, class... P>
  static void cross_entropy_loss(P... p) {
    stopwatch const time(primitive::cross_entropy);
    base::cross_entropy_loss<Rows>(p...);
  }
  template <std::size_t Rows, std::size_t Vocab, class... P>
  static void cross_entropy_backward(P... p) {
    stopwatch const time(primitive::cross_entropy);
    base::cross_entropy_backward<Rows, Vocab>(p...);
  }
  template <class T>
  static void dropout(T const* x, T const* sum, T* y, heddle::index_map const& map, heddle::random_key const& key,
                      double p) {
    stopwatch const time(primitive::dropout);
    base::dropout(x, sum, y, map, key, p);
  }
  template <std::size_t... Sizes, class... P>
  static void rotary(P... p) {
    stopwatch const time(primitive::rotary);
    base::rotary<Sizes...>(p...);
  }
  template <std::size_t... Sizes, class... P>
  static void rotary_backward(P... p) {
    stopwatch const time(primitive::rotary);
    base::rotary_backward<Sizes...>(p...);
  }
  template <class T>
  static void clear(T* x, std::size_t n) {
    stopwatch const time(primitive::clearing);
    base::clear(x, n);
  }
  template <class T>
  static void add_sum_of_squares(T const* x, std::size_t n, double* sum) {
    stopwatch const time(primitive::gradient_norm);
    base::add_sum_of_squares(x, n, sum);
  }
  template <class T>
  static void adamw(T* w, T const* g, T* m, T* v, std::size_t n, heddle::adamw_coefficients const& c) {
    stopwatch const time(primitive::optimizer);
    base::adamw(w, g, m, v, n, c);
  }
};

}  // namespace bench
