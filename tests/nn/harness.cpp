// SPDX-License-Identifier: Apache-2.0
#include "harness.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <heddle/tensor/local_index_map.hpp>
#include <heddle/tensor/random_key.hpp>
#include <limits>
#include <memory>
#include <mutex>

#include "area.hpp"

namespace heddle::testing {
namespace {

// Streams of random values.
constexpr std::uint64_t input_stream = 1, cotangent_stream = 2, base_stream = 3, first_parameter_stream = 10;
constexpr std::int32_t vocabulary = 13;

double drawn(std::uint64_t stream, std::uint64_t element) {
  return 2 * uniform<double>(random_stream({5, 0, stream}).word(element)) - 1;
}
std::int32_t token(std::uint64_t i) { return static_cast<std::int32_t>((i * 7 + i * i) % vocabulary); }
/// Every fifth target does not count.
std::int32_t target(std::uint64_t i) { return i % 5 == 2 ? ignored_target : token(i + 3); }

index_map map_of(subject const& s, dimension_list const& d, layout const& l, coordinates const& at) {
  return local_index_map(s.mesh, d, l, at);
}
void fill(double* to, index_map const& map, std::uint64_t stream) {
  for_each_run(map, [&](std::size_t begin, std::size_t count, std::uint64_t global) {
    for (std::size_t i = 0; i < count; ++i) to[begin + i] = drawn(stream, global + i);
  });
}
/// Adds a rank's part to the whole: `weight` is 1 for exactly one of the ranks that hold the same elements.
void put(std::vector<double>& whole, double const* local, index_map const& map) {
  for_each_run(map, [&](std::size_t begin, std::size_t count, std::uint64_t global) {
    for (std::size_t i = 0; i < count; ++i) whole[global + i] = local[begin + i];
  });
}
/// Ranks that hold the same elements hold the same bits; elements that are padding are `padding`.
void compare(outcome& o, std::vector<double>& whole, double const* local, index_map const& map, char const* what) {
  std::vector<bool> real(map.size(), false);
  for_each_run(map, [&](std::size_t begin, std::size_t count, std::uint64_t global) {
    for (std::size_t i = 0; i < count; ++i) {
      real[begin + i] = true;
      double& w = whole[global + i];
      if (std::isnan(local[begin + i])) o.fault += std::string(what) + " is not a number; ";
      // Sums over several axes are added in an order that ranks share only within each: not always the same bits.
      if (!std::isnan(w) && std::fabs(w - local[begin + i]) > 1e-13 * (1 + std::fabs(w)))
        o.fault += std::string(what) + " differs between ranks that should hold the same; ";
    }
  });
  for (std::size_t i = 0; i < real.size(); ++i)
    if (!real[i] && local[i] != 0) o.fault += std::string(what) + " has padding that is not zero; ";
  put(whole, local, map);
}

/// The module on one rank with all its memory.
class bench {
 public:
  bench(subject const& s, live_module& m)
      : s_(s),
        m_(m),
        in_map_(map_of(s, s.in, s.in_layout, m.at())),
        out_map_(map_of(s, s.out, s.out_layout, m.at())),
        x(s.reads_tokens ? 0 : in_map_.size()),
        y(out_map_.size()),
        dx(s.reads_tokens ? 0 : in_map_.size()),
        dy(out_map_.size()),
        saved(s.saved),
        forward_scratch(s.forward_scratch),
        backward_scratch(s.backward_scratch) {
    index_map const token_map = map_of(s, s.tokens, s.token_layout, m.at());
    tokens_.resize(token_map.size());
    targets_.resize(token_map.size());
    for_each_run(token_map, [&](std::size_t begin, std::size_t count, std::uint64_t global) {
      for (std::size_t i = 0; i < count; ++i) {
        tokens_[begin + i] = token(global + i);
        targets_[begin + i] = target(global + i);
      }
    });
    m.set_targets(targets_.data());
    for (std::size_t k = 0; k < s.uses.size(); ++k) {
      index_map const map = map_of(s, s.uses[k].dims, s.uses[k].compute, m.at());
      value.emplace_back(map.size());
      gradient.emplace_back(map.size());
      // Padding of a parameter is zero, and stays so.
      value.back().fill(0);
      fill(value.back().data(), map, first_parameter_stream + k);
    }
    for (auto& v : value) value_pointer_.push_back(v.data());
    for (auto& g : gradient) gradient_pointer_.push_back(g.data());
    if (!s.reads_tokens) {
      // Padded logits take no part; other padding holds zeros.
      if (!s.is_loss) x.fill(0);
      fill(x.data(), in_map_, input_stream);
    }
    dy.fill(0);
    fill(dy.data(), out_map_, cotangent_stream);
  }

  void forward() {
    saved.poison();
    forward_scratch.poison();
    y.poison();
    m_.forward(frame_with(forward_scratch), input(), y.data());
  }
  /// After `backward(0)`: whether gradients that are fresh get the same, whatever stands in them.
  [[nodiscard]] bool replaces_fresh_gradients() {
    std::vector<area> const added = gradient;
    backward(std::numeric_limits<double>::quiet_NaN(), true);
    bool alike = true;
    for (std::size_t k = 0; k < gradient.size(); ++k)
      if (s_.uses[k].trainable) alike = alike && same(gradient[k], added[k]);
    gradient = added;
    return alike;
  }
  /// After `forward`. What backward has not asked for is poisoned.
  void backward(double gradient_start, bool fresh = false) {
    backward_scratch.poison();
    dx.poison();
    for (auto& g : gradient) g.fill(gradient_start);
    area const x_before = x;
    if (!s_.needs_input && !s_.reads_tokens) x.poison();
    if (!s_.needs_output) y.poison();
    frame<double> f = frame_with(backward_scratch);
    auto const all = std::make_unique<bool[]>(gradient.size());
    for (std::size_t k = 0; k < gradient.size(); ++k) all[k] = true;
    if (fresh) f.fresh = all.get();
    m_.backward(f, input(), y.data(), dy.data(), s_.reads_tokens ? nullptr : dx.data());
    x = x_before;
  }
  /// What may be done in place gives the same there.
  [[nodiscard]] std::string in_place_fault() {
    std::string fault;
    if (s_.in_place) {
      area both = x;
      m_.forward(frame_with(forward_scratch), both.data(), both.data());
      if (!same(both, y)) fault += "forward in place gives other values; ";
    }
    if (s_.identity_cotangent) {
      area both = dy;
      m_.backward(frame_with(backward_scratch), input(), y.data(), both.data(), both.data());
      if (!same(both, dy) || !same(dx, dy)) fault += "the cotangent is not the identity; ";
    }
    return fault;
  }
  /// What adds to a base gives that sum. After `backward`, whose gradients are then those of two.
  [[nodiscard]] std::string onto_fault() {
    std::string fault;
    if (s_.adds_forward) {
      area base = y, sum = y;
      for (std::size_t i = 0; i < base.size(); ++i) base.data()[i] = drawn(base_stream, i);
      sum.poison();
      saved.poison();
      forward_scratch.poison();
      m_.forward_onto(frame_with(forward_scratch), base.data(), input(), sum.data());
      if (!sum_of(sum, base, y)) fault += "forward_onto gives another sum; ";
    }
    if (s_.adds_backward && !s_.reads_tokens) {
      area base = dx, sum = dx;
      for (std::size_t i = 0; i < base.size(); ++i) base.data()[i] = drawn(base_stream, i);
      sum.poison();
      backward_scratch.poison();
      m_.backward_onto(frame_with(backward_scratch), input(), y.data(), dy.data(), base.data(), sum.data());
      if (!sum_of(sum, base, dx)) fault += "backward_onto gives another sum; ";
    }
    return fault;
  }
  [[nodiscard]] bool intact() const {
    bool whole = x.intact() && y.intact() && dx.intact() && dy.intact() && saved.intact() && forward_scratch.intact() &&
                 backward_scratch.intact();
    for (auto const& v : value) whole = whole && v.intact();
    for (auto const& g : gradient) whole = whole && g.intact();
    return whole;
  }
  /// Whether an evaluation gives what backward left in y, with nothing but its own memory.
  [[nodiscard]] bool evaluated_alike() {
    area const of_step = y;
    m_.set_training(false);
    forward();
    m_.set_training(true);
    return same(of_step, y);
  }
  /// Forward with the output in y.
  void evaluate() {
    m_.set_training(!s_.gives_output_in_backward);
    forward();
  }
  /// The gradient of use k as the optimizer would get it: in the layout of the parameter.
  [[nodiscard]] std::vector<double> reduced_gradient(std::size_t k) {
    parameter_use const& u = s_.uses[k];
    redistribution const path = find_redistribution(s_.mesh, u.dims, u.gradient, u.compute);
    std::vector<double> out(value[k].size()), scratch(redistribution_scratch(s_.mesh, path));
    m_.redistribute(path, gradient[k].data(), out.data(), scratch.data());
    return out;
  }
  /// The sum over the axes on which a loss is partial.
  [[nodiscard]] double whole_loss() {
    redistribution const path = find_redistribution(s_.mesh, s_.out, s_.out_layout, cotangent(s_.out_layout));
    double out = 0, scratch[4]{};
    m_.redistribute(path, y.data(), &out, scratch);
    return out;
  }
  [[nodiscard]] index_map const& in_map() const { return in_map_; }
  [[nodiscard]] index_map const& out_map() const { return out_map_; }
  [[nodiscard]] index_map use_map(std::size_t k) const {
    return map_of(s_, s_.uses[k].dims, s_.uses[k].compute, m_.at());
  }

 private:
  subject const& s_;
  live_module& m_;
  index_map in_map_, out_map_;
  std::vector<std::int32_t> tokens_, targets_;
  std::vector<double const*> value_pointer_;
  std::vector<double*> gradient_pointer_;

  [[nodiscard]] void const* input() const {
    return s_.reads_tokens ? static_cast<void const*>(tokens_.data()) : static_cast<void const*>(x.data());
  }
  frame<double> frame_with(area& scratch) {
    // A site and a layer other than zero, so that forgetting them shows between a module and its parts.
    return {value_pointer_.data(), gradient_pointer_.data(), saved.data(), scratch.data(), 2, 1};
  }
  static bool sum_of(area const& sum, area const& a, area const& b) {
    // The order of terms of order 1 to 100 differs.
    for (std::size_t i = 0; i < sum.size(); ++i)
      if (!(std::fabs(sum.data()[i] - (a.data()[i] + b.data()[i])) <= 1e-13 * (1 + std::fabs(b.data()[i]))))
        return false;
    return sum.intact() && a.intact();
  }
  static bool same(area const& a, area const& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a.data()[i] != b.data()[i]) return false;
    return a.intact();
  }

 public:
  area x, y, dx, dy, saved, forward_scratch, backward_scratch;
  std::vector<area> value, gradient;
};

double dot(area const& a, area const& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a.data()[i] * b.data()[i];
  return sum;
}

double largest(std::vector<double> const& v) {
  double m = 0;
  for (double e : v) m = std::fmax(m, std::fabs(e));
  return m;
}
double largest_difference(std::vector<double> const& a, std::vector<double> const& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double m = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const d = std::fabs(a[i] - b[i]);
    m = std::isfinite(d) ? std::fmax(m, d) : HUGE_VAL;
  }
  return m;
}

}  // namespace

outcome run(subject const& s) {
  outcome o;
  constexpr double unset = std::numeric_limits<double>::quiet_NaN();
  o.y.assign(s.out.size(), unset);
  if (!s.reads_tokens) o.dx.assign(s.in.size(), unset);
  for (auto const& u : s.uses) o.gradient.emplace_back(u.dims.size(), unset);
  std::mutex one_at_a_time;
  s.on_ranks([&](live_module& m) {
    bench b(s, m);
    b.forward();
    double loss = s.is_loss ? b.whole_loss() : 0;
    area const y = b.y;
    b.backward(0);
    bool const replaces = b.replaces_fresh_gradients();
    bool as_evaluated = true;
    if (s.gives_output_in_backward) {
      loss = b.whole_loss();
      as_evaluated = b.evaluated_alike();
    }
    std::vector<std::vector<double>> reduced;
    for (std::size_t k = 0; k < s.uses.size(); ++k) reduced.push_back(b.reduced_gradient(k));
    bool const intact = b.intact();
    b.y = y;
    std::string const in_place = b.in_place_fault() + b.onto_fault();

    std::lock_guard const lock(one_at_a_time);
    if (s.is_loss)
      o.y[0] = loss;
    else
      compare(o, o.y, y.data(), b.out_map(), "the output");
    if (!s.reads_tokens) compare(o, o.dx, b.dx.data(), b.in_map(), "the input's gradient");
    for (std::size_t k = 0; k < s.uses.size(); ++k)
      compare(o, o.gradient[k], reduced[k].data(), b.use_map(k), "a parameter's gradient");
    if (!as_evaluated) o.fault += "an evaluation gives another loss than a step; ";
    if (!replaces) o.fault += "what stood in a fresh gradient is still in it; ";
    if (!intact) o.fault += "memory behind an area was written; ";
    o.fault += in_place;
  });
  return o;
}

void check_gradients(subject const& s) {
  s.on_ranks([&](live_module& m) {
    bench b(s, m);
    // Gradients accumulate, so they start at something.
    constexpr double start = 0.5;
    b.forward();
    b.backward(start);
    CHECK(b.intact());

    // The objective is Σ y·dy. With step h the difference quotient is wrong by h²·f‴/6 + 1e-16·f/h: at h = 1e-5 and
    // values of order 1 to 100 both are below 1e-8, and a wrong term shows at 1e-2.
    constexpr double h = 1e-5, tolerance = 2e-7;
    auto const slope = [&](double& at) {
      double const old = at;
      at = old + h;
      b.evaluate();
      double const up = dot(b.y, b.dy);
      at = old - h;
      b.evaluate();
      double const down = dot(b.y, b.dy);
      at = old;
      return (up - down) / (2 * h);
    };
    if (!s.reads_tokens) {
      std::vector<double> expected, found(b.dx.data(), b.dx.data() + b.dx.size());
      for (std::size_t i = 0; i < b.x.size(); ++i) expected.push_back(slope(b.x.data()[i]));
      CHECK(largest_difference(found, expected) <= tolerance * (1 + largest(expected)));
      CHECK(largest(expected) > 1e-4);  // else nothing was compared
    }
    for (std::size_t k = 0; k < s.uses.size(); ++k) {
      CAPTURE(s.uses[k].name.view());
      std::vector<double> expected, found(b.gradient[k].data(), b.gradient[k].data() + b.gradient[k].size());
      for (double& g : found) g -= start;
      for (std::size_t i = 0; i < b.value[k].size(); ++i) expected.push_back(slope(b.value[k].data()[i]));
      CHECK(largest_difference(found, expected) <= tolerance * (1 + largest(expected)));
      CHECK(largest(expected) > 1e-4);
    }
  });
}

void check_same(subject const& one_rank, subject const& parallel, char const* where) {
  CAPTURE(where);
  outcome const serial = run(one_rank), found = run(parallel);
  CHECK(serial.fault == "");
  CHECK(found.fault == "");
  // The two differ in the order of sums of at most a few hundred terms of order 1.
  constexpr double tolerance = 1e-13;
  CHECK(largest_difference(serial.y, found.y) <= tolerance * (1 + largest(serial.y)));
  CHECK(largest_difference(serial.dx, found.dx) <= tolerance * (1 + largest(serial.dx)));
  REQUIRE(serial.gradient.size() == found.gradient.size());
  for (std::size_t k = 0; k < serial.gradient.size(); ++k) {
    CAPTURE(one_rank.uses[k].name.view());
    CHECK(largest_difference(serial.gradient[k], found.gradient[k]) <= tolerance * (1 + largest(serial.gradient[k])));
  }
}

void check_frozen(subject const& one_rank, subject const& frozen, char const* where) {
  CAPTURE(where);
  outcome const whole = run(one_rank), found = run(frozen);
  CHECK(found.fault == "");
  constexpr double tolerance = 1e-13;
  CHECK(largest_difference(whole.y, found.y) <= tolerance * (1 + largest(whole.y)));
  CHECK(largest_difference(whole.dx, found.dx) <= tolerance * (1 + largest(whole.dx)));
  REQUIRE(frozen.uses.size() == one_rank.uses.size());
  for (std::size_t k = 0; k < frozen.uses.size(); ++k) {
    CAPTURE(frozen.uses[k].name.view());
    if (frozen.uses[k].trainable)
      CHECK(largest_difference(whole.gradient[k], found.gradient[k]) <= tolerance * (1 + largest(whole.gradient[k])));
    else
      CHECK((largest(found.gradient[k]) == 0 && largest(whole.gradient[k]) > 0));
  }
}

}  // namespace heddle::testing
