// What follows from the constants of a variant of the grouped product (w4a16.cuh): sizes of tiles,
// stages and shares of registers, and the sums that a thread holds.
#pragma once

#include "kernels/device/types.cuh"
#include "kernels/gemm/device/w4a16_layout.h"
#include "kernels/gemm/device/w4a16_tactic.h"

namespace nibble {

template <class Config>
struct W4A16Shape {
  static constexpr W4A16Tactic kTactic = Config::kTactic;
  static constexpr bool kGateUp = Config::kEpilogue != Epilogue::kPlain;
  static constexpr int kScaleBytes =
      Config::kFormat == WeightFormat::kNvfp4 ? kNvfp4ScaleBytes : kMxfp4ScaleBytes;
  static constexpr WeightTiles kWeights = weight_tiles(
      Config::kN, Config::kK, kScaleBytes, kGateUp ? RowOrder::kGateUp : RowOrder::kPlain);
  static constexpr int kTileBytes = kCodeBytes + kScaleBytes;
  static constexpr int kBlocks = kTactic.rows / kTileRows;  // of a tile
  static constexpr int kBlocksOfGroup = kBlocks / kTactic.groups;
  static constexpr int kGroupsOfTokens = kTactic.tokens / kSlotGroup;
  // The blocks of a cluster take neighbouring row tiles at the same time: the tokens that they copy
  // alike come through the second-level cache's wires once, and those are what weights come through
  // too. A copy to all of them (multicast) would do so surely, but then each must wait for the
  // others' arrivals, and 16 remote arrivals a stage cost a third of the bandwidth on an H200.
  static constexpr int kCluster = kTactic.cluster;
  static constexpr int kRowTiles = static_cast<int>(ceil_div(kWeights.blocks, kBlocks* kCluster));
  static constexpr int kChunks = static_cast<int>(kWeights.chunks);
  static constexpr int kSteps = static_cast<int>(ceil_div(kChunks, kTactic.stage_chunks));
  static constexpr int kOutputChunks = static_cast<int>(chunks_of(Config::kN / 2));  // kGateUp
  static constexpr int kConsumers = kTactic.consumers();
  static constexpr int kThreads = kTactic.threads();
  static constexpr int kCopyRegisters = W4A16Tactic::kCopyRegisters;
  static constexpr int kMultiplyRegisters = kTactic.multiply_registers();
  static constexpr uint32_t kFactors = 2;

  static constexpr SharedPlan kShared = shared_plan(kTactic, kScaleBytes, Config::kExperts);
  static constexpr uint32_t kTokenStage = kShared.token_stage;
  static constexpr uint32_t kBlockStage = kShared.block_stage;
  static constexpr uint32_t kWeightStage = kShared.weight_stage;

  static_assert(kBlocks * kTileRows == kTactic.rows, "a tile is whole blocks of 64 rows");
  static_assert(kBlocksOfGroup * kTactic.groups == kBlocks, "warpgroups share blocks evenly");
  static_assert(kTactic.tokens % kSlotGroup == 0, "a token tile is whole groups of 8 slots");
  static_assert(kTactic.family == Family::kMma ||
                    kBlocksOfGroup * kTactic.stage_chunks * 4 % kTactic.fragments == 0,
                "wgmma takes turns with two sets of registers: an even number of items a stage");

  // Products whose left operands registers hold: what wide sums leave.
  static constexpr int fragments(int width) {
    return width == kTactic.tokens ? kTactic.fragments : 8;
  }

  template <int kWidth>  // tokens
  using Sums = float[kBlocksOfGroup][kWidth / kSlotGroup][4];
  // mma.sync: products that follow each other at once go to different sums, where few tokens leave
  // registers for them.
  static constexpr int kSumSets = kTactic.family == Family::kMma && kTactic.tokens <= 16 ? 2 : 1;
};

}  // namespace nibble
