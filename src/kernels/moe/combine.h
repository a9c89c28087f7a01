// The end of a layer: every token's experts, weighted and added up.
//
//   combine({.down = down, .slot_of = slot_of, .expert_of = expert_of, .weights = weights,
//            .bias = {}, .shared = {}, .top_k = 8, .hidden = 6144, .output = y}, isa, pool);
//
//   y[t] = sum over k of weights[t, k] * (down[slot_of[t, k]] + bias[expert]) + shared[t]
//
// Added in the order of k by fused multiply-adds: the same bits on every instruction set, for any
// batch and number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "machine/isa.h"

namespace nibble {

struct CombineParams {
  std::span<const float> down;              // [slots, hidden]
  std::span<const std::int32_t> slot_of;    // [tokens, top_k]
  std::span<const std::int32_t> expert_of;  // [slots]; only read when there is a bias
  std::span<const float> weights;           // [tokens, top_k]
  std::span<const float> bias;              // [experts, hidden], or empty
  std::span<const float> shared;            // [tokens, hidden], added last; or empty; may be output
  std::int64_t top_k = 0;
  std::int64_t hidden = 0;
  std::span<float> output;  // [tokens, hidden]
};

// Sizes that do not fit together are our caller's mistake (NIBBLE_CHECK). Does not allocate.
void combine(const CombineParams& params, Isa isa, ThreadPool& pool);

}  // namespace nibble
