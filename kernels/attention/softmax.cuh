// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <support/math.cuh>
#include <support/reduce.cuh>

/// The softmax of attention's scores, of which a thread has some of a row and `Lanes` neighbouring lanes the others.
namespace heddle::kernels::detail {

inline constexpr double log2_of_e = 1.44269504088896340736;

/// numerator/√HeadDim, rounded once: scores are multiplied by it, with numerator 1 or, for powers of two, log2 of e.
template <class A>
__device__ A score_scale(double numerator, int head_dim) {
  return A(numerator / ::sqrt(static_cast<double>(head_dim)));
}

/// Joins a value of `Lanes` neighbouring lanes in a fixed order; each has the result.
template <int Lanes, class A, class Join>
__device__ A lanes_reduce(A value, Join join) {
  HEDDLE_UNROLL
  for (int distance = Lanes / 2; distance > 0; distance /= 2)
    value = join(value, __shfl_xor_sync(all_lanes, value, distance));
  return value;
}
/// NaN on the left side is passed over: it comes back in the probabilities.
struct larger_of {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return a > b ? a : b;
  }
};

/// What is known of a row of scores after some tiles (Milakov and Gimelshein, arXiv 1805.02867): `sum` is this thread's
/// part of Σ exp(scale·(score - maximum)).
template <class A>
struct running_softmax {
  A maximum = -math::infinity<A>, sum = 0;

  /// Takes in the largest score of the next tile, of all lanes; gives the factor for what was summed before.
  __device__ A raise(A highest, A scale_log2) {
    A const before = maximum;
    maximum = larger_of{}(highest, maximum);
    A const factor = math::exp2((before - base()) * scale_log2);
    sum *= factor;
    return factor;
  }
  /// The probability of a score, but for the row's factor. The difference is exact where the score is near the
  /// maximum.
  __device__ A take(A score, A scale_log2) {
    A const p = math::exp2((score - base()) * scale_log2);
    sum += p;
    return p;
  }
  /// A row that sees nothing has maximum -infinity; its probabilities are 0.
  __device__ A base() const { return maximum == -math::infinity<A> ? A(0) : maximum; }
};

/// log_sum_exp of a row, and 1/Σ; -infinity and 0 of one that sees nothing.
template <class A>
__device__ A log_sum_of(A maximum, A sum, A scale) {
  return sum == A(0) ? -math::infinity<A> : maximum * scale + math::log(sum);
}
template <class A>
__device__ A inverse_of(A sum) {
  return sum == A(0) ? A(0) : A(1) / sum;
}

/// log_sum_exp as backward uses it: +infinity, which makes all probabilities 0, in rows that see nothing or are not
/// there.
template <class A>
__device__ A backward_log_sum(A const* log_sum_exp, int query, int queries) {
  A const there = query < queries ? log_sum_exp[query] : -math::infinity<A>;
  return there == -math::infinity<A> ? math::infinity<A> : there;
}

}  // namespace heddle::kernels::detail
