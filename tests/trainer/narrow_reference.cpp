// SPDX-License-Identifier: Apache-2.0
// One step in mixed precision against arithmetic in double that rounds where a value is stored, written out here for
// one small model: an embedding, a residual network with one hidden layer, a norm, a product to the vocabulary.
#include <cmath>
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace narrow_reference {
namespace {

constexpr std::size_t words = 11, width = 8, hidden = 12, tokens = 6;
using width_dim = dim<embed, width>;
using hidden_dim = dim<mlp, hidden>;
using words_dim = dim<vocab, words>;
using model = model_of<tokens, named<"e", embedding<words_dim, width_dim, normal(1)>>,
                       residual<sequential<named<"up", linear<width_dim, hidden_dim, biased::yes, normal(0.5)>>, gelu,
                                           named<"down", linear<hidden_dim, width_dim, biased::yes, normal(0.5)>>>>,
                       named<"norm", layer_norm<width_dim>>,
                       named<"head", linear<width_dim, words_dim, biased::no, normal(0.5)>>, cross_entropy<words_dim>>;
example of(std::size_t, std::size_t, std::size_t t) {
  constexpr std::int32_t id[] = {3, 7, 3, 1, 10, 0}, target[] = {7, 3, 1, 10, 0, 5};
  return {id[t], target[t]};
}
constexpr double rate = 0.25;

using matrix = std::vector<double>;

template <class T>
struct reference {
  static double r(double x) { return static_cast<double>(static_cast<T>(static_cast<float>(x))); }

  std::map<std::string, matrix> w, g;
  double loss = 0;

  void step() {
    auto const& E = w["e.weight"];
    matrix x(tokens * width), h(tokens * hidden), a(h), y(x), n(x), mean(tokens), inverse(tokens), l(tokens * words);
    for (std::size_t t = 0; t < tokens; ++t) {
      auto const id = static_cast<std::size_t>(of(0, 0, t).token);
      for (std::size_t i = 0; i < width; ++i) x[t * width + i] = E[id * width + i];
      for (std::size_t j = 0; j < hidden; ++j) {
        double sum = w["up.bias"][j];
        for (std::size_t i = 0; i < width; ++i) sum += x[t * width + i] * w["up.weight"][j * width + i];
        double const v = h[t * hidden + j] = r(sum);
        a[t * hidden + j] = r(v * sigmoid_of(v));
      }
      double squares = 0;
      for (std::size_t i = 0; i < width; ++i) {
        double sum = r(w["down.bias"][i] + x[t * width + i]);  // what the product is added to
        for (std::size_t j = 0; j < hidden; ++j) sum += a[t * hidden + j] * w["down.weight"][i * hidden + j];
        mean[t] += (y[t * width + i] = r(sum)) / width;
      }
      for (std::size_t i = 0; i < width; ++i) squares += std::pow(y[t * width + i] - mean[t], 2) / width;
      inverse[t] = 1 / std::sqrt(squares + 1e-5);
      for (std::size_t i = 0; i < width; ++i)
        n[t * width + i] = r((y[t * width + i] - mean[t]) * inverse[t] * w["norm.weight"][i] + w["norm.bias"][i]);
      for (std::size_t v = 0; v < words; ++v) {
        double sum = 0;
        for (std::size_t i = 0; i < width; ++i) sum += n[t * width + i] * w["head.weight"][v * width + i];
        l[t * words + v] = r(sum);
      }
    }
    for (auto const& [name, value] : w) g[name].assign(value.size(), 0);
    matrix table(words * width);
    for (std::size_t t = 0; t < tokens; ++t) {
      auto const target = static_cast<std::size_t>(of(0, 0, t).target),
                 id = static_cast<std::size_t>(of(0, 0, t).token);
      double sum = 0;
      for (std::size_t v = 0; v < words; ++v) sum += std::exp(l[t * words + v]);
      loss += std::log(sum) - l[t * words + target];
      matrix dl(words), dn(width), dy(width), da(hidden), dh(hidden);
      for (std::size_t v = 0; v < words; ++v)
        dl[v] = r((std::exp(l[t * words + v]) / sum - (v == target ? 1 : 0)) / tokens);
      for (std::size_t i = 0; i < width; ++i) {
        for (std::size_t v = 0; v < words; ++v) {
          dn[i] += dl[v] * w["head.weight"][v * width + i];
          g["head.weight"][v * width + i] += dl[v] * n[t * width + i];
        }
        dn[i] = r(dn[i]);
      }
      double shift = 0, slope = 0;
      for (std::size_t i = 0; i < width; ++i) {
        double const normal = (y[t * width + i] - mean[t]) * inverse[t], scaled = dn[i] * w["norm.weight"][i];
        g["norm.weight"][i] += dn[i] * normal;
        g["norm.bias"][i] += dn[i];
        shift += scaled / width;
        slope += scaled * normal / width;
      }
      for (std::size_t i = 0; i < width; ++i) {
        double const normal = (y[t * width + i] - mean[t]) * inverse[t];
        dy[i] = r((dn[i] * w["norm.weight"][i] - shift - normal * slope) * inverse[t]);
        g["down.bias"][i] += dy[i];
      }
      for (std::size_t j = 0; j < hidden; ++j) {
        for (std::size_t i = 0; i < width; ++i) {
          da[j] += dy[i] * w["down.weight"][i * hidden + j];
          g["down.weight"][i * hidden + j] += dy[i] * a[t * hidden + j];
        }
        double const v = h[t * hidden + j], s = sigmoid_of(v);
        double const inside = 1.59576912160573071176 * (1 + 3 * 0.044715 * v * v);
        dh[j] = r(r(da[j]) * (s + v * s * (1 - s) * inside));
        g["up.bias"][j] += dh[j];
        for (std::size_t i = 0; i < width; ++i) g["up.weight"][j * width + i] += dh[j] * x[t * width + i];
      }
      for (std::size_t i = 0; i < width; ++i) {
        double sum_of_both = dy[i];
        for (std::size_t j = 0; j < hidden; ++j) sum_of_both += dh[j] * w["up.weight"][j * width + i];
        g["e.weight"][id * width + i] += r(sum_of_both);
      }
    }
    for (auto& [name, value] : w)
      for (std::size_t i = 0; i < value.size(); ++i) {
        g[name][i] = r(g[name][i]);
        master[name].resize(value.size());
        master[name][i] -= rate * g[name][i];
        value[i] = r(master[name][i]);
      }
  }
  /// Of gelu_tanh, which is v times it.
  static double sigmoid_of(double v) {
    return 1 / (1 + std::exp(-1.59576912160573071176 * v * (1 + 0.044715 * v * v)));
  }
  std::map<std::string, matrix> master;
};

/// Two sums that differ by float's roundings may be rounded apart, by two units of the larger; that is rare, and later
/// values are made of it: at most one element of a parameter in eight, by at most 4 units of the largest.
template <class T, precision_policy Policy>
void check_step() {
  struct plan_type : plan<precision<Policy>, optimizer<sgd>> {};
  double const unit = std::is_same_v<T, host::bfloat16> ? 0x1p-8 : 0x1p-11;
  run<plan_type>(threads, [&](auto& rank) {
    trainer<model, plan_type> t(rank, {.seed = 3, .learning_rate = rate});
    reference<T> expected;
    for (std::size_t n = 0; n < t.parameter_count(); ++n) {
      auto const p = t.parameter(n);
      std::string const name(p.entry->name.view());
      for (std::size_t i = 0; i < p.entry->dims.size(); ++i) {
        expected.w[name].push_back(static_cast<double>(p.value[i]));
        expected.master[name].push_back(static_cast<double>(p.master[i]));
        CHECK(reference<T>::r(expected.master[name][i]) == expected.w[name][i]);
      }
    }
    CHECK(expected.w.size() == 8);
    auto const result = step_on(t, 0, of);
    expected.step();
    CHECK(std::fabs(result.loss.sum - expected.loss) < unit * expected.loss / 8);
    double const scale = result.loss_scale;
    for (std::size_t n = 0; n < t.parameter_count(); ++n) {
      auto const p = t.parameter(n);
      std::string const name(p.entry->name.view());
      CAPTURE(name);
      double largest = 0, worst = 0;
      std::size_t apart = 0;
      auto const& g = expected.g[name];
      for (double x : g) largest = std::fmax(largest, std::fabs(x));
      for (std::size_t i = 0; i < g.size(); ++i) {
        double const off = std::fabs(static_cast<double>(p.gradient[i]) / scale - g[i]);
        worst = std::fmax(worst, off);
        apart += off != 0;
        CHECK(std::fabs(static_cast<double>(p.master[i]) - expected.master[name][i]) <= rate * off + 1e-6);
        CHECK(static_cast<double>(p.value[i]) == reference<T>::r(static_cast<double>(p.master[i])));
      }
      CHECK(worst <= 4 * unit * largest);
      CHECK(8 * apart <= g.size());
    }
  });
}

}  // namespace

TEST_CASE("a step in bf16_mixed rounds where the reference does") { check_step<host::bfloat16, bf16_mixed>(); }
TEST_CASE("a step in fp16_mixed rounds where the reference does, whatever the loss scale") {
  check_step<host::float16, fp16_mixed>();
}

}  // namespace narrow_reference
