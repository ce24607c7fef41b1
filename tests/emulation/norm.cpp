// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/backend/host/norm.hpp>
#include <limits>
#include <norm/norm.cuh>
#include <string>
#include <support/geometry.cuh>
#include <vector>

#include "guarded.hpp"
#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using emulation::check_near;
using emulation::guarded;
using emulation::largest;
using emulation::launch;
using emulation::rounded;
using emulation::values;
using emulation::wide;

/// A norm's arguments and results. RMS norm has no beta and no mean.
template <class T>
struct problem {
  using A = wide<T>;
  std::size_t rows, width;
  std::vector<A> x, gamma, beta, dy, base;
  A epsilon = A(1e-5);

  problem(std::size_t r, std::size_t w, double spread, double centre = 0)
      : rows(r),
        width(w),
        x(values<T>(r * w, 1, spread)),
        gamma(values<T>(w, 2)),
        beta(values<T>(w, 3)),
        dy(values<T>(r * w, 4)),
        base(values<T>(r * w, 5)) {
    for (A& one : x) one += A(centre);
    x = rounded<T>(x);
  }
};
/// Results, in what T is computed with.
template <class T>
struct normalised {
  std::vector<wide<T>> y, mean, rstd;
};
template <class T>
struct gradients {
  std::vector<wide<T>> dx, dgamma, dbeta;
};
/// Gradients are added to what stood there.
constexpr int stood = 3;

template <class T>
normalised<T> on_host(problem<T> const& p, std::vector<wide<T>> const& x, bool centred, bool offset) {
  using A = wide<T>;
  normalised<T> out{std::vector<A>(x.size()), std::vector<A>(p.rows), std::vector<A>(p.rows)};
  if (centred)
    host::detail::layer_norm(p.rows, p.width, x.data(), p.gamma.data(), offset ? p.beta.data() : nullptr, p.epsilon,
                             out.y.data(), out.mean.data(), out.rstd.data());
  else
    host::detail::rms_norm(p.rows, p.width, x.data(), p.gamma.data(), p.epsilon, out.y.data(), out.rstd.data());
  return out;
}
template <class T>
gradients<T> on_host(problem<T> const& p, normalised<T> const& saved, bool centred, bool offset, bool onto) {
  using A = wide<T>;
  gradients<T> out{std::vector<A>(p.x.size()), std::vector<A>(p.width, A(stood)), std::vector<A>(p.width, A(stood))};
  A const* const base = onto ? p.base.data() : nullptr;
  if (centred)
    host::detail::layer_norm_backward(p.rows, p.width, p.x.data(), p.gamma.data(), saved.mean.data(), saved.rstd.data(),
                                      p.dy.data(), base, out.dx.data(), out.dgamma.data(),
                                      offset ? out.dbeta.data() : nullptr);
  else
    host::detail::rms_norm_backward(p.rows, p.width, p.x.data(), p.gamma.data(), saved.rstd.data(), p.dy.data(), base,
                                    out.dx.data(), out.dgamma.data());
  return out;
}

enum class place { own, of_x, of_dy, of_base };

template <int Threads, class T>
normalised<T> forward(problem<T> const& p, bool centred, bool offset, std::size_t shift, place to = place::own) {
  guarded<T> x(p.x, shift), gamma(p.gamma, shift), beta(p.beta, shift), y(p.x.size(), shift);
  guarded<wide<T>> mean(p.rows), rstd(p.rows);
  guarded<T>& out = to == place::of_x ? x : y;
  int const width = static_cast<int>(p.width);
  dim3 const grid = kernels::row_grid(p.rows);
  auto const run = [&]<bool Centred>() {
    launch<kernels::norm_forward<T, Centred, Threads>>(
        grid, dim3(Threads), nullptr, x.read(), gamma.read(), Centred && offset ? beta.read() : nullptr, p.epsilon,
        width, nullptr, out.data(), Centred ? mean.data() : nullptr, rstd.data());
  };
  centred ? run.template operator()<true>() : run.template operator()<false>();
  return {out.values(), mean.values(), rstd.values()};
}

/// `Gradient` is what the parameters' gradients are summed in.
template <int Threads, class Gradient, class T>
gradients<T> backward(problem<T> const& p, normalised<T> const& saved, bool centred, bool offset, bool onto, int parts,
                      std::size_t shift, place to = place::own) {
  using A = wide<T>;
  int const width = static_cast<int>(p.width);
  guarded<T> x(p.x, shift), gamma(p.gamma, shift), dy(p.dy, shift), base(p.base, shift), dx(p.x.size(), shift);
  guarded<A> mean(saved.mean), rstd(saved.rstd), gamma_part(kernels::parts_size(parts, width), shift),
      beta_part(kernels::parts_size(parts, width), shift);
  std::vector<A> const before(p.width, A(stood));
  guarded<Gradient> dgamma = guarded<Gradient>::sum(before, shift), dbeta = guarded<Gradient>::sum(before, shift);
  guarded<T>& out = to == place::of_x ? x : to == place::of_dy ? dy : to == place::of_base ? base : dx;
  long long const rows = static_cast<long long>(p.rows);
  T const* const term = onto ? base.read() : nullptr;
  auto const run = [&]<bool Centred>() {
    launch<kernels::norm_backward<T, Centred, Threads>>(
        kernels::part_grid(parts), dim3(Threads), x.read(), gamma.read(), Centred ? mean.read() : nullptr, rstd.read(),
        dy.read(), term, rows, width, out.data(), gamma_part.data(), Centred && offset ? beta_part.data() : nullptr);
  };
  centred ? run.template operator()<true>() : run.template operator()<false>();
  dim3 const grid = kernels::add_parts_grid<Threads>(width);
  launch<kernels::add_parts<Gradient, Threads>>(grid, dim3(Threads), gamma_part.read(), parts, width, dgamma.data());
  if (centred && offset)
    launch<kernels::add_parts<Gradient, Threads>>(grid, dim3(Threads), beta_part.read(), parts, width, dbeta.data());
  for (guarded<A> const& part : {gamma_part, beta_part})
    CHECK(part.values().size() == kernels::parts_size(parts, width));
  return {out.values(), dgamma.values(), dbeta.values()};
}

/// y is x less the mean, which is rounded where the mean lies, times rstd; no gain here is above 1.
template <class T>
void check_same(normalised<T> const& got, normalised<T> const& expected, bool centred, double ulps = 32) {
  check_near<T>(got.y, expected.y, ulps, centred ? largest(expected.mean) * largest(expected.rstd) : 0);
  if (centred) check_near<wide<T>>(got.mean, expected.mean, ulps);
  check_near<wide<T>>(got.rstd, expected.rstd, ulps);
}

template <class T, int Threads, class Gradient = wide<T>>
void check_norm(std::size_t rows, std::size_t width, int parts, double spread = 1, double centre = 0) {
  problem<T> const p(rows, width, spread, centre);
  for (int kind = 0; kind < 3; ++kind) {
    bool const centred = kind > 0, offset = kind > 1;
    CAPTURE(rows);
    CAPTURE(width);
    CAPTURE(Threads);
    CAPTURE(kind);
    normalised<T> const expected = on_host(p, p.x, centred, offset);
    normalised<T> const got = forward<Threads>(p, centred, offset, 0);
    check_same(got, expected, centred);
    normalised<T> const shifted = forward<Threads>(p, centred, offset, 1);  // one by one: the same bits
    CHECK(shifted.y == got.y);
    CHECK(shifted.rstd == got.rstd);
    CHECK(forward<Threads>(p, centred, offset, 0, place::of_x).y == got.y);
    for (bool const onto : {false, true}) {
      CAPTURE(onto);
      gradients<T> const wanted = on_host(p, expected, centred, offset, onto);
      gradients<T> const found = backward<Threads, Gradient>(p, expected, centred, offset, onto, parts, 0);
      // In a row of one element all that it is made of cancels.
      check_near<T>(found.dx, wanted.dx, 32,
                    width == 1 ? largest(expected.rstd) * largest(p.dy) * largest(p.gamma) : 0);
      check_near<Gradient>(found.dgamma, wanted.dgamma);
      check_near<Gradient>(found.dbeta, wanted.dbeta);
      gradients<T> const aside = backward<Threads, Gradient>(p, expected, centred, offset, onto, parts, 1);
      CHECK(aside.dx == found.dx);
      CHECK(aside.dgamma == found.dgamma);
      CHECK(aside.dbeta == found.dbeta);
    }
  }
}

/// dx in the place of an input, and parameters' sums that do not depend on the block size.
template <class T>
void check_places() {
  problem<T> const p(7, 50, 1);
  for (bool const centred : {false, true}) {
    normalised<T> const saved = on_host(p, p.x, centred, true);
    gradients<T> const apart = backward<64, wide<T>>(p, saved, centred, true, true, 3, 0);
    for (place const to : {place::of_x, place::of_dy, place::of_base}) {
      gradients<T> const found = backward<64, wide<T>>(p, saved, centred, true, true, 3, 0, to);
      CHECK(found.dx == apart.dx);
      CHECK(found.dgamma == apart.dgamma);
      CHECK(found.dbeta == apart.dbeta);
    }
    gradients<T> const other = backward<160, wide<T>>(p, saved, centred, true, true, 3, 0);
    CHECK(other.dgamma == apart.dgamma);
    CHECK(other.dbeta == apart.dbeta);
  }
}

/// The sum as one adds it, and the norm of it with the bits that the norm alone gives. s in the place of base, and y in
/// that of x, too.
template <class T, bool Centred, int Threads>
void check_residual(std::size_t rows, std::size_t width, std::size_t shift) {
  using A = wide<T>;
  std::size_t const n = rows * width;
  guarded<T> const gamma(values<T>(width, 2), shift), offset(values<T>(width, 3), shift);
  T const* const beta = Centred ? offset.read() : nullptr;
  std::vector<A> const base = values<T>(n, 5), x = values<T>(n, 1, 4);
  std::vector<A> sum(n);
  for (std::size_t i = 0; i < n; ++i) sum[i] = base[i] + x[i];
  sum = rounded<T>(sum);
  for (bool const in_place : {false, true}) {
    CAPTURE(width);
    CAPTURE(Centred);
    CAPTURE(in_place);
    guarded<T> base_in(base, shift), x_in(x, shift), s_out(n, shift), y_out(n, shift), alone(n, shift);
    guarded<A> mean(rows), rstd(rows), mean_alone(rows), rstd_alone(rows);
    guarded<T>&s = in_place ? base_in : s_out, &y = in_place ? x_in : y_out;
    dim3 const grid = kernels::row_grid(rows);
    int const w = static_cast<int>(width);
    launch<kernels::norm_forward<T, Centred, Threads>>(grid, dim3(Threads), base_in.read(), x_in.read(), gamma.read(),
                                                       beta, A(1e-5), w, s.data(), y.data(), mean.data(), rstd.data());
    launch<kernels::norm_forward<T, Centred, Threads>>(grid, dim3(Threads), nullptr, s.read(), gamma.read(), beta,
                                                       A(1e-5), w, nullptr, alone.data(), mean_alone.data(),
                                                       rstd_alone.data());
    if (Centred) CHECK(mean.values() == mean_alone.values());
    CHECK(s.values() == sum);
    CHECK(y.values() == alone.values());
    CHECK(rstd.values() == rstd_alone.values());
  }
}
template <class T, int Threads>
void check_residuals(std::size_t rows, std::size_t width, std::size_t shift) {
  check_residual<T, true, Threads>(rows, width, shift);
  check_residual<T, false, Threads>(rows, width, shift);
}

}  // namespace

TEST_CASE("norms: widths below, at and beside a multiple of the block; shares of the rows; both ways of access") {
  for (std::size_t const width : {1, 31, 32, 33, 128, 257}) {
    check_norm<float, 32>(3, width, 2);
    check_norm<float, 128>(2, width, 1);
    check_norm<double, 64>(5, width, 3);
  }
  check_norm<float, 32>(1, 260, 1);
  check_norm<double, 32>(9, 4, 9);
  check_norm<float, 64>(40, 12, 11);
  check_norm<double, 256>(2, 1030, 5, 1e3);  // fewer rows than blocks
}
TEST_CASE("norms in bfloat16 and half: computed in float, rounded once, gradients summed in either type") {
  for (std::size_t const width : {1, 7, 33, 64, 257}) {
    check_norm<__nv_bfloat16, 32>(3, width, 2);
    check_norm<__half, 64>(5, width, 3);
  }
  check_norm<__nv_bfloat16, 32, __nv_bfloat16>(9, 24, 4);
  check_norm<__half, 32, __half>(9, 24, 4);
  check_places<__nv_bfloat16>();
  check_places<__half>();
}
TEST_CASE("norms far from zero: the variance does not cancel") {
  check_norm<double, 64>(2, 500, 1, 1, 1e6);
  problem<float> const p(2, 512, 1, 4096);
  normalised<double> const exact = on_host<double>(
      [&] {
        problem<double> same(2, 512, 1);
        for (std::size_t i = 0; i < p.x.size(); ++i) same.x[i] = static_cast<double>(p.x[i]);
        same.epsilon = static_cast<double>(p.epsilon);
        return same;
      }(),
      std::vector<double>(p.x.begin(), p.x.end()), true, false);
  normalised<float> const got = forward<64>(p, true, false, 0);
  // The mean is right to half a rounding of 4096, 2.4e-4; variance 1/3 makes that 4e-4 of y.
  for (std::size_t i = 0; i < got.y.size(); ++i) CHECK(std::fabs(static_cast<double>(got.y[i]) - exact.y[i]) < 5e-4);
}
TEST_CASE("norms: gradients in the place of an input, and sums over rows that no block size changes") {
  check_places<float>();
  check_places<double>();
}
TEST_CASE("norms of NaN, infinity, a constant and what overflows when squared: as on the host, and in that row alone") {
  problem<float> p(7, 45, 1);
  float const infinity = std::numeric_limits<float>::infinity();
  p.x[45 * 1 + 7] = std::numeric_limits<float>::quiet_NaN();
  p.x[45 * 3 + 40] = infinity;
  p.x[45 * 4 + 44] = -infinity;
  for (std::size_t i = 0; i < 45; ++i) {
    p.x[45 * 2 + i] = 0.5F;
    p.x[45 * 5 + i] = i % 2 == 0 ? 1e20F : -1e20F;
  }
  for (bool const centred : {false, true}) {
    normalised<float> const expected = on_host(p, p.x, centred, true), got = forward<32>(p, centred, true, 0);
    check_same(got, expected, centred);
    for (std::size_t const row : {0, 2, 6})
      for (std::size_t i = 0; i < 45; ++i) CHECK(std::isfinite(got.y[45 * row + i]));
    CHECK(std::isnan(got.y[45 + 7]));
    CHECK(std::isnan(got.y[45 + 8]));
    gradients<float> const wanted = on_host(p, expected, centred, true, false);
    for (std::size_t const shift : {0, 1}) {
      gradients<float> const found = backward<32, float>(p, expected, centred, true, false, 2, shift);
      check_near<float>(found.dx, wanted.dx);
      check_near<float>(found.dgamma, wanted.dgamma);
    }
    CHECK(std::isfinite(wanted.dx[0]));
  }
}
TEST_CASE("a norm of the sum with a residual: of the sum as stored, which a narrow type rounds") {
  for (std::size_t const width : {1, 33, 64, 257})
    for (std::size_t const shift : {0, 1}) {
      check_residuals<float, 32>(2, width, shift);
      check_residuals<double, 64>(2, width, shift);
      check_residuals<__nv_bfloat16, 32>(2, width, shift);
      check_residuals<__half, 64>(2, width, shift);
    }
}
