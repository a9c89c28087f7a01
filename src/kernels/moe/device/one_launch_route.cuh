// What every block of the launch that is a whole layer knows of its routing: the experts of the few
// tokens, chosen by each block again, since that costs less than a launch or a barrier. The tables
// depend on ids alone, and are the same in every block.
#pragma once

#include "kernels/moe/device/one_launch_params.h"
#include "kernels/moe/device/route_top_k.cuh"

namespace nibble {

// In shared memory. Activated values stand in rows, [expert][token], experts without tokens left
// out.
struct OneLaunchRouting {
  uint32_t* masks;     // [experts]: bit t: token t has chosen it
  int32_t* bases;      // [experts]: its first row
  int32_t* passes;     // [choices]: of_pass(); an expert once for every eight tokens
  int32_t* actives;    // [choices]: experts that have tokens
  float* weights;      // [choices]: of a row
  float* factors;      // [choices]: the same times down's alpha
  int* ids;            // [choices] in the order of choice; -1: none
  float* given;        // [choices]: their weights
  uint32_t* sums;      // [warps]
  int32_t* totals;     // passes, actives

  NIBBLE_DEVICE static OneLaunchRouting at(uint32_t* words, OneLaunchTables tables,
                                           int warps) {
    OneLaunchRouting routing;
    const auto take = [&words](int count) {
      uint32_t* const taken = words;
      words += count;
      return taken;
    };
    const auto integers = [&take](int count) { return reinterpret_cast<int32_t*>(take(count)); };
    const auto floats = [&take](int count) { return reinterpret_cast<float*>(take(count)); };
    routing.masks = take(tables.experts);
    routing.bases = integers(tables.experts);
    routing.passes = integers(tables.choices);
    routing.actives = integers(tables.choices);
    routing.weights = floats(tables.choices);
    routing.factors = floats(tables.choices);
    routing.ids = integers(tables.choices);
    routing.given = floats(tables.choices);
    routing.sums = take(warps);
    routing.totals = integers(2);
    return routing;
  }

  NIBBLE_DEVICE static int32_t of_pass(int expert, int group) { return expert | group << 16; }
  NIBBLE_DEVICE static int expert_of(int32_t pass) { return pass & 0xffff; }
  NIBBLE_DEVICE static int group_of(int32_t pass) { return pass >> 16; }
  // Of a token that has chosen the expert.
  NIBBLE_DEVICE int row_of(int expert, int token) const {
    return bases[expert] + __popc(masks[expert] & ((1U << token) - 1));
  }
};

// The token of the n-th bit, from 0 on; -1: there are not so many.
NIBBLE_DEVICE int nth_token(uint32_t mask, int n) {
#pragma unroll 1
  for (; n > 0; --n) mask &= mask - 1;
  return __ffs(static_cast<int>(mask)) - 1;
}

template <MoeShape kShape, int kThreads>
struct OneLaunchRoute {
  static constexpr int kExperts = kShape.experts;
  static constexpr int kTopK = kShape.top_k;
  static constexpr int kWarps = kThreads / 32;

  NIBBLE_DEVICE static void choose(const OneLaunchParams& params, const OneLaunchRouting& routing) {
    RouteTopK top_k = params.top_k;
    top_k.ids = routing.ids;
    top_k.weights = routing.given;
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
    for (int64_t token = threadIdx.x / 32; token < params.tokens; token += kWarps) {
      choose_experts<kShape>(top_k, token, lane);
    }
  }

  // Ids that are given may be no experts, or name one twice: that is then one choice with both
  // weights.
  NIBBLE_DEVICE static void take_given(const OneLaunchParams& params,
                                       const OneLaunchRouting& routing) {
    const int choice = static_cast<int>(threadIdx.x);
    const bool exists = choice < params.tokens * kTopK;
    int id = exists ? params.ids[choice] : -1;
    const bool valid = static_cast<uint32_t>(id) < kExperts;
    if (exists && !valid && blockIdx.x == 0) atomicAdd(params.dropped, 1);
    if (exists) {
      routing.ids[choice] = valid ? id : -1;
      routing.given[choice] = params.weights[choice];
    }
    __syncthreads();
    float weight = 0;
    bool first = valid;
    const int begin = choice / kTopK * kTopK;
#pragma unroll 1
    for (int other = begin; valid && other < begin + kTopK; ++other) {
      if (routing.ids[other] != id) continue;
      first = first && other >= choice;
      weight += routing.given[other];
    }
    __syncthreads();
    if (!exists) return;
    routing.ids[choice] = first ? id : -1;
    routing.given[choice] = weight;
  }

  // Passes, experts with tokens and rows before an expert, in one word: each is 512 at most.
  static constexpr int kBits = 10;
  static constexpr uint32_t kField = (1U << kBits) - 1;
  NIBBLE_DEVICE static uint32_t packed(uint32_t mask) {
    const auto count = static_cast<uint32_t>(__popc(mask));
    const uint32_t passes = (count + kSlotGroup - 1) / kSlotGroup;
    return passes | (count > 0 ? 1U : 0U) << kBits | count << (2 * kBits);
  }

  // The sum of all threads before this one.
  NIBBLE_DEVICE static uint32_t sum_before(uint32_t own, const OneLaunchRouting& routing) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x / 32);
    uint32_t inclusive = own;
#pragma unroll
    for (uint32_t distance = 1; distance < 32; distance *= 2) {
      const uint32_t left = __shfl_up_sync(kAllLanes, inclusive, distance);
      if (lane >= static_cast<int>(distance)) inclusive += left;
    }
    if (lane == 31) routing.sums[warp] = inclusive;
    __syncthreads();
    uint32_t before = inclusive - own;
#pragma unroll
    for (int other = 0; other < kWarps; ++other) {
      if (other < warp) before += routing.sums[other];
    }
    return before;
  }

  NIBBLE_DEVICE static void list(const OneLaunchParams& params, const OneLaunchRouting& routing) {
    constexpr int kPerThread = (kExperts + kThreads - 1) / kThreads;
    const int first = static_cast<int>(threadIdx.x) * kPerThread;
    uint32_t masks[kPerThread];
    uint32_t own = 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      masks[i] = first + i < kExperts ? routing.masks[first + i] : 0U;
      own += packed(masks[i]);
    }
    uint32_t before = sum_before(own, routing);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int expert = first + i;
      if (expert >= kExperts) break;
      const auto pass = static_cast<int>(before & kField);
      routing.bases[expert] = static_cast<int32_t>(before >> (2 * kBits));
      if (blockIdx.x == 0) params.counts[expert] = __popc(masks[i]);
      if (masks[i] != 0) routing.actives[before >> kBits & kField] = expert;
#pragma unroll 1
      for (int group = 0; group * kSlotGroup < __popc(masks[i]); ++group) {
        routing.passes[pass + group] = OneLaunchRouting::of_pass(expert, group);
      }
      before += packed(masks[i]);
    }
    if (threadIdx.x == kThreads - 1) {
      routing.totals[0] = static_cast<int32_t>(before & kField);
      routing.totals[1] = static_cast<int32_t>(before >> kBits & kField);
    }
  }

  // By all threads; what follows may read everything but weights and factors.
  NIBBLE_DEVICE static void run(const OneLaunchParams& params, const OneLaunchRouting& routing) {
    static_assert(kThreads >= kMostOneLaunchChoices, "a choice a thread");
#pragma unroll 1
    for (int expert = static_cast<int>(threadIdx.x); expert < kExperts; expert += kThreads) {
      routing.masks[expert] = 0;
    }
    if (params.top_k.logits != nullptr) {
      choose(params, routing);
    } else {
      take_given(params, routing);
    }
    __syncthreads();
    const int choice = static_cast<int>(threadIdx.x);
    const int id = choice < params.tokens * kTopK ? routing.ids[choice] : -1;
    if (id >= 0) atomicAdd(&routing.masks[id], 1U << (choice / kTopK));
    __syncthreads();
    list(params, routing);
    __syncthreads();
  }

  // Weights of all rows, when copies are under way: to be seen by others after the next barrier. A
  // token by the warp that has chosen for it.
  NIBBLE_DEVICE static void weigh(const OneLaunchParams& params, const OneLaunchRouting& routing) {
    RouteTopK top_k = params.top_k;
    top_k.ids = routing.ids;
    top_k.weights = routing.given;
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
    for (int token = static_cast<int>(threadIdx.x / 32); token < params.tokens; token += kWarps) {
      if (top_k.logits != nullptr) weigh_experts<kShape>(top_k, token, lane);
      __syncwarp();
#pragma unroll 1
      for (int choice = token * kTopK + lane; choice < (token + 1) * kTopK; choice += 32) {
        const int id = routing.ids[choice];
        if (id < 0) continue;
        const int row = routing.row_of(id, token);
        routing.weights[row] = routing.given[choice];
        routing.factors[row] = routing.given[choice] * params.down_alpha[2 * id];
      }
    }
  }
};

}  // namespace nibble
