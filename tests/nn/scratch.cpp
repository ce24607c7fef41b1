// SPDX-License-Identifier: Apache-2.0
// Primitives that ask for scratch get it, as a device's do: nothing that somebody still reads stands there.
#include <algorithm>
#include <array>
#include <atomic>
#include <heddle/nn/cross_entropy.hpp>
#include <heddle/nn/frozen.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/nn/norm.hpp>
#include <heddle/nn/residual.hpp>
#include <limits>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace scratch_test {
namespace {

/// The host backend, with numbers of elements that it asks for and writes NaN to.
struct scribbling_backend : host_backend {
  template <std::size_t M, std::size_t N, std::size_t K>
  static constexpr std::size_t product_scratch() {
    return M * N + K;
  }
  template <std::size_t Rows, std::size_t Width>
  static constexpr std::size_t bias_gradient_scratch() {
    return Rows * Width + 1;
  }
  template <std::size_t Rows, std::size_t Width>
  static constexpr std::size_t layer_norm_backward_scratch() {
    return Rows + Width;
  }
  template <std::size_t Rows, std::size_t Width>
  static constexpr std::size_t rms_norm_backward_scratch() {
    return Rows * Width;
  }
  static void scribble(double* scratch, std::size_t n) {
    std::fill_n(scratch, n, std::numeric_limits<double>::quiet_NaN());
  }

  template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B>
  static void product(double const* a, double const* b, double* c, double* scratch) {
    scribble(scratch, product_scratch<M, N, K>());
    host_backend::product<M, N, K, A, B>(a, b, c);
  }
  template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B>
  static void product_accumulate(double const* a, double const* b, double* c, double* scratch) {
    scribble(scratch, product_scratch<M, N, K>());
    host_backend::product_accumulate<M, N, K, A, B>(a, b, c);
  }
  template <std::size_t Rows, std::size_t Width>
  static void bias_gradient(double const* dy, double* db, double* scratch) {
    scribble(scratch, bias_gradient_scratch<Rows, Width>());
    host_backend::bias_gradient<Rows, Width>(dy, db);
  }
  template <std::size_t Rows, std::size_t Width>
  static void layer_norm_backward(double const* x, double const* gamma, double const* mean, double const* rstd,
                                  double const* dy, double const* base, double* dx, double* dgamma, double* dbeta,
                                  double* scratch) {
    if (dgamma != nullptr) scribble(scratch, layer_norm_backward_scratch<Rows, Width>());
    host_backend::layer_norm_backward<Rows, Width>(x, gamma, mean, rstd, dy, base, dx, dgamma, dbeta);
  }
  template <std::size_t Rows, std::size_t Width>
  static void rms_norm_backward(double const* x, double const* gamma, double const* rstd, double const* dy,
                                double const* base, double* dx, double* dgamma, double* scratch) {
    if (dgamma != nullptr) scribble(scratch, rms_norm_backward_scratch<Rows, Width>());
    host_backend::rms_norm_backward<Rows, Width>(x, gamma, rstd, dy, base, dx, dgamma);
  }
};

/// The same with what a backend may have beside a product (nn/product_concepts.hpp), and how often it was called.
struct fusing_backend : scribbling_backend {
  inline static std::atomic<std::size_t> biased = 0, summed = 0;
  template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B>
  static void product_biased(double const* a, double const* b, double const* row, double const* base, double* c,
                             double* scratch) {
    ++biased;
    base == nullptr ? biased_sum<M, N>(row, c) : biased_sum<M, N>(row, c, base);
    product_accumulate<M, N, K, A, B>(a, b, c, scratch);
  }
  template <std::size_t M, std::size_t N, std::size_t K>
  static void product_summed(double const* a, double const* b, double* c, double* sums, double* scratch,
                             double* sum_scratch) {
    ++summed;
    product<M, N, K, true, false>(a, b, c, scratch);
    clear(sums, M);
    bias_gradient<K, M>(a, sums, sum_scratch);
  }
};

/// As on the host backend, on one rank and where values, sums and gradients are on their way through scratch.
template <class Module, class Backend = scribbling_backend, std::size_t LogitBytes = 0>
void check_scribbled() {
  using input = activations<embed_dim>;
  using two = mesh<axis<dp, 2>, axis<tp, 2>>;
  subject const& plain = subject_of<Module, input, mesh<>, megatron_rules, tokens, LogitBytes>();
  subject const& one = subject_of<Module, input, mesh<>, megatron_rules, tokens, LogitBytes, Backend>();
  CHECK(one.backward_scratch > plain.backward_scratch);
  check_same(plain, one, "one rank");
  check_same(plain, subject_of<Module, input, two, megatron_sequence_rules, tokens, LogitBytes, Backend>(),
             "dp2 tp2, sequence rule");
  check_same(plain, subject_of<Module, input, two, megatron_rules, tokens, LogitBytes, Backend>(), "dp2 tp2");
}

constexpr initializer start = normal(1);
using up = linear<embed_dim, mlp_dim, biased::yes, start>;
using down = linear<mlp_dim, embed_dim, biased::yes, start>;
using head = linear<embed_dim, vocab_dim, biased::yes, start>;
using loss = cross_entropy<vocab_dim>;
constexpr std::size_t row = vocab_dim::size * sizeof(double);

}  // namespace

TEST_CASE("norms, products and biases of a branch write to scratch, and change nothing") {
  check_scribbled<residual<sequential<named<"norm", layer_norm<embed_dim>>, named<"up", up>, named<"down", down>>>>();
  check_scribbled<sequential<rms_norm<embed_dim>, up>>();
}
TEST_CASE("on a backend that fuses them, products and biases of a branch are the same, of pending sums too") {
  using branch = sequential<named<"norm", layer_norm<embed_dim>>, named<"up", up>, named<"down", down>>;
  check_scribbled<residual<branch>, fusing_backend>();
  check_scribbled<branch, fusing_backend>();
  check_scribbled<sequential<named<"norm", rms_norm<embed_dim>>, named<"head", head>, loss>, fusing_backend>();
  // What `down` gives under tensor parallelism is a sum over ranks, which the bias does not belong to.
  auto const calls = []<class Module, class Input, class Mesh>(named<"m", Module>, Input, Mesh) {
    std::size_t const biased = fusing_backend::biased, summed = fusing_backend::summed;
    CHECK(run(subject_of<Module, Input, Mesh, megatron_rules, tokens, 0, fusing_backend>()).fault == "");
    return std::array{fusing_backend::biased - biased, fusing_backend::summed - summed};
  };
  auto const one = calls(named<"m", up>{}, activations<embed_dim>{}, mesh<>{});
  CHECK(one[0] > 1);
  CHECK(one[1] == 1);  // of two backwards, that with fresh gradients
  using two = mesh<axis<tp, 2>>;
  CHECK(calls(named<"m", up>{}, activations<embed_dim>{}, two{}) == std::array{2 * one[0], 2 * one[1]});
  CHECK(calls(named<"m", down>{}, activations<mlp_dim>{}, mesh<>{}) == one);
  CHECK(calls(named<"m", down>{}, activations<mlp_dim>{}, two{}) == std::array<std::size_t, 2>{});
  CHECK(calls(named<"m", frozen<up>>{}, activations<embed_dim>{}, mesh<>{})[1] == 0);
}
TEST_CASE("a biased head writes to scratch, and changes nothing, its loss in chunks or whole") {
  check_scribbled<sequential<named<"norm", rms_norm<embed_dim>>, named<"head", head>, loss>>();
  check_scribbled<sequential<named<"norm", rms_norm<embed_dim>>, named<"head", head>, loss>, scribbling_backend,
                  3 * row>();
}
TEST_CASE("what is frozen asks for no scratch of its gradients") {
  using input = activations<embed_dim>;
  auto const scratch_of = []<class Module>(named<"m", Module>) {
    return subject_of<named<"m", Module>, input, mesh<>, megatron_rules, tokens, 0, scribbling_backend>()
        .backward_scratch;
  };
  CHECK(scratch_of(named<"m", layer_norm<embed_dim>>{}) > 0);
  CHECK(scratch_of(named<"m", frozen<layer_norm<embed_dim>>>{}) == 0);
}

}  // namespace scratch_test
