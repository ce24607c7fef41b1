// SPDX-License-Identifier: Apache-2.0
// Rate of each primitive of the device backend at the shapes of GPT-2 124M, eight sequences of 1024 tokens, and what
// the device gives at most in the same run: a copy within its memory, and a large product. One JSON object a line.
// Arithmetic-bound primitives count operations, the others the bytes that they must read and write once; these have
// other memory in each call, so that no cache has it from the last.
//   device-kernels SECONDS    at least so long for each measurement (default 0.02)
// With HEDDLE_SMALL the shapes are tiny, for the emulated device.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <heddle/backend/cuda.hpp>
#include <heddle/backend/cuda/device.hpp>
#include <heddle/tensor/index_map.hpp>
#include <heddle/tensor/random_key.hpp>
#include <string>
#include <utility>
#include <vector>

#include "device_seconds.hpp"

namespace {

using namespace heddle;
using device = cuda_backend;
using narrow = __nv_bfloat16;

#if defined(HEDDLE_SMALL)
constexpr std::size_t batch_size = 1, context = 8, heads = 2, head_dim = 8, vocabulary = 24, copied = 1024, square = 16;
#else
constexpr std::size_t batch_size = 8, context = 1024, heads = 12, head_dim = 64, vocabulary = 50304,
                      copied = 256 * 1024 * 1024, square = 8192;
#endif
/// What lies between two uses of the same memory: four times the largest cache of the devices that there are.
#if defined(HEDDLE_SMALL)
constexpr std::size_t uncached_bytes = 4096;
#else
constexpr std::size_t uncached_bytes = 512 * 1024 * 1024;
#endif
constexpr std::size_t rows = batch_size * context, width = heads * head_dim, hidden = 4 * width, chunk = rows / 4;

double least_seconds = 0.02;

template <class T>
void fill(T* values, std::size_t n) {
  // Neither zeros nor anything that overflows: a device draws less power for zeros, and is faster.
  device::fill_uniform(values, index_map{.rank = 1, .extent = {n}, .valid = {n}, .stride = {1}, .origin = 0},
                       random_key{.seed = 1, .step = 1, .site = n}, -1, 1);
}
template <class T>
cuda::device_arena<T> filled(std::size_t n) {
  cuda::device_arena<T> all(n);
  fill(all.data(), n);
  return all;
}

/// An operand with other memory in each call: as many copies as a call's part of them takes `uncached_bytes` with.
template <class T>
class rotated {
 public:
  /// `touched` elements of `n` are what the calls that touch least read or write.
  rotated(std::size_t n, std::size_t touched)
      : elements_(n), copies_((uncached_bytes - 1) / (touched * sizeof(T)) + 1), all_(n * copies_) {}
  explicit rotated(std::size_t n) : rotated(n, n) {}
  [[nodiscard]] T* operator()(std::size_t call) const { return all_.data() + call % copies_ * elements_; }
  [[nodiscard]] rotated filled() && {
    for (std::size_t copy = 0; copy < copies_; ++copy) fill((*this)(copy), elements_);
    return std::move(*this);
  }

 private:
  std::size_t elements_, copies_;
  cuda::device_arena<T> all_;
};

template <class Work>
void line(char const* kind, std::string const& name, char const* type, char const* unit, double amount,
          Work const& work) {
  double const seconds = bench::seconds_of(least_seconds, work);
  std::printf(
      "{\"kind\": \"%s\", \"name\": \"%s\", \"type\": \"%s\", \"unit\": \"%s\", \"amount\": %.17g, \"seconds\": "
      "%.9g}\n",
      kind, name.c_str(), type, unit, amount, seconds);
  std::fflush(stdout);
}
/// Of work that is given the number of its call.
template <class Work>
void bytes(std::string const& name, double amount, Work const& work, char const* type = "bf16") {
  std::size_t call = 0;
  line("kernel", name, type, "byte", amount, [&] { work(call++); });
}

template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B, class T>
void product(char const* kind, std::string const& name, char const* type) {
  auto const a = filled<T>(M * K), b = filled<T>(K * N);
  cuda::device_arena<T> const c(M * N), scratch(device::product_scratch<M, N, K>());
  line(kind, name, type, "flop", 2.0 * M * N * K,
       [&] { device::product<M, N, K, A, B>(a.data(), b.data(), c.data(), scratch.data()); });
}

void limits() {
  {
    auto const from = filled<float>(copied);
    cuda::device_arena<float> const to(copied);
    line("limit", "copy", "fp32", "byte", 8.0 * copied,
         [&] { cuda::device_memory::copy(from.data(), to.data(), copied); });
  }
  product<square, square, square, false, true, narrow>("limit", "product", "bf16");
}

void products() {
  product<rows, 3 * width, width, false, true, narrow>("kernel", "product: queries, keys and values", "bf16");
  product<rows, hidden, width, false, true, narrow>("kernel", "product: into the hidden layer", "bf16");
  product<rows, width, hidden, false, false, narrow>("kernel", "product: its input's gradient", "bf16");
  product<hidden, width, rows, true, false, narrow>("kernel", "product: its weights' gradient", "bf16");
  product<chunk, vocabulary, width, false, true, narrow>("kernel", "product: logits", "bf16");
}

void row_by_row() {
  constexpr double all = rows * width;
  auto const x = rotated<narrow>(rows * width).filled(), dy = rotated<narrow>(rows * width).filled();
  rotated<narrow> const y(rows * width);
  auto const gamma = filled<narrow>(width), beta = filled<narrow>(width);
  cuda::device_arena<narrow> const dgamma(width), dbeta(width);
  cuda::device_arena<float> const mean(rows), rstd(rows), scratch(device::layer_norm_backward_scratch<rows, width>()),
      rms_scratch(device::rms_norm_backward_scratch<rows, width>());
  bytes("layer_norm", 4 * all + 8 * rows, [&](std::size_t i) {
    device::layer_norm<rows, width>(x(i), gamma.data(), beta.data(), 1e-5F, y(i), mean.data(), rstd.data());
  });
  bytes("layer_norm_backward", 6 * all + 8 * rows, [&](std::size_t i) {
    device::layer_norm_backward<rows, width>(x(i), gamma.data(), mean.data(), rstd.data(), dy(i), nullptr, y(i),
                                             dgamma.data(), dbeta.data(), scratch.data());
  });
  bytes("rms_norm", 4 * all + 4 * rows,
        [&](std::size_t i) { device::rms_norm<rows, width>(x(i), gamma.data(), 1e-5F, y(i), rstd.data()); });
  bytes("rms_norm_backward", 6 * all + 4 * rows, [&](std::size_t i) {
    device::rms_norm_backward<rows, width>(x(i), gamma.data(), rstd.data(), dy(i), nullptr, y(i), dgamma.data(),
                                           rms_scratch.data());
  });
  bytes("biased_sum of two", 6 * all,
        [&](std::size_t i) { device::biased_sum<rows, width>(beta.data(), y(i), x(i), dy(i)); });
  bytes("add", 6 * all, [&](std::size_t i) { device::add<rows * width>(x(i), dy(i), y(i)); });
  index_map const map{.rank = 1, .extent = {rows * width}, .valid = {rows * width}, .stride = {1}, .origin = 0};
  bytes("dropout onto", 6 * all, [&](std::size_t i) {
    device::dropout(x(i), dy(i), y(i), map, random_key{.seed = 1, .step = 1, .site = 2}, 0.1);
  });
}

void hidden_layer() {
  constexpr double all = rows * hidden;
  auto const x = rotated<narrow>(2 * rows * hidden, rows * hidden).filled(),
             dy = rotated<narrow>(rows * hidden).filled();
  rotated<narrow> const y(2 * rows * hidden, rows * hidden);
  cuda::device_arena<narrow> const db(hidden);
  cuda::device_arena<float> const scratch(device::bias_gradient_scratch<rows, hidden>());
  constexpr activation_kind gelu = activation_kind::gelu_tanh, silu = activation_kind::silu;
  bytes("gelu", 4 * all, [&](std::size_t i) { device::activation<gelu, rows * hidden>(x(i), y(i)); });
  bytes("gelu_backward", 6 * all,
        [&](std::size_t i) { device::activation_backward<gelu, rows * hidden>(x(i), dy(i), y(i)); });
  bytes("swiglu", 6 * all, [&](std::size_t i) { device::gated<silu, rows, hidden>(x(i), y(i)); });
  bytes("swiglu_backward", 10 * all,
        [&](std::size_t i) { device::gated_backward<silu, rows, hidden>(x(i), dy(i), y(i)); });
  bytes("bias_gradient", 2 * all,
        [&](std::size_t i) { device::bias_gradient<rows, hidden>(dy(i), db.data(), scratch.data()); });
}

void tokens() {
  std::vector<std::int32_t> ids(rows);
  for (std::size_t i = 0; i < rows; ++i) ids[i] = static_cast<std::int32_t>(i * 7919 % (vocabulary - 7));
  cuda::device_arena<std::int32_t> const tokens(rows);
  cuda::device_memory::from_host(ids.data(), tokens.data(), rows);
  {
    auto const table = rotated<narrow>(vocabulary * width, rows * width).filled();
    auto const dy = rotated<narrow>(rows * width).filled();
    rotated<narrow> const y(rows * width), gradient(vocabulary * width, rows * width);
    bytes("embedding", 4.0 * rows * width,
          [&](std::size_t i) { device::embedding<rows, vocabulary, width>(tokens.data(), table(i), 0, y(i)); });
    bytes("embedding_backward", 6.0 * rows * width, [&](std::size_t i) {
      device::embedding_backward<rows, vocabulary, width>(tokens.data(), dy(i), 0, gradient(i));
    });
  }
  constexpr double all = double{chunk} * vocabulary;
  auto const logits = rotated<narrow>(chunk * vocabulary).filled();
  rotated<narrow> const dlogits(chunk * vocabulary);
  cuda::device_arena<float> const highest(chunk), sum(chunk), logit(chunk), lse(chunk), loss(1), scale(1);
  float const one = 1;
  cuda::device_memory::from_host(&one, scale.data(), 1);
  bytes("cross_entropy_max", 2 * all,
        [&](std::size_t i) { device::cross_entropy_max<chunk, vocabulary>(logits(i), vocabulary, highest.data()); });
  bytes("cross_entropy_sum", 2 * all, [&](std::size_t i) {
    device::cross_entropy_sum<chunk, vocabulary>(logits(i), vocabulary, 0, tokens.data(), highest.data(), sum.data(),
                                                 logit.data());
  });
  device::cross_entropy_loss<chunk>(tokens.data(), -100, highest.data(), sum.data(), logit.data(), lse.data(),
                                    loss.data());
  bytes("cross_entropy_backward", 4 * all, [&](std::size_t i) {
    device::cross_entropy_backward<chunk, vocabulary>(logits(i), vocabulary, 0, tokens.data(), -100, lse.data(),
                                                      scale.data(), dlogits(i));
  });
}

void attention() {
  // Of a causal product half is computed; the whole counts in a model's operations (docs/reference/estimates.md).
  constexpr double products = 4.0 * batch_size * heads * context * context * head_dim / 2;
  auto const qkv = rotated<narrow>(3 * rows * width).filled();
  auto const dy = filled<narrow>(rows * width);
  cuda::device_arena<narrow> const y(rows * width);
  rotated<narrow> const dqkv(3 * rows * width);
  cuda::device_arena<float> const lse(batch_size * heads * context),
      scratch(device::attention_scratch<batch_size, context, heads, 1, head_dim>()),
      back(device::attention_backward_scratch<batch_size, context, heads, 1, head_dim>());
  line("kernel", "attention", "bf16", "flop", products, [&] {
    device::attention<batch_size, context, heads, 1, head_dim>(qkv(0), y.data(), lse.data(), scratch.data());
  });
  line("kernel", "attention_backward", "bf16", "flop", 2.5 * products, [&] {
    device::attention_backward<batch_size, context, heads, 1, head_dim>(qkv(0), y.data(), lse.data(), dy.data(),
                                                                        dqkv(0), back.data());
  });
  cuda::device_arena<std::int64_t> const positions(context);
  cuda::device_arena<float> const cosine(context * head_dim / 2), sine(context * head_dim / 2);
  device::count_up<context>(0, positions.data());
  device::rotary_table<context, head_dim>(positions.data(), 10000, cosine.data(), sine.data());
  bytes("rotary", 12.0 * rows * width, [&](std::size_t i) {
    device::rotary<batch_size, context, heads, 1, head_dim>(qkv(i), dqkv(i), cosine.data(), sine.data());
  });
}

void updates() {
  constexpr std::size_t n = hidden * width;
  auto const g = rotated<narrow>(n).filled();
  auto const w = rotated<float>(n).filled();
  rotated<float> const m(n), v(n);
  rotated<narrow> const value(n);
  cuda::device_arena<double> const total(1);
  adamw_coefficients const c{.learning_rate = 1e-4,
                             .weight_decay = 0.1,
                             .bias_correction1 = 0.1,
                             .bias_correction2 = 1e-3,
                             .gradient_scale = 1};
  bytes(
      "adamw", 26.0 * n, [&](std::size_t i) { device::adamw(w(i), g(i), m(i), v(i), n, c); }, "fp32, gradients bf16");
  bytes("add_sum_of_squares", 2.0 * n, [&](std::size_t i) { device::add_sum_of_squares(g(i), n, total.data()); });
  bytes(
      "cast", 6.0 * n, [&](std::size_t i) { cuda::device_memory::copy(w(i), value(i), n); }, "fp32 to bf16");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 1) least_seconds = std::strtod(argv[1], nullptr);
  if (argc > 2 || !(least_seconds > 0 && least_seconds < 100)) {
    std::fprintf(stderr, "device-kernels: takes seconds, above 0 and below 100\n");
    return 2;
  }
  cuda::execution one(0);
  cuda::execution_scope const scope(one);
  std::printf("{\"kind\": \"device\", \"name\": \"%s\"}\n", cuda::device_name(0).c_str());
  limits();
  products();
  row_by_row();
  hidden_layer();
  tokens();
  attention();
  updates();
  // Once more at the end, when the device is warm: what is measured between is held to the better of both.
  limits();
} catch (std::exception const& e) {
  std::fprintf(stderr, "device-kernels: %s\n", e.what());
  return 1;
}
