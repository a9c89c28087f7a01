// The work of a launch of the grouped product as one list, [expert][row tile][token tile][step],
// and the part of it that a cluster does.
#pragma once

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

  struct Tables {
    const int32_t* offsets;  // shared memory
    const int32_t* tiles;
  };

  // A tile of the output and the steps of it that this block does.
  struct Place {
    int32_t expert = 0;
    int32_t row_tile = 0;
    int32_t token_tile = 0;

    NIBBLE_DEVICE void find(const Tables& tables, int32_t tile) {
      const int32_t quotient = tile / kRowTiles;
      int32_t low = 0;
      int32_t high = Config::kExperts;
      while (high - low > 1) {
        const int32_t middle = (low + high) / 2;
        (tables.tiles[middle] <= quotient ? low : high) = middle;
      }
      expert = low;
      const int32_t count = tables.tiles[expert + 1] - tables.tiles[expert];
      const int32_t rest = tile - tables.tiles[expert] * kRowTiles;
      row_tile = rest / count;
      token_tile = rest % count;
    }

    NIBBLE_DEVICE void next(const Tables& tables) {
      if (++token_tile < tables.tiles[expert + 1] - tables.tiles[expert]) return;
      token_tile = 0;
      if (++row_tile < kRowTiles) return;
      row_tile = 0;
      do {
        ++expert;
      } while (expert < Config::kExperts && tables.tiles[expert + 1] == tables.tiles[expert]);
    }

    NIBBLE_DEVICE int32_t first_slot(const Tables& tables) const {
      return tables.offsets[expert] + token_tile * kTactic.tokens;
    }
    // Groups of 8 slots of this tile.
    NIBBLE_DEVICE int groups(const Tables& tables) const {
      const int left = (tables.offsets[expert + 1] - first_slot(tables)) / kSlotGroup;
      return left < kGroupsOfTokens ? left : kGroupsOfTokens;
    }
    // First block of 64 rows of this block of the cluster.
    NIBBLE_DEVICE int first_block(uint32_t rank) const {
      return (row_tile * kCluster + static_cast<int>(rank)) * kBlocks;
    }
    NIBBLE_DEVICE int blocks(uint32_t rank) const {
      const int left = static_cast<int>(kWeights.blocks) - first_block(rank);
      return left < kBlocks ? (left < 0 ? 0 : left) : kBlocks;
    }
  };

  NIBBLE_DEVICE static int chunks_of_step(int step) {
    if constexpr (kChunks % kTactic.stage_chunks == 0) return kTactic.stage_chunks;
    const int left = kChunks - step * kTactic.stage_chunks;
    return left < kTactic.stage_chunks ? left : kTactic.stage_chunks;
  }

  // First unit (a step of a tile) of a cluster's part of the work.
  NIBBLE_DEVICE static int32_t part_begin(int32_t tiles, uint32_t cluster) {
    const uint32_t parts = gridDim.x / kCluster;
    if constexpr (kTactic.split) {
      return static_cast<int32_t>(int64_t{tiles} * kSteps * cluster / parts);
    }
    return static_cast<int32_t>(int64_t{tiles} * cluster / parts) * kSteps;
  }

  NIBBLE_DEVICE static uint32_t rank_of_block() {
#if __CUDA_ARCH__ >= 900
    if constexpr (kCluster > 1) return ptx::cluster_ctarank();
#endif
    return 0;
  }

  // Walks the units of a part.
  struct Cursor {
    Place place;
    int32_t step;
    NIBBLE_DEVICE void next(const Tables& tables) {
      if (++step < kSteps) return;
      step = 0;
      place.next(tables);
    }
  };

  NIBBLE_DEVICE static Cursor cursor_at(const Tables& tables, int32_t unit) {
    Cursor cursor;
    cursor.place.find(tables, unit / kSteps);
    cursor.step = unit % kSteps;
    return cursor;
  }
};

}  // namespace nibble
