// The ring of stages in shared memory, and the warp that copies weights and tokens into it.
#pragma once

#include "kernels/gemm/device/w4a16_params.h"
#include "kernels/gemm/device/w4a16_work.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace nibble {

template <class Config>
struct W4A16Copy : W4A16Work<Config> {
  using Work = W4A16Work<Config>;
  using typename Work::Cursor;
  using typename Work::Place;
  using typename Work::Tables;
  using Work::chunks_of_step;
  using Work::kBlocks;
  using Work::kBlockStage;
  using Work::kChunks;
  using Work::kGroupsOfTokens;
  using Work::kShared;
  using Work::kTactic;
  using Work::kTileBytes;
  using Work::kTokenStage;
  using Work::kWeights;
  using Work::kWeightStage;
  using Work::rank_of_block;

  struct Ring {
    uint32_t shared;
    NIBBLE_DEVICE uint32_t tokens(int stage) const { return shared + stage * kTokenStage; }
    NIBBLE_DEVICE uint32_t weights(int stage) const {
      return shared + kShared.weight_begin + stage * kWeightStage;
    }
    NIBBLE_DEVICE uint32_t full(int stage) const {
      return shared + kShared.barrier_begin + 8 * stage;
    }
    NIBBLE_DEVICE uint32_t empty(int stage) const { return full(stage) + 8 * kTactic.stages; }
  };

  NIBBLE_DEVICE static void wait(uint32_t barrier, uint32_t parity) {
    while (!ptx::mbarrier_wait_parity(barrier, parity)) {
    }
  }

  // Weights are read once and would push out of the second-level cache the tokens, which every row
  // tile reads again.
  struct Policies {
    uint64_t weights = 0;
    uint64_t tokens = 0;
  };

  NIBBLE_DEVICE static Policies policies() {
#if __CUDA_ARCH__ >= 900
    return {ptx::createpolicy_evict_first(), ptx::createpolicy_evict_last()};
#else
    return {};
#endif
  }

  // What one unit is copied from.
  struct Source {
    const uint8_t* weights;
    const uint8_t* tokens;
    int blocks;
    int groups;
    int chunks;
    uint64_t weight_policy;
    uint64_t token_policy;
  };

  NIBBLE_DEVICE static Source source_of(const W4A16Params& params, const Tables& tables,
                                        const Policies& policies, const Cursor& cursor) {
    constexpr WeightTiles kTiles = kWeights;
    const Place& place = cursor.place;
    const int64_t chunk = int64_t{cursor.step} * kTactic.stage_chunks;
    const uint32_t rank = rank_of_block();
    return {
        params.weights + kTiles.tile_begin(place.expert, Work::first_block(place, rank), chunk),
        params.tokens + (int64_t{Work::first_slot(place, tables) / kSlotGroup} * kChunks + chunk) *
                            kSlotTileBytes,
        Work::blocks_of(place, rank),
        Work::groups_of(place, tables),
        chunks_of_step(cursor.step),
        policies.weights,
        policies.tokens};
  }

#if __CUDA_ARCH__ >= 900
  static constexpr uint32_t kFullArrivals = 1;

  NIBBLE_DEVICE static void copy_weights(const Ring& ring, const Source& source, int stage,
                                         int lane) {
    const uint32_t bytes = source.chunks * kTileBytes;
    if (lane == 0) {
      ptx::mbarrier_arrive_expect_tx(
          ring.full(stage), source.blocks * bytes + source.groups * source.chunks * kSlotTileBytes);
    }
    __syncwarp();
    if (lane < source.blocks) {
      ptx::cp_async_bulk(ring.weights(stage) + lane * kBlockStage,
                         source.weights + int64_t{lane} * kChunks * kTileBytes, bytes,
                         ring.full(stage), source.weight_policy);
    }
  }

  NIBBLE_DEVICE static void copy_tokens(const Ring& ring, const Source& source, int stage,
                                        int lane) {
    if (lane < source.groups) {
      ptx::cp_async_bulk(ring.tokens(stage) + lane * kTactic.stage_chunks * kSlotTileBytes,
                         source.tokens + int64_t{lane} * kChunks * kSlotTileBytes,
                         source.chunks * kSlotTileBytes, ring.full(stage), source.token_policy);
    }
  }
#else
  static constexpr uint32_t kFullArrivals = 32;

  NIBBLE_DEVICE static void copy_run(uint32_t to, const uint8_t* from, int bytes, int lane) {
    for (int at = lane * 16; at < bytes; at += 32 * 16) ptx::cp_async_16(to + at, from + at);
  }

  NIBBLE_DEVICE static void copy_weights(const Ring& ring, const Source& source, int stage,
                                         int lane) {
    for (int block = 0; block < source.blocks; ++block) {
      copy_run(ring.weights(stage) + block * kBlockStage,
               source.weights + int64_t{block} * kChunks * kTileBytes, source.chunks * kTileBytes,
               lane);
    }
  }

  NIBBLE_DEVICE static void copy_tokens(const Ring& ring, const Source& source, int stage,
                                        int lane) {
    for (int group = 0; group < source.groups; ++group) {
      copy_run(ring.tokens(stage) + group * kTactic.stage_chunks * kSlotTileBytes,
               source.tokens + int64_t{group} * kChunks * kSlotTileBytes,
               source.chunks * kSlotTileBytes, lane);
    }
    ptx::cp_async_mbarrier_arrive_noinc(ring.full(stage));
  }
#endif

  static_assert(kBlocks <= 32 && kGroupsOfTokens <= 32, "a lane copies a run");

  NIBBLE_DEVICE static void produce(const W4A16Params& params, const Tables& tables,
                                    const Ring& ring, int32_t begin, int32_t end) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const Policies hints = policies();
    Cursor cursor = Work::List::cursor_at(tables, begin);
    // Weights do not wait for the kernel that makes the tokens.
    const int32_t units = end - begin;
    const int first = units < kTactic.stages ? units : kTactic.stages;
    Cursor ahead = cursor;
    for (int stage = 0; stage < first; ++stage, ahead.next(tables)) {
      copy_weights(ring, source_of(params, tables, hints, ahead), stage, lane);
    }
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
    for (int stage = 0; stage < first; ++stage, cursor.next(tables)) {
      copy_tokens(ring, source_of(params, tables, hints, cursor), stage, lane);
    }
    int stage = 0;
    uint32_t parity = 0;
    for (int32_t unit = kTactic.stages; unit < units; ++unit, cursor.next(tables)) {
      wait(ring.empty(stage), parity);
      const Source source = source_of(params, tables, hints, cursor);
      copy_weights(ring, source, stage, lane);
      copy_tokens(ring, source, stage, lane);
      if (++stage == kTactic.stages) {
        stage = 0;
        parity ^= 1;
      }
    }
  }
};

}  // namespace nibble
