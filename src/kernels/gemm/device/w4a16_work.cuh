// The tiles of the grouped W4A16 product in its list of work: their slots and blocks of rows.
#pragma once

#include "kernels/gemm/device/grouped_work.cuh"
#include "kernels/gemm/device/w4a16_shape.cuh"
#include "kernels/ptx/cluster.cuh"

namespace nibble {

template <class Config>
struct W4A16Work : W4A16Shape<Config> {
  using Shape = W4A16Shape<Config>;
  using Shape::kBlocks;
  using Shape::kChunks;
  using Shape::kCluster;
  using Shape::kGroupsOfTokens;
  using Shape::kRowTiles;
  using Shape::kSteps;
  using Shape::kTactic;
  using Shape::kWeights;

  using List = GroupedWork<Config::kExperts, kRowTiles, kSteps, kTactic.split, kCluster>;
  using Tables = typename List::Tables;
  using Place = typename List::Place;
  using Cursor = typename List::Cursor;

  NIBBLE_DEVICE static int32_t first_slot(const Place& place, const Tables& tables) {
    return tables.offsets[place.expert] + place.token_tile * kTactic.tokens;
  }
  // Groups of 8 slots of a tile.
  NIBBLE_DEVICE static int groups_of(const Place& place, const Tables& tables) {
    const int left = (tables.offsets[place.expert + 1] - first_slot(place, tables)) / kSlotGroup;
    return left < kGroupsOfTokens ? left : kGroupsOfTokens;
  }
  // First block of 64 rows of this block of the cluster.
  NIBBLE_DEVICE static int first_block(const Place& place, uint32_t rank) {
    return (place.row_tile * kCluster + static_cast<int>(rank)) * kBlocks;
  }
  NIBBLE_DEVICE static int blocks_of(const Place& place, uint32_t rank) {
    const int left = static_cast<int>(kWeights.blocks) - first_block(place, rank);
    return left < kBlocks ? (left < 0 ? 0 : left) : kBlocks;
  }

  NIBBLE_DEVICE static int chunks_of_step(int step) {
    if constexpr (kChunks % kTactic.stage_chunks == 0) return kTactic.stage_chunks;
    const int left = kChunks - step * kTactic.stage_chunks;
    return left < kTactic.stage_chunks ? left : kTactic.stage_chunks;
  }

  NIBBLE_DEVICE static uint32_t rank_of_block() {
#if __CUDA_ARCH__ >= 900
    if constexpr (kCluster > 1) return ptx::cluster_ctarank();
#endif
    return 0;
  }
};

}  // namespace nibble
