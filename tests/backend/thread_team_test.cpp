// SPDX-License-Identifier: Apache-2.0
// A team deals every part once, passes exceptions on, and changes no bit of any primitive.
#include <heddle/backend/host.hpp>

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <thread>

#include "checks.hpp"

namespace {

using heddle::activation_kind;
using heddle::host::thread_team;
using host = heddle::host_backend;
namespace detail = heddle::host::detail;

using sizes = std::initializer_list<std::size_t>;

/// Everything that the primitives which are dealt compute, at sizes of several parts and with tails.
template <class T>
std::vector<T> everything() {
  constexpr std::size_t batch = 6, sequence = 67, heads = 3, head_dim = 34, rows = batch * sequence,
                        width = heads * head_dim, mlp = 411, vocabulary = 4999;
  auto const make = [](std::size_t n, std::uint64_t seed) {
    auto const wide = checks::values(n, seed);
    return std::vector<T>(wide.begin(), wide.end());
  };
  std::vector<T> all;
  auto const keep = [&](std::vector<T> const& x) { all.insert(all.end(), x.begin(), x.end()); };
  auto const x = make(rows * width, 1), w = make(mlp * width, 2), b = make(mlp, 3), gamma = make(width, 4),
             beta = make(width, 5);
  std::vector<std::int32_t> tokens(rows);
  for (std::size_t i = 0; i < rows; ++i) tokens[i] = static_cast<std::int32_t>(i * i % vocabulary);

  // A linear layer, its activation and their backward.
  std::vector<T> h(rows * mlp), y(rows * mlp), dh(rows * mlp), dx(rows * width), dw = w, db = b;
  host::product<rows, mlp, width, false, true>(x.data(), w.data(), h.data());
  host::biased_sum<rows, mlp>(b.data(), h.data(), h.data());
  host::activation<activation_kind::gelu_tanh, rows * mlp>(h.data(), y.data());
  host::activation_backward<activation_kind::gelu_tanh, rows * mlp>(h.data(), y.data(), dh.data());
  host::bias_gradient<rows, mlp>(dh.data(), db.data());
  host::product<rows, width, mlp, false, false>(dh.data(), w.data(), dx.data());
  host::product_accumulate<mlp, width, rows, true, false>(dh.data(), x.data(), dw.data());
  host::add<rows * width>(x.data(), dx.data(), dx.data());
  host::add_to<rows * width>(x.data(), dx.data());
  host::scale<rows * width>(T(0.75), dx.data());
  for (auto const* part : {&h, &y, &dh, &dx, &dw, &db}) keep(*part);
  std::vector<T> gates(rows * mlp / 2);
  host::gated<activation_kind::silu, rows, mlp / 2>(h.data(), gates.data());
  keep(gates);
  host::gated_backward<activation_kind::silu, rows, mlp / 2>(h.data(), gates.data(), dh.data());
  keep(dh);

  std::vector<T> normal(rows * width), mean(rows), rstd(rows), dgamma = gamma, dbeta = beta;
  host::layer_norm<rows, width>(x.data(), gamma.data(), beta.data(), T(1e-5), normal.data(), mean.data(), rstd.data());
  host::layer_norm_backward<rows, width>(x.data(), gamma.data(), mean.data(), rstd.data(), dx.data(), x.data(),
                                         dx.data(), dgamma.data(), dbeta.data());
  for (auto const* part : {&normal, &mean, &rstd, &dx, &dgamma, &dbeta}) keep(*part);
  host::rms_norm<rows, width>(x.data(), gamma.data(), T(1e-5), normal.data(), rstd.data());
  host::rms_norm_backward<rows, width>(x.data(), gamma.data(), rstd.data(), dx.data(), x.data(), dx.data(),
                                       dgamma.data());
  for (auto const* part : {&normal, &dx, &dgamma}) keep(*part);

  constexpr std::size_t fused = rows * heads * 3 * head_dim;
  auto qkv = make(fused, 6);
  std::vector<T> out(rows * width), sums(batch * heads * sequence), dqkv(fused),
      scratch(host::attention_backward_scratch<batch, sequence, heads, 1, head_dim>());
  std::vector<std::int64_t> positions(sequence);
  for (std::size_t s = 0; s < sequence; ++s) positions[s] = static_cast<std::int64_t>(s);
  std::vector<T> cosine(sequence * head_dim / 2), sine(sequence * head_dim / 2);
  host::rotary_table<sequence, head_dim>(positions.data(), 1e4, cosine.data(), sine.data());
  host::rotary<batch, sequence, heads, 1, head_dim>(qkv.data(), qkv.data(), cosine.data(), sine.data());
  host::attention<batch, sequence, heads, 1, head_dim>(qkv.data(), out.data(), sums.data(), scratch.data());
  host::attention_backward<batch, sequence, heads, 1, head_dim>(qkv.data(), out.data(), sums.data(), x.data(),
                                                                dqkv.data(), scratch.data());
  for (auto const* part : {&qkv, &out, &sums, &dqkv}) keep(*part);

  constexpr std::size_t few = 9;
  auto logits = make(few * vocabulary, 7);
  std::vector<T> highest(few), total(few), target(few), lse(few);
  host::cross_entropy_max<few, vocabulary>(logits.data(), vocabulary - 3, highest.data());
  host::cross_entropy_sum<few, vocabulary>(logits.data(), vocabulary - 3, 0, tokens.data(), highest.data(),
                                           total.data(), target.data());
  T loss = 0;
  T const one = 1;
  host::cross_entropy_loss<few>(tokens.data(), -100, highest.data(), total.data(), target.data(), lse.data(), &loss);
  host::cross_entropy_backward<few, vocabulary>(logits.data(), vocabulary - 3, 0, tokens.data(), -100, lse.data(), &one,
                                                logits.data());
  keep(logits);
  all.push_back(loss);

  auto table = make(vocabulary * width, 8);
  host::embedding<rows, vocabulary, width>(tokens.data(), table.data(), 0, normal.data());
  host::embedding_backward<rows, vocabulary, width>(tokens.data(), normal.data(), 0, table.data());
  keep(table);
  std::vector<T> m(table.size()), v(table.size());
  host::adamw(table.data(), table.data(), m.data(), v.data(), table.size(),
              heddle::adamw_coefficients{.learning_rate = 0.01, .bias_correction1 = 0.1, .bias_correction2 = 0.001});
  keep(table);
  all.push_back(static_cast<T>(host::sum_of_squares(table.data(), table.size())));

  // A part of a tensor whose rows are split and padded, so that its runs are short.
  heddle::index_map map{
      .rank = 3, .extent = {60, 10, 30}, .valid = {60, 9, 30}, .stride = {20 * 30, 30, 1}, .origin = 300};
  std::vector<T> random(map.size());
  host::fill_normal(random.data(), map, {.seed = 7}, 0.5, 2);
  keep(random);
  host::dropout(random.data(), random.data(), random.data(), map, {.seed = 8}, 0.25);
  keep(random);
  host::clear(random.data(), random.size());
  keep(random);
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("thread team: no primitive's bits depend on the number of threads", T, float, double) {
  auto const alone = everything<T>();
  CHECK(alone.size() > 1000000);
#ifdef __SANITIZE_ADDRESS__
  constexpr std::size_t teams[] = {
      3};  // what it looks for does not depend on the number, and it takes twenty times as long
#else
  constexpr std::size_t teams[] = {1, 2, 3, 8};
#endif
  for (auto size : teams)
    for (bool spins : {true, false}) {
      CAPTURE(size);
      thread_team const team(size, spins);
      CHECK(everything<T>() == alone);
    }
}

TEST_CASE("thread team: each part once, by a member, whatever was dealt before") {
  thread_team team(4);
  CHECK(team.size() == 4);
  for (std::size_t round = 0; round < 2000; ++round) {
    std::size_t const parts = 1 + round * 7 % 40;
    std::vector<std::atomic<int>> visits(parts);
    team.run(parts, [&](std::size_t part, std::size_t member) {
      CHECK(member < 4);
      ++visits[part];
    });
    CHECK(std::all_of(visits.begin(), visits.end(), [](auto const& n) { return n == 1; }));
  }
}

TEST_CASE("thread team: more threads work than the maker's") {
  thread_team team(2, false);
  std::atomic<std::size_t> inside{0};
  // Each part waits until both have begun: one thread alone would stay here.
  team.run(2, [&](std::size_t, std::size_t) {
    ++inside;
    while (inside.load() < 2) std::this_thread::yield();
  });
  CHECK(inside == 2);
}

TEST_CASE("thread team: what a part throws is thrown to the maker, once all have ended, and the team goes on") {
  thread_team team(3);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> ended{0};
    CHECK_THROWS_WITH_AS(team.run(12,
                                  [&](std::size_t part, std::size_t) {
                                    ++ended;
                                    if (part % 5 == 1) throw std::runtime_error("part");
                                  }),
                         "part", std::runtime_error);
    CHECK(ended == 12);
    team.run(5, [&](std::size_t, std::size_t) { ++ended; });
    CHECK(ended == 17);
  }
}

TEST_CASE("thread team: a primitive within a part is not dealt again; another thread has no team") {
  thread_team const team(2);
  CHECK(thread_team::of_this_thread() == &team);
  std::atomic<int> count{0};
  detail::deal(4, [&](std::size_t) {
    CHECK(thread_team::of_this_thread() == nullptr);
    detail::deal(3, [&](std::size_t) { ++count; });
  });
  CHECK(count == 12);
  std::thread([] { CHECK(thread_team::of_this_thread() == nullptr); }).join();
  {
    thread_team const inner(3);
    CHECK(thread_team::of_this_thread() == &inner);
    thread_team const one(1);
    CHECK(thread_team::of_this_thread() == nullptr);
  }
  CHECK(thread_team::of_this_thread() == &team);
}

TEST_CASE("thread team: ranges cover all elements once and begin at multiples of the grain") {
  thread_team const team(2);
  for (auto n : sizes{0, 1, 9, 10, 11, 4096, 100000}) {
    std::vector<std::atomic<int>> visits(n);
    detail::deal_ranges(n, 10, [&](std::size_t begin, std::size_t end) {
      CHECK(begin % 10 == 0);
      CHECK(begin < end);
      for (std::size_t i = begin; i < end; ++i) ++visits[i];
    });
    CHECK(std::all_of(visits.begin(), visits.end(), [](auto const& once) { return once == 1; }));
  }
}

TEST_CASE("thread team: a size that means nothing is refused") {
  CHECK_THROWS_WITH_AS(thread_team(0), doctest::Contains("'size' is 0"), heddle::error);
}

TEST_CASE("products are cut into parts that cover them, and not into crumbs") {
  for (auto m : sizes{1, 64, 128, 256, 768, 1024, 50257})
    for (auto n : sizes{1, 65, 128, 384, 768, 3072, 50257})
      for (auto k : sizes{1, 128, 768, 50257}) {
        auto const part = detail::cut_product(m, n, k);
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        CHECK((part.rows >= 1 && part.columns >= 1 && part.columns <= 2064));
        CHECK((part.rows >= m || part.rows >= 64));
        CHECK((part.columns >= n || part.columns >= 192));
        if (m * n * k <= (1U << 22) && n <= 2048) CHECK((part.rows == m && part.columns == n));
      }
}
