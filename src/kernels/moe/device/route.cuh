// Routing on the device: the experts of every token, and from them the lists that the grouped
// products, gather and combine go by. One launch from ids or for few tokens, otherwise two;
// nothing returns to the host. The lists depend on ids alone, not on the order in which anything
// runs.
#pragma once

#include "kernels/moe/device/route_top_k.cuh"
#include "kernels/ptx/griddepcontrol.cuh"

namespace nibble {

template <MoeShape kShape>
NIBBLE_DEVICE void route_top_k(const RouteTopK& params) {
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t token = int64_t{blockIdx.x} * (kTopKThreads / 32) + threadIdx.x / 32;
  if (token < params.tokens) route_token<kShape>(params, token, lane);
}

// What one block knows of all experts.
template <MoeShape kShape>
struct TablesShared {
  static constexpr int kWarps = kTablesThreads / 32;

  int before[kShape.experts];  // choices of an expert before the block's own; then its next slot
  int rest[kShape.experts];    // the others
  int warp_sums[3][kWarps];
  uint8_t in_warp[kWarps][kShape.experts];  // of the choices that a warp places in this round
};

struct Sums {
  int slots;
  int tiles_a;
  int tiles_b;
  NIBBLE_DEVICE void add(const Sums& other) {
    slots += other.slots;
    tiles_a += other.tiles_a;
    tiles_b += other.tiles_b;
  }
};

NIBBLE_DEVICE Sums sums_of(int count, const RouteTables& params) {
  return {(count + kSlotGroup - 1) / kSlotGroup * kSlotGroup,
          (count + params.tile_a - 1) / params.tile_a, (count + params.tile_b - 1) / params.tile_b};
}

// Every block counts all choices itself: reading them from the L2 cache again costs less than
// blocks that wait for each other.
template <MoeShape kShape>
NIBBLE_DEVICE void count_choices(const RouteTables& params, int choices, int begin,
                                 TablesShared<kShape>& shared) {
  constexpr int kInFlight = 16;
  const int thread = static_cast<int>(threadIdx.x);
  for (int expert = thread; expert < kShape.experts; expert += kTablesThreads) {
    shared.before[expert] = 0;
    shared.rest[expert] = 0;
#pragma unroll
    for (auto& in_warp : shared.in_warp) in_warp[expert] = 0;
  }
  __syncthreads();
  for (int first = 0; first < choices; first += kInFlight * kTablesThreads) {
    int ids[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int choice = first + i * kTablesThreads + thread;
      ids[i] = choice < choices ? params.ids[choice] : -1;
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (static_cast<uint32_t>(ids[i]) >= kShape.experts) continue;
      const int choice = first + i * kTablesThreads + thread;
      atomicAdd(choice < begin ? &shared.before[ids[i]] : &shared.rest[ids[i]], 1);
    }
  }
  __syncthreads();
}

// The sums of all threads before this one.
NIBBLE_DEVICE Sums sums_before(const Sums& own, int (&warp_sums)[3][kTablesThreads / 32]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  Sums inclusive = own;
#pragma unroll
  for (uint32_t distance = 1; distance < 32; distance *= 2) {
    const Sums left{__shfl_up_sync(kAllLanes, inclusive.slots, distance),
                    __shfl_up_sync(kAllLanes, inclusive.tiles_a, distance),
                    __shfl_up_sync(kAllLanes, inclusive.tiles_b, distance)};
    if (lane >= static_cast<int>(distance)) inclusive.add(left);
  }
  if (lane == 31) {
    warp_sums[0][warp] = inclusive.slots;
    warp_sums[1][warp] = inclusive.tiles_a;
    warp_sums[2][warp] = inclusive.tiles_b;
  }
  __syncthreads();
  Sums before{inclusive.slots - own.slots, inclusive.tiles_a - own.tiles_a,
              inclusive.tiles_b - own.tiles_b};
#pragma unroll
  for (int other = 0; other < kTablesThreads / 32; ++other) {
    if (other < warp) {
      before.add({warp_sums[0][other], warp_sums[1][other], warp_sums[2][other]});
    }
  }
  return before;
}

// An expert's own lines of the tables, by one thread; its padding by one of the blocks.
template <MoeShape kShape>
NIBBLE_DEVICE void write_expert(const RouteTables& params, int expert, int count,
                                const Sums& before) {
  if (blockIdx.x == 0) {
    params.counts[expert] = count;
    params.offsets[expert] = before.slots;
    params.tiles_a[expert] = before.tiles_a;
    params.tiles_b[expert] = before.tiles_b;
  }
  if (static_cast<uint32_t>(expert) % gridDim.x != blockIdx.x) return;
  const int slots = sums_of(count, params).slots;
  for (int slot = before.slots + count; slot < before.slots + slots; ++slot) {
    params.slot_token[slot] = -1;
    params.slot_weight[slot] = 0;
  }
}

// Turns counts into places: shared.before becomes the slot of an expert's first choice in this
// block.
template <MoeShape kShape>
NIBBLE_DEVICE void write_experts(const RouteTables& params, TablesShared<kShape>& shared) {
  constexpr int kPerThread = (kShape.experts + kTablesThreads - 1) / kTablesThreads;
  const int first = static_cast<int>(threadIdx.x) * kPerThread;
  int counts[kPerThread];
  Sums own{};
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int expert = first + i;
    counts[i] = expert < kShape.experts ? shared.before[expert] + shared.rest[expert] : 0;
    own.add(sums_of(counts[i], params));
  }
  Sums before = sums_before(own, shared.warp_sums);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int expert = first + i;
    if (expert >= kShape.experts) break;
    write_expert<kShape>(params, expert, counts[i], before);
    shared.before[expert] += before.slots;
    before.add(sums_of(counts[i], params));
    if (expert == kShape.experts - 1 && blockIdx.x == 0) {
      params.offsets[kShape.experts] = before.slots;
      params.tiles_a[kShape.experts] = before.tiles_a;
      params.tiles_b[kShape.experts] = before.tiles_b;
    }
  }
}

// Places the block's own choices, in order: within a warp by lane, then by warp, then by round.
template <MoeShape kShape>
NIBBLE_DEVICE void place_choices(const RouteTables& params, int begin, int end,
                                 TablesShared<kShape>& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  for (int first = begin; first < end; first += kTablesThreads) {
    const int choice = first + static_cast<int>(threadIdx.x);
    const int id = choice < end ? params.ids[choice] : -1;
    const float weight = choice < end ? params.weights[choice] : 0.0F;
    const bool valid = static_cast<uint32_t>(id) < kShape.experts;
    const uint32_t same = __match_any_sync(kAllLanes, valid ? id : -1);
    const int rank = __popc(same & ((1U << lane) - 1));
    const bool leads = valid && rank == 0;
    if (leads) shared.in_warp[warp][id] = static_cast<uint8_t>(__popc(same));
    __syncthreads();  // and what write_experts() or the last round made of shared.before
    if (valid) {
      int slot = shared.before[id] + rank;
#pragma unroll
      for (int other = 0; other < kTablesThreads / 32 - 1; ++other) {
        if (other < warp) slot += shared.in_warp[other][id];
      }
      params.slot_token[slot] = choice / kShape.top_k;
      params.slot_weight[slot] = weight;
      params.choice_slot[choice] = slot;
    } else if (choice < end) {
      params.choice_slot[choice] = -1;
      atomicAdd(params.dropped, 1);
    }
    __syncthreads();
    if (leads) {
      atomicAdd(&shared.before[id], __popc(same));
      shared.in_warp[warp][id] = 0;
    }
    __syncwarp();  // the next round's lane may be another
  }
}

NIBBLE_DEVICE void clear_flags(uint32_t* flags, int count) {
  const int stride = static_cast<int>(gridDim.x) * kTablesThreads;
  for (int i = static_cast<int>(blockIdx.x * kTablesThreads + threadIdx.x); i < count;
       i += stride) {
    flags[i] = 0;
  }
}

template <MoeShape kShape>
NIBBLE_DEVICE void write_tables(const RouteTables& params) {
  __shared__ TablesShared<kShape> shared;
  const int choices = params.tokens * kShape.top_k;
  const int share = static_cast<int>(choices_per_block(choices, gridDim.x));
  const int64_t block_begin = int64_t{blockIdx.x} * share;
  const int begin = static_cast<int>(block_begin < choices ? block_begin : choices);
  const int end = choices - begin < share ? choices : begin + share;
  clear_flags(params.flags_a, params.flags_a_count);
  clear_flags(params.flags_b, params.flags_b_count);
  count_choices<kShape>(params, choices, begin, shared);
  write_experts<kShape>(params, shared);
  place_choices<kShape>(params, begin, end, shared);
}

template <MoeShape kShape>
NIBBLE_DEVICE void route_tables(const RouteTables& params) {
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  write_tables<kShape>(params);
}

// Both, by one block: is_fused_route().
template <MoeShape kShape>
NIBBLE_DEVICE void route_fused(const RouteTopK& top_k, const RouteTables& tables) {
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int64_t token = threadIdx.x / 32; token < top_k.tokens; token += kTablesThreads / 32) {
    route_token<kShape>(top_k, token, lane);
  }
  __syncthreads();  // the block's own ids and weights are read again
  write_tables<kShape>(tables);
}

}  // namespace nibble
