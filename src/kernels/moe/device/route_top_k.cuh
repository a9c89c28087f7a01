// Top-k of one token by one warp, with the rules of kernels/moe/router.h and the CPU's bits. Lane l
// holds experts l, l + 32, l + 64 ...
#pragma once

#include "kernels/moe/device/moe_shape.h"
#include "kernels/moe/device/route_math.cuh"

namespace nibble {

template <MoeShape kShape>
struct TokenScores {
  static constexpr int kExperts = kShape.experts;
  static constexpr int kTopK = kShape.top_k;
  static constexpr int kPerLane = (kExperts + 31) / 32;
  static constexpr int kGroupSize = kExperts / kShape.groups;

  uint32_t key[kPerLane];  // what chooses, ascending; 0: no candidate
  float score[kPerLane];   // what weighs
  int lane;

  NIBBLE_DEVICE int expert(int j) const { return 32 * j + lane; }
  NIBBLE_DEVICE int group(int j) const {
    if constexpr (kGroupSize % 32 == 0) return 32 * j / kGroupSize;
    return expert(j) / kGroupSize;
  }

  float largest = 0;  // of softmax: the largest logit

  // False: no numbers to choose by.
  NIBBLE_DEVICE bool load(const RouteTopK& params, int64_t token) {
    if (!load_logits(params, token)) return false;
    if constexpr (kShape.sigmoid) {
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) score[j] = sigmoid(score[j]);
    } else if constexpr (!kShape.softmax_after_top_k) {
      softmax();
    }
    if constexpr (kShape.correction_bias) add_correction(params.correction_bias);
    return true;
  }

  // What is needed to choose, which is less where logits choose; scores are then logits.
  NIBBLE_DEVICE bool load_keys(const RouteTopK& params, int64_t token) {
    if constexpr (kShape.correction_bias) return load(params, token);
    return load_logits(params, token);
  }

  NIBBLE_DEVICE bool load_logits(const RouteTopK& params, int64_t token) {
    bool nan = false;
    uint32_t largest_key = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const bool exists = expert(j) < kExperts;
      float logit = exists ? params.logits[token * kExperts + expert(j)] : -kInfinite;
      if (exists && params.linear_bias != nullptr) {
        logit = __fadd_rn(logit, params.linear_bias[expert(j)]);
      }
      nan = nan || is_nan(logit);
      score[j] = logit;
      key[j] = exists ? ascending(logit) : 0U;
      largest_key = largest_key > key[j] ? largest_key : key[j];
    }
    if (__any_sync(kAllLanes, nan)) return false;
    if constexpr (!kShape.sigmoid) {
      largest = from_ascending(__reduce_max_sync(kAllLanes, largest_key));
      if (!is_finite(largest)) return false;
    }
    return true;
  }

  NIBBLE_DEVICE void softmax() {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) score[j] = exponential(__fsub_rn(score[j], largest));
    const float sum = sum_of_lanes<kPerLane>([this](int j) { return score[j]; });
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) score[j] = __fdiv_rn(score[j], sum);
  }

  // Without a bias the logits choose: they tell apart what has the same score after rounding.
  NIBBLE_DEVICE void add_correction(const float* bias) {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (expert(j) < kExperts) key[j] = ascending(__fadd_rn(score[j], bias[expert(j)]));
    }
  }

  // The key of a group: its two best experts together, or its best one.
  NIBBLE_DEVICE uint32_t group_key(int wanted) const {
    uint32_t best = 0;
    uint32_t second = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (expert(j) >= kExperts || group(j) != wanted) continue;
      if (key[j] > best) {
        second = best;
        best = key[j];
      } else if (key[j] > second) {
        second = key[j];
      }
    }
    const uint32_t most = __reduce_max_sync(kAllLanes, best);
    if constexpr (!kShape.correction_bias || kGroupSize == 1) return most;
    const int owner = __ffs(static_cast<int>(__ballot_sync(kAllLanes, best == most))) - 1;
    const uint32_t next = __reduce_max_sync(kAllLanes, lane == owner ? second : best);
    return ascending(__fadd_rn(from_ascending(most), from_ascending(next)));
  }

  // Takes away the experts of all but the best groups. Lane l has groups l, l + 32 ...
  NIBBLE_DEVICE void keep_best_groups() {
    constexpr int kGroupsPerLane = (kShape.groups + 31) / 32;
    uint32_t group_keys[kGroupsPerLane] = {};
    for (int g = 0; g < kShape.groups; ++g) {
      const uint32_t found = group_key(g);
#pragma unroll
      for (int i = 0; i < kGroupsPerLane; ++i) {
        if (32 * i + lane == g) group_keys[i] = found;
      }
    }
    uint64_t kept = 0;  // bit j: expert(j) stays; kPerLane <= 48
    for (int rank = 0; rank < kShape.top_groups; ++rank) {
      const int best = take_best(group_keys);
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) {
        if (group(j) == best) kept |= uint64_t{1} << j;
      }
    }
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if ((kept >> j & 1) == 0) key[j] = 0;
    }
  }

  // The index of the largest of all lanes' keys, of equals the lowest; it is then no candidate.
  template <int kCount>
  NIBBLE_DEVICE int take_best(uint32_t (&keys)[kCount]) const {
    uint32_t best = 0;
    int index = lane;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (keys[j] > best) {
        best = keys[j];
        index = 32 * j + lane;
      }
    }
    const uint32_t most = __reduce_max_sync(kAllLanes, best);
    const auto mine = static_cast<uint32_t>(best == most ? index : 0x7fffffff);
    const int chosen = static_cast<int>(__reduce_min_sync(kAllLanes, mine));
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (32 * j + lane == chosen) keys[j] = 0;
    }
    return chosen;
  }

  // The score of an expert, which one lane has.
  NIBBLE_DEVICE float score_of(int chosen) const {
    // Masks: of a comparison with j the compiler would make an index, and move the scores to
    // memory.
    uint32_t bits = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const uint32_t mask = chosen / 32 == j ? ~0U : 0U;
      bits |= __builtin_bit_cast(uint32_t, score[j]) & mask;
    }
    return __builtin_bit_cast(float, __shfl_sync(kAllLanes, bits, chosen % 32));
  }
};

// The chosen experts of one token, best first: lane l has choices l, l + 32 ...
template <MoeShape kShape>
struct TokenChoices {
  static constexpr int kTopK = kShape.top_k;
  static constexpr int kPerLane = (kTopK + 31) / 32;

  int id[kPerLane];
  float weight[kPerLane];
  int lane;

  NIBBLE_DEVICE void set(int choice, int expert, float raw) {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (32 * j + lane != choice) continue;
      id[j] = expert;
      weight[j] = raw;
    }
  }

  // Of the chosen logits.
  NIBBLE_DEVICE void softmax() {
    const float largest = __shfl_sync(kAllLanes, weight[0], 0);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const bool is_choice = 32 * j + lane < kTopK;
      weight[j] = is_choice ? exponential(__fsub_rn(weight[j], largest)) : 0.0F;
    }
    const float sum = sum_of_lanes<kPerLane>([this](int j) { return weight[j]; });
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) weight[j] = __fdiv_rn(weight[j], sum);
  }

  // In the order of choice.
  NIBBLE_DEVICE float sum() const {
    float total = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const int count = kTopK - 32 * j < 32 ? kTopK - 32 * j : 32;
      for (int from = 0; from < count; ++from) {
        total = __fadd_rn(total, __shfl_sync(kAllLanes, weight[j], from));
      }
    }
    return total;
  }

  // From scores to weights. What the CPU adds to their sum is kLeastSum.
  NIBBLE_DEVICE void finish(float scaling_factor) {
    constexpr float kLeastSum = 1e-20F;
    if constexpr (kShape.softmax_after_top_k) softmax();
    const float divisor = kShape.renormalise ? __fadd_rn(sum(), kLeastSum) : 1.0F;
#pragma unroll
    for (float& each : weight) each = __fmul_rn(__fdiv_rn(each, divisor), scaling_factor);
  }

  NIBBLE_DEVICE void store_ids(int* ids) const {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (32 * j + lane < kTopK) ids[32 * j + lane] = id[j];
    }
  }
  NIBBLE_DEVICE void store_weights(float* weights) const {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (32 * j + lane < kTopK) weights[32 * j + lane] = weight[j];
    }
  }
};

// The experts of one token, best first, without their weights. By one whole warp.
template <MoeShape kShape>
NIBBLE_DEVICE void choose_experts(const RouteTopK& params, int64_t token, int lane) {
  TokenScores<kShape> scores;
  scores.lane = lane;
  const bool numbers = scores.load_keys(params, token);
  if constexpr (kShape.top_groups != kShape.groups) {
    if (numbers) scores.keep_best_groups();
  }
#pragma unroll 1
  for (int choice = 0; choice < kShape.top_k; ++choice) {
    const int chosen = numbers ? scores.take_best(scores.key) : choice;
    if (lane == 0) params.ids[token * kShape.top_k + choice] = chosen;
  }
}

// The weights of a token's experts in params.ids. By one whole warp.
template <MoeShape kShape>
NIBBLE_DEVICE void weigh_experts(const RouteTopK& params, int64_t token, int lane) {
  TokenScores<kShape> scores;
  TokenChoices<kShape> choices;
  scores.lane = lane;
  choices.lane = lane;
  const bool numbers = scores.load(params, token);
#pragma unroll 1
  for (int choice = 0; choice < kShape.top_k; ++choice) {
    const int chosen = params.ids[token * kShape.top_k + choice];
    const float nan = __builtin_bit_cast(float, 0x7fc00000U);
    choices.set(choice, chosen, numbers ? scores.score_of(chosen) : nan);
  }
  if (numbers) choices.finish(params.scaling_factor);
  choices.store_weights(params.weights + token * kShape.top_k);
}

// Experts and weights. By one whole warp.
template <MoeShape kShape>
NIBBLE_DEVICE void route_token(const RouteTopK& params, int64_t token, int lane) {
  constexpr int kTopK = kShape.top_k;
  TokenScores<kShape> scores;
  TokenChoices<kShape> choices;
  scores.lane = lane;
  choices.lane = lane;
  if (scores.load(params, token)) {
    if constexpr (kShape.top_groups != kShape.groups) scores.keep_best_groups();
    for (int choice = 0; choice < kTopK; ++choice) {
      const int chosen = scores.take_best(scores.key);
      choices.set(choice, chosen, scores.score_of(chosen));
    }
    choices.finish(params.scaling_factor);
  } else {
    for (int choice = 0; choice < kTopK; ++choice) {
      choices.set(choice, choice, __builtin_bit_cast(float, 0x7fc00000U));
    }
  }
  choices.store_ids(params.ids + token * kTopK);
  choices.store_weights(params.weights + token * kTopK);
}

}  // namespace nibble
