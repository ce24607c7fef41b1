// SPDX-License-Identifier: Apache-2.0
#include <heddle/plan/plan.hpp>

using namespace heddle;

template <precision_policy Policy>
struct of : plan<precision<Policy>> {};

#if defined(REJECT_STORED_TF32)  // expect: 'storage' must be a format of numbers at rest; tf32 is one of operands
// expect: give it as 'compute', with fp32 as storage
inline constexpr precision_policy wrong{.storage = dtype::tfloat32};
#elif defined(REJECT_COMPUTE_APART)   // expect: 'compute' must be 'storage', or tf32 where that is fp32
inline constexpr precision_policy wrong{.storage = dtype::float32, .compute = dtype::bfloat16};
#elif defined(REJECT_TF32_OF_BF16)    // expect: 'compute' must be 'storage', or tf32 where that is fp32
inline constexpr precision_policy wrong{.storage = dtype::bfloat16, .compute = dtype::tfloat32};
#elif defined(REJECT_NARROW_SUMS)     // expect: 'accumulation' must be fp32, or fp64 where 'storage' is
// expect: since a sum of many narrower numbers stops growing; leave it out
inline constexpr precision_policy wrong{.storage = dtype::bfloat16, .accumulation = dtype::bfloat16};
#elif defined(REJECT_GRADIENT)        // expect: 'gradient' must be 'storage' or 'accumulation'
inline constexpr precision_policy wrong{.storage = dtype::float16, .gradient = dtype::bfloat16};
#elif defined(REJECT_REDUCTION)       // expect: 'reduction' must be 'storage' or 'accumulation'
inline constexpr precision_policy wrong{.storage = dtype::float32, .reduction = dtype::bfloat16};
#elif defined(REJECT_NARROW_MASTER)   // expect: 'master' must be 'accumulation' or fp64
// expect: since an update below half a step of a narrower weight would be rounded away each time
inline constexpr precision_policy wrong{.storage = dtype::bfloat16, .master = dtype::bfloat16};
#elif defined(REJECT_NARROW_NORMS)    // expect: 'norms' must be 'accumulation', since mean and variance are sums
inline constexpr precision_policy wrong{.storage = dtype::bfloat16, .norms = dtype::bfloat16};
#elif defined(REJECT_WIDE_LOGITS)     // expect: 'logits' must be 'storage', since the loss's gradient takes their place
inline constexpr precision_policy wrong{.storage = dtype::bfloat16, .logits = dtype::float32};
#elif defined(REJECT_NARROW_LOSS)     // expect: 'loss' must be 'accumulation', since it is a sum over all tokens
inline constexpr precision_policy wrong{.storage = dtype::bfloat16, .loss = dtype::bfloat16};
#elif defined(REJECT_ODD_SCALE)       // expect: that are factors must be powers of two, so that scaling rounds nothing
inline constexpr precision_policy wrong{.storage = dtype::float16, .scale = {.initial = 1000, .most = 1024}};
#elif defined(REJECT_SCALE_BOUNDS)    // expect: 'scale' must have least <= initial <= most, growth >= 1, backoff <= 1
// expect: begin from dynamic_loss_scale
inline constexpr precision_policy wrong{.storage = dtype::float16, .scale = {.initial = 1024, .backoff = 0.5}};
#elif defined(REJECT_SCALE_INTERVAL)  // expect: and interval and hysteresis of at least 1
inline constexpr precision_policy wrong{.storage = dtype::float16, .scale = {.interval = 0}};
#elif defined(REJECT_SCALE_GROWS_ALONE)  // expect: a 'scale' that grows must shrink
// expect: give backoff = 0.5, or growth = 1
inline constexpr precision_policy wrong{.storage = dtype::float16, .scale = {.growth = 2, .most = 1024}};
#else
inline constexpr precision_policy wrong{
    .storage = dtype::float16,
    .gradient = dtype::float32,
    .master = dtype::float64,
    .scale = {
        .initial = 1024, .growth = 2, .backoff = 0.25, .interval = 10, .hysteresis = 2, .least = 0.5, .most = 4096}};
static_assert(Plan<of<fp32>> && Plan<of<fp64>> && Plan<of<tf32>> && Plan<of<bf16_mixed>> && Plan<of<fp16_mixed>>);
#endif
static_assert(of<wrong>::micro_batches == 1);
