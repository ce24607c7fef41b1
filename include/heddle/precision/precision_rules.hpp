// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/precision/precision.hpp>

namespace heddle::detail {

/// A power of two between 2^-64 and 2^64.
constexpr bool is_power_of_two(double x) {
  if (!(x > 0)) return false;
  for (int i = 0; i < 64 && x > 1; ++i) x /= 2;
  for (int i = 0; i < 64 && x < 1; ++i) x *= 2;
  return x == 1;
}

/// The sentences of `precision<Policy>`.
template <precision_policy Policy>
struct precision_rules {
  static constexpr dtype storage = Policy.storage, sums = Policy.accumulation;
  static_assert(storage != dtype::tfloat32,
                "precision<Policy>: 'storage' must be a format of numbers at rest; tf32 is one of operands: give it as "
                "'compute', with fp32 as storage");
  static_assert(Policy.compute == storage || (storage == dtype::float32 && Policy.compute == dtype::tfloat32),
                "precision<Policy>: 'compute' must be 'storage', or tf32 where that is fp32, since operands are not "
                "stored again to be multiplied; leave it out, or store in the format to compute in");
  static_assert(sums == (storage == dtype::float64 ? dtype::float64 : dtype::float32),
                "precision<Policy>: 'accumulation' must be fp32, or fp64 where 'storage' is, since a sum of many "
                "narrower numbers stops growing; leave it out");
  static_assert(Policy.gradient == storage || Policy.gradient == sums,
                "precision<Policy>: 'gradient' must be 'storage' or 'accumulation'; give one of the two");
  static_assert(Policy.reduction == storage || Policy.reduction == sums,
                "precision<Policy>: 'reduction' must be 'storage' or 'accumulation'; give one of the two");
  static_assert(Policy.master == sums || Policy.master == dtype::float64,
                "precision<Policy>: 'master' must be 'accumulation' or fp64, since an update below half a step of a "
                "narrower weight would be rounded away each time; leave it out");
  static_assert(Policy.norms == sums,
                "precision<Policy>: 'norms' must be 'accumulation', since mean and variance are sums; leave it out");
  static_assert(Policy.logits == storage,
                "precision<Policy>: 'logits' must be 'storage', since the loss's gradient takes their place; their "
                "maximum, sums and logarithms are 'loss'; leave it out");
  static_assert(Policy.loss == sums,
                "precision<Policy>: 'loss' must be 'accumulation', since it is a sum over all tokens; leave it out");
  static constexpr loss_scale_policy scale = Policy.scale;
  static_assert(is_power_of_two(scale.initial) && is_power_of_two(scale.growth) && is_power_of_two(scale.backoff) &&
                    is_power_of_two(scale.least) && is_power_of_two(scale.most),
                "precision<Policy>: the members of 'scale' that are factors must be powers of two, so that scaling "
                "rounds nothing; give one nearby");
  static_assert(scale.least <= scale.initial && scale.initial <= scale.most && scale.growth >= 1 &&
                    scale.backoff <= 1 && scale.interval > 0 && scale.hysteresis > 0,
                "precision<Policy>: 'scale' must have least <= initial <= most, growth >= 1, backoff <= 1, and "
                "interval and hysteresis of at least 1; begin from dynamic_loss_scale");
  static_assert(scale.growth == 1 || scale.backoff < 1,
                "precision<Policy>: a 'scale' that grows must shrink, since it ends in an overflow that nothing meets; "
                "give backoff = 0.5, or growth = 1");
  static constexpr bool hold = true;
};

}  // namespace heddle::detail
