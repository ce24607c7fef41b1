// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/layout/name.hpp>

namespace heddle {

// The axes that the default rules speak of. A user may declare and use any others.
struct dp : axis_name<"dp"> {};                      ///< data parallelism
struct dp_replicate : axis_name<"dp_replicate"> {};  ///< replicas of data-parallel groups that share their state
struct pp : axis_name<"pp"> {};                      ///< pipeline parallelism
struct tp : axis_name<"tp"> {};                      ///< tensor (and sequence) parallelism
struct ep : axis_name<"ep"> {};                      ///< expert parallelism
struct cp : axis_name<"cp"> {};                      ///< context parallelism

// The dimensions of the models that come with the library.
struct batch : dim_name<"batch"> {};        ///< sequences of a micro-batch, over all data ranks
struct sequence : dim_name<"sequence"> {};  ///< positions
struct layers : dim_name<"layers"> {};      ///< copies of a repeated block
struct embed : dim_name<"embed"> {};        ///< width of the residual stream
struct mlp : dim_name<"mlp"> {};            ///< hidden width of the feed-forward network
struct vocab : dim_name<"vocab"> {};        ///< token identities
struct heads : dim_name<"heads"> {};        ///< key/value heads; each serves `group` query heads
struct group : dim_name<"group"> {};        ///< query heads that share one key/value head
struct qkv : dim_name<"qkv"> {};            ///< of one key/value head: `group` queries, a key, a value
struct head_dim : dim_name<"head_dim"> {};  ///< width of one head
struct gate_up : dim_name<"gate_up"> {};    ///< the two halves of a gated feed-forward network

}  // namespace heddle
