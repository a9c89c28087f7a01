// What follows from the constants of a variant of the grouped W4A4 product (w4a4.cuh): its list of
// work, sizes of rows and stages, and where things lie in shared memory.
#pragma once

#include "formats/scale_layout.h"
#include "kernels/device/types.cuh"
#include "kernels/gemm/device/grouped_work.cuh"
#include "kernels/gemm/device/w4a4_tactic.h"

namespace nibble {

template <class Config>
struct W4A4Shape {
  static constexpr W4A4Tactic kTactic = Config::kTactic;
  static constexpr bool kGated = Config::kEpilogue != Epilogue::kPlain;
  static constexpr bool kWeightsOnM = kTactic.way == Way::kWeightsOnM;
  static constexpr int kWeightRows = kTactic.weights();  // of a tile
  static constexpr int kTokens = kTactic.tokens();

  // Of a matrix's row: codes, scales, and words of four scales.
  static constexpr int kBlock = block_of(Config::kFormat);
  static constexpr int64_t kRowBytes = Config::kK / 2;
  static constexpr int kScales = static_cast<int>(Config::kK / kBlock);
  static constexpr int kScaleTiles = static_cast<int>(scale_tiles(kScales, kScaleTileColumns));
  static constexpr int64_t kScaleBytes = swizzled_bytes(Config::kN, kScales);  // of an expert
  static_assert(Config::kK % kBlock == 0, "a row is whole blocks");

  // Of a stage.
  static constexpr int kSteps = static_cast<int>((Config::kK + kTactic.k - 1) / kTactic.k);
  static constexpr int kUnits = kTactic.k / 32;  // of 16 bytes, of a row
  static constexpr int kWords = kTactic.k / (4 * kBlock);
  static constexpr int kPairs = kTactic.k / 128;  // of products of 64 columns
  // Rows begin at multiples of 16 bytes, or of 8.
  static constexpr int kCopyBytes = kRowBytes % 16 == 0 ? 16 : 8;

  // Of a warp: products side by side.
  static constexpr int kAtomsM = kTactic.m / kTactic.warps_m / 16;
  static constexpr int kAtomsN = kTactic.n / kTactic.warps_n / 8;
  static constexpr int kConsumers = kTactic.consumers();
  static constexpr int kThreads = kTactic.threads();
  using Sums = float[kAtomsM][kAtomsN][4];

  static constexpr int kRowTiles = static_cast<int>((Config::kN + kWeightRows - 1) / kWeightRows);
  using List = GroupedWork<Config::kExperts, kRowTiles, kSteps, kTactic.split, 1>;
  using Tables = typename List::Tables;
  using Place = typename List::Place;
  using Cursor = typename List::Cursor;

  static constexpr W4A4Shared kShared = w4a4_shared(kTactic, Config::kFormat, Config::kExperts);

  static_assert(kAtomsM * 16 * kTactic.warps_m == kTactic.m, "whole products for each warp");
  static_assert(kAtomsN * 8 * kTactic.warps_n == kTactic.n, "whole products for each warp");
  static_assert(kAtomsN == 1 || kAtomsN % 2 == 0, "columns are read two products at a time");
  static_assert((kTactic.k & (kTactic.k - 1)) == 0, "exchanged units stay within a row");

  // Byte of a 16-byte unit of a row of codes in a stage. Units are exchanged so that eight
  // neighbouring rows' units, which ldmatrix reads together, lie in different banks.
  NIBBLE_HOST_DEVICE static constexpr uint32_t unit_byte(int row, int unit) {
    const int turn = kUnits == 4 ? row >> 1 & 3 : row & 7;
    return static_cast<uint32_t>((row * kUnits + (unit ^ turn)) * 16);
  }

  struct Ring {
    uint32_t shared;
    NIBBLE_DEVICE uint32_t m(int stage) const { return shared + stage * kShared.m_stage; }
    NIBBLE_DEVICE uint32_t n(int stage) const {
      return shared + kShared.n_begin + stage * kShared.n_stage;
    }
    // Words [kWords][m], then [kWords][n].
    NIBBLE_DEVICE uint32_t scales_m(int stage) const {
      return shared + kShared.scale_begin + stage * kShared.scale_stage;
    }
    NIBBLE_DEVICE uint32_t scales_n(int stage) const {
      return scales_m(stage) + kWords * kTactic.m * 4;
    }
    NIBBLE_DEVICE uint32_t full(int stage) const {
      return shared + kShared.barrier_begin + 8 * stage;
    }
    NIBBLE_DEVICE uint32_t empty(int stage) const { return full(stage) + 8 * kTactic.stages; }
  };

  // Which row of an expert's matrix a row of a tile is; -1: none. Gate and up rows take turns in
  // eights, so that a thread has the sums of both.
  NIBBLE_HOST_DEVICE static constexpr int64_t weight_row(int row_tile, int row) {
    if constexpr (kGated) {
      constexpr int64_t kHalf = Config::kN / 2;
      const int64_t column = int64_t{row_tile} * (kWeightRows / 2) + row / 16 * 8 + row % 8;
      const bool second = (row / 8 % 2 != 0) != Config::kUpFirst;
      return column < kHalf ? column + (second ? kHalf : 0) : -1;
    }
    const int64_t at = int64_t{row_tile} * kWeightRows + row;
    return at < Config::kN ? at : -1;
  }

  NIBBLE_DEVICE static int32_t first_slot(const Place& place, const Tables& tables) {
    return tables.offsets[place.expert] + place.token_tile * kTokens;
  }
};

}  // namespace nibble
