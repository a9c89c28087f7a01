// The work of a launch of a grouped product as one list, [expert][row tile][token tile][step],
// experts without tokens left out, and the part of it that a cluster of blocks does: parts are
// equal and contiguous.
//
//   using Work = GroupedWork<256, 8, 48, true, 1>;
//   Work::Cursor cursor = Work::cursor_at(tables, Work::part_begin(all, blockIdx.x));
#pragma once

#include "kernels/device/types.cuh"

namespace nibble {

// kSteps: of a tile. kSplit: parts may begin and end within a tile.
template <int kExperts, int kRowTiles, int kSteps, bool kSplit, int kCluster>
struct GroupedWork {
  struct Tables {
    const int32_t* offsets;  // shared memory: an expert's first slot
    const int32_t* tiles;    // its first token tile
  };

  // A tile of the output.
  struct Place {
    int32_t expert = 0;
    int32_t row_tile = 0;
    int32_t token_tile = 0;

    NIBBLE_DEVICE void find(const Tables& tables, int32_t tile) {
      const int32_t quotient = tile / kRowTiles;
      int32_t low = 0;
      int32_t high = kExperts;
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
      } while (expert < kExperts && tables.tiles[expert + 1] == tables.tiles[expert]);
    }
  };

  // First unit (a step of a tile) of a cluster's part of the work.
  NIBBLE_DEVICE static int32_t part_begin(int32_t tiles, uint32_t cluster) {
    const uint32_t parts = gridDim.x / kCluster;
    if constexpr (kSplit) {
      return static_cast<int32_t>(int64_t{tiles} * kSteps * cluster / parts);
    }
    return static_cast<int32_t>(int64_t{tiles} * cluster / parts) * kSteps;
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
