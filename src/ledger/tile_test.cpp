#include "ledger/tile.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

// `sizeof(Kernel::SharedStorage)` of CUTLASS's SM120 NVFP4 kernels, compiled with CUDA 13.0 for a
// limit of 101,376 B, bf16 C and D (facts on SM120, "Shared-memory sizes, computed by us").
struct CutlassRow {
  TileShape tile;
  bool grouped;
  std::int64_t stages;
  std::int64_t total_bytes;
};

constexpr CutlassRow kCutlass[] = {
    {{128, 128, 128}, true, 4, 89088},  {{128, 128, 128}, false, 4, 88064},
    {{128, 128, 256}, true, 2, 89088},  {{128, 128, 256}, false, 2, 88064},
    {{128, 256, 128}, true, 3, 98304},  {{128, 256, 128}, false, 3, 97280},
    {{256, 128, 128}, true, 3, 98304},  {{256, 128, 128}, false, 3, 97280},
    {{256, 256, 128}, false, 2, 88064}, {{256, 64, 128}, true, 3, 86016},
    {{128, 64, 128}, true, 6, 101376},  {{128, 64, 256}, true, 3, 101376},
    {{128, 32, 128}, true, 7, 101376},  {{128, 32, 256}, true, 3, 89088},
    {{128, 16, 128}, true, 8, 99328},   {{128, 16, 256}, true, 4, 99328},
    {{128, 8, 128}, true, 8, 93184},    {{128, 8, 256}, true, 4, 93184},
    {{128, 128, 64}, true, 9, 98304},   {{128, 256, 64}, true, 6, 98304},
};

TEST(Tile, SharedMemoryEqualsWhatCutlassCompilesTo) {
  for (const CutlassRow& row : kCutlass) {
    const SharedBudget budget = cutlass_nvfp4_budget(row.tile, {.grouped = row.grouped});
    EXPECT_EQ(budget.stages, row.stages) << to_string(row.tile);
    EXPECT_EQ(budget.total_bytes, row.total_bytes)
        << to_string(row.tile) << (row.grouped ? " grouped" : " dense");
    EXPECT_EQ(budget.verdict, TileVerdict::kFits) << to_string(row.tile);
  }
}

TEST(Tile, Fp32OutputLeavesRoomForTwoStages) {
  // The same source: fp32 C/D of 128x256x128 grouped gives two stages and 82,944 B.
  constexpr SharedBudget budget = cutlass_nvfp4_budget({128, 256, 128}, {.output_bytes = 4});
  static_assert(budget.stages == 2 && budget.total_bytes == 82944,
                "the budget is a compile-time function");
}

TEST(Tile, StageOf128x128x128) {
  // A and B 128 * 128 / 2 = 8,192 B each, scales 128 * 128 / 16 = 1,024 B each: 18,432 B.
  constexpr SharedBudget budget = cutlass_nvfp4_budget({128, 128, 128}, {});
  static_assert(budget.a_bytes == 8192 && budget.b_bytes == 8192);
  static_assert(budget.scale_a_bytes == 1024 && budget.scale_b_bytes == 1024);
  static_assert(budget.stage_bytes == 18432);
}

TEST(Tile, ScalesOfSmallTilesAreOfWholeAtoms) {
  // 8 columns still store scales of 128: 128 * 128 / 16.
  EXPECT_EQ(cutlass_nvfp4_budget({128, 8, 128}, {}).scale_b_bytes, 1024);
}

TEST(Tile, WhatDoesNotCompile) {
  EXPECT_EQ(cutlass_nvfp4_budget({128, 192, 128}, {}).verdict, TileVerdict::kIndivisible);
  EXPECT_EQ(cutlass_nvfp4_budget({128, 64, 512}, {}).verdict, TileVerdict::kTooFewStages);
  EXPECT_EQ(cutlass_nvfp4_budget({128, 128, 512}, {}).verdict, TileVerdict::kTooFewStages);
  EXPECT_EQ(cutlass_nvfp4_budget({64, 128, 128}, {}).verdict, TileVerdict::kIndivisible);
}

TEST(Tile, LauncherExtrasCanPushATileOut) {
  // 128x256x128 with three stages takes 98,304 B of 101,376: 3,072 B are left.
  EXPECT_EQ(cutlass_nvfp4_budget({128, 256, 128}, {.extra_bytes = 3072, .stages = 3}).verdict,
            TileVerdict::kFits);
  EXPECT_EQ(cutlass_nvfp4_budget({128, 256, 128}, {.extra_bytes = 3073, .stages = 3}).verdict,
            TileVerdict::kTooLarge);
  // Left to itself the launcher would drop to two stages and fit.
  EXPECT_EQ(cutlass_nvfp4_budget({128, 256, 128}, {.extra_bytes = 3073}).stages, 2);
}

TEST(Tile, AnotherChipHoldsMoreStages) {
  // 227 KB - 12,288 - 3,072 = 217,088 B for stages of 27,648: 7.
  EXPECT_EQ(cutlass_nvfp4_budget({128, 256, 128}, {.limit_bytes = 232448}).stages, 7);
}

TEST(Tile, WaveCoverage) {
  // 512 / 128 = 4 by 2048 / 128 = 16: 64 tiles on 188 SMs.
  EXPECT_DOUBLE_EQ(wave_coverage({128, 128, 128}, 512, 2048, 188), 64.0 / 188);
  // 4 x 48 = 192 tiles take two waves of 188.
  EXPECT_DOUBLE_EQ(wave_coverage({128, 128, 128}, 512, 6144, 188), 192.0 / 376);
  EXPECT_DOUBLE_EQ(wave_coverage({128, 128, 128}, 1, 128, 188, 256), 256.0 / 376);
}

TEST(Tile, PaddingEfficiency) {
  EXPECT_DOUBLE_EQ(padding_efficiency({128, 128, 128}, 16), 0.125);
  EXPECT_DOUBLE_EQ(padding_efficiency({128, 128, 128}, 128), 1);
  EXPECT_DOUBLE_EQ(padding_efficiency({128, 128, 128}, 129), 129.0 / 256);
}

TEST(Tile, Parse) {
  EXPECT_EQ(*parse_tile("128x256"), (TileShape{128, 256, 128}));
  EXPECT_EQ(*parse_tile("64x32x256"), (TileShape{64, 32, 256}));
  for (const char* text :
       {"", "128", "128x", "x128", "128x-1", "128x256x128x2", "axb", "128x99999999"}) {
    EXPECT_FALSE(parse_tile(text).ok()) << text;
  }
}

}  // namespace
}  // namespace nibble
