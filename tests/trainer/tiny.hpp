// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <heddle/backend/host.hpp>
#include <heddle/nn/embedding.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/plan/plan.hpp>
#include <heddle/tensor/accumulation.hpp>
#include <heddle/train/run.hpp>
#include <heddle/train/trainer.hpp>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

/// Models of a few numbers, whose losses and gradients are known on paper, trained by the real trainer. Their losses
/// are modules of the tests' own, written against the public concept.
namespace heddle::testing {

/// Identities that no rule splits, unlike `vocab`.
struct ids : dim_name<"ids"> {};

struct factor {
  double value = 1;
};

/// What losses of tokens share: their targets, one per row.
template <class Place>
struct token_loss : kernel_traits {
  using T = typename Place::element;
  using A = accumulation_t<T>;
  static_assert(Place::token_path.empty(), "token_loss<Place>: the sequence must be whole; take its rule out");
  static constexpr bool keeps_input = true;
  static constexpr std::size_t rows = local_size(Place::mesh, Place::token_dims, Place::plan::token_layout);
  static constexpr std::size_t width = Place::input_size / rows;
};

/// Scale · Σ target · Σ_d x_d over counted tokens: the gradient of every element is Scale · target.
template <factor Scale = factor{}>
struct weighted_loss : primitive {
  using is_loss = void;
  using parameters = parameter_list<>;
  template <class Input>
  using output = dims<>;
  template <class Place>
  struct kernel : token_loss<Place> {
    using typename token_loss<Place>::T;
    using typename token_loss<Place>::A;
    template <class Context>
    static void forward(Context& c, frame<T> const&, T const* x, T* y) {
      *loss_value(y) = 0;
      each(c, [&](std::size_t i, A weight) { *loss_value(y) += weight * static_cast<A>(x[i]); });
    }
    template <class Context>
    static void backward(Context& c, frame<T> const&, T const*, T const*, T const* dy, T* dx) {
      each(c, [&](std::size_t i, A weight) { dx[i] = static_cast<T>(weight * *loss_value(dy)); });
    }

   private:
    template <class Context, class F>
    static void each(Context& c, F f) {
      constexpr std::size_t width = token_loss<Place>::width;
      for (std::size_t r = 0; r < token_loss<Place>::rows; ++r) {
        A const weight = c.targets()[r] == c.ignore_index() ? A(0) : A(Scale.value) * static_cast<A>(c.targets()[r]);
        for (std::size_t d = 0; d < width; ++d) f(r * width + d, weight);
      }
    }
  };
};

/// Σ (x − target)² / 2 over counted tokens, for x of width 1.
struct half_square_loss : primitive {
  using is_loss = void;
  using parameters = parameter_list<>;
  template <class Input>
  using output = dims<>;
  template <class Place>
  struct kernel : token_loss<Place> {
    using typename token_loss<Place>::T;
    using typename token_loss<Place>::A;
    template <class Context>
    static void forward(Context& c, frame<T> const&, T const* x, T* y) {
      *loss_value(y) = 0;
      for (std::size_t r = 0; r < token_loss<Place>::rows; ++r)
        *loss_value(y) += error_of(c, x, r) * error_of(c, x, r) / 2;
    }
    template <class Context>
    static void backward(Context& c, frame<T> const&, T const* x, T const*, T const* dy, T* dx) {
      for (std::size_t r = 0; r < token_loss<Place>::rows; ++r)
        dx[r] = static_cast<T>(error_of(c, x, r) * *loss_value(dy));
    }

   private:
    template <class Context>
    static A error_of(Context& c, T const* x, std::size_t r) {
      return c.targets()[r] == c.ignore_index() ? A(0) : static_cast<A>(x[r]) - static_cast<A>(c.targets()[r]);
    }
  };
};

/// y = x · weight, element by element.
template <class Width, initializer Init = ones, fixed_string Tie = "">
struct scaled : primitive {
  using parameters = parameter_list<parameter<"weight", dims<Width>, Init, true, Tie>>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = true;
    static constexpr std::size_t width = Place::template extent<typename Width::name>;
    template <class Context>
    static void forward(Context&, frame<T> const& f, T const* x, T* y) {
      for (std::size_t i = 0; i < Place::input_size; ++i) y[i] = x[i] * f.parameter[0][i % width];
    }
    template <class Context>
    static void backward(Context&, frame<T> const& f, T const* x, T const*, T const* dy, T* dx) {
      for (std::size_t i = 0; i < Place::input_size; ++i) {
        f.gradient[0][i % width] += x[i] * dy[i];
        dx[i] = dy[i] * f.parameter[0][i % width];
      }
    }
  };
};

/// y = x, a module of the tests' own; `BeforeBackward` is called before each backward, and may throw.
template <void (*BeforeBackward)()>
struct identity : primitive {
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    template <class Context>
    static void forward(Context&, frame<T> const&, T const* x, T* y) {
      Context::backend::template copy<Place::input_size>(x, y);
    }
    template <class Context>
    static void backward(Context&, frame<T> const&, T const*, T const*, T const* dy, T* dx) {
      BeforeBackward();
      Context::backend::template copy<Place::input_size>(dy, dx);
    }
  };
};

/// What a rank does in the midst of a step, once: before the next backward through `identity<midst>` on its thread.
inline thread_local std::function<void()> in_midst;
inline void midst() {
  if (auto const act = std::exchange(in_midst, nullptr)) act();
}

/// Plain gradient descent: an optimizer without state.
struct sgd {
  static constexpr std::size_t slots = 0;
  struct options {};
  template <class Backend, class T>
  static void update(options const&, update_facts const& facts, T* w, T const* g, std::array<T*, slots> const&,
                     std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) w[i] -= static_cast<T>(facts.learning_rate * facts.gradient_scale) * g[i];
  }
};

/// A model of some modules. Targets may be any of 0 … 63.
template <std::size_t Context, class... Modules>
struct model_of {
  static constexpr std::size_t context = Context;
  static constexpr std::size_t vocabulary = 64;
  using module = sequential<Modules...>;
};

using unit_dim = dim<embed, 1>;
/// The scalar `w`: a table of one row and one column, looked up by token 0.
template <initializer Init = zeros>
using scalar = named<"w", embedding<dim<ids, 1>, unit_dim, Init>>;

struct whole_parameter {
  std::vector<double> value, gradient;
};

/// What a run left, put together from all ranks.
struct trained {
  std::vector<step_result> step;
  std::map<std::string, whole_parameter> parameter;
};

/// A token and its target.
struct example {
  std::int32_t token = 0;
  std::int32_t target = 0;
};

template <class Trainer, class Data>
step_result step_on(Trainer& trainer, std::size_t s, Data&& data) {
  std::vector<std::int32_t> tokens(Trainer::local_tokens), targets(Trainer::local_tokens);
  for (std::size_t i = 0; i < Trainer::local_sequences; ++i)
    for (std::size_t t = 0; t < Trainer::context; ++t) {
      example const e = data(s, trainer.global_sequence(i), t);
      tokens[i * Trainer::context + t] = e.token;
      targets[i * Trainer::context + t] = e.target;
    }
  return trainer.step(tokens, targets);
}

template <class Mesh, class Trainer>
index_map map_of_parameter(Trainer& trainer, std::size_t n, coordinates const& at) {
  auto const& entry = *trainer.parameter(n).entry;
  return local_index_map(Mesh::value, entry.dims, entry.rest, at);
}

/// Sets this rank's part of the parameter called `name`, if it has one, by global element index.
template <class Mesh, class Trainer, class F>
void set_parameter(Trainer& trainer, coordinates const& at, std::string const& name, F value) {
  for (std::size_t n = 0; n < trainer.parameter_count(); ++n) {
    auto const p = trainer.parameter(n);
    if (p.entry->name.view() != name) continue;
    for_each_run(map_of_parameter<Mesh>(trainer, n, at),
                 [&](std::size_t begin, std::size_t count, std::uint64_t global) {
                   for (std::size_t i = 0; i < count; ++i)
                     p.value[begin + i] = static_cast<typename Trainer::element>(value(global + i));
                 });
  }
}

/// NaN behind each reduced gradient, up to where another may begin: in the midst of a step, which has cleared before
/// what it clears. The model has an `identity<midst>`.
template <class Trainer>
void poison_between_gradients(Trainer& trainer) {
  in_midst = [&trainer] {
    using element = typename Trainer::elements::gradient;
    for (std::size_t n = 0; n < trainer.parameter_count(); ++n) {
      auto const p = trainer.parameter(n);
      for (std::size_t i = p.entry->reduced_size; i < slot<element>(p.entry->reduced_size); ++i)
        p.gradient[i] = std::numeric_limits<element>::quiet_NaN();
    }
  };
}

/// Trains `steps` steps on all ranks. `data(step, global sequence, position)` gives an example, `prepare(trainer, at)`
/// runs before the first step, `after(trainer, at)` after each.
template <class Model, class Plan, class Data, class Prepare, class After>
trained train(typename basic_trainer<Model, Plan, host_backend>::options const& options, std::size_t steps, Data data,
              Prepare prepare, After after) {
  using trainer_type = basic_trainer<Model, Plan, host_backend>;
  trained result;
  std::mutex one_at_a_time;
  run<Plan>(threads, [&](auto& rank) {
    trainer_type trainer(rank, options);
    prepare(trainer, rank.at());
    std::vector<step_result> mine;
    for (std::size_t s = 0; s < steps; ++s) {
      mine.push_back(step_on(trainer, s, data));
      after(trainer, rank.at());
    }
    std::lock_guard const lock(one_at_a_time);
    if (result.step.empty()) result.step = mine;
    for (std::size_t s = 0; s < steps; ++s) {  // every rank knows the same
      CHECK(mine[s].loss.sum == result.step[s].loss.sum);
      CHECK(mine[s].loss.count == result.step[s].loss.count);
      CHECK(mine[s].gradient_norm == result.step[s].gradient_norm);
    }
    for (std::size_t n = 0; n < trainer.parameter_count(); ++n) {
      auto const p = trainer.parameter(n);
      auto& whole = result.parameter[std::string(p.entry->name.view())];
      // Parameter and reduced gradient may rest in unlike parts; what is frozen has no gradient.
      auto const join = [&](layout const& rest, auto const* from, std::vector<double>& to) {
        to.resize(p.entry->dims.size());
        for_each_run(local_index_map(Plan::mesh::value, p.entry->dims, rest, rank.at()),
                     [&](std::size_t begin, std::size_t count, std::uint64_t global) {
                       for (std::size_t i = 0; i < count; ++i) to[global + i] = static_cast<double>(from[begin + i]);
                     });
      };
      join(p.entry->rest, p.value, whole.value);
      if (p.gradient != nullptr) join(p.entry->gradient_rest, p.gradient, whole.gradient);
    }
  });
  return result;
}
template <class Model, class Plan, class Data>
trained train(typename basic_trainer<Model, Plan, host_backend>::options const& options, std::size_t steps, Data data) {
  auto const nothing = [](auto&, coordinates const&) {};
  return train<Model, Plan>(options, steps, data, nothing, nothing);
}

}  // namespace heddle::testing
