// A variant ("tactic") of the grouped W4A16 product, and the shared memory that it takes: the same
// numbers on the host, which launches, and in the kernel.
//
//   const W4A16Tactic tactic{.family = Family::kWgmma, .rows = 512, .tokens = 32, .stages = 4,
//                            .groups = 2, .cluster = 2};
//   shared_plan(tactic, kNvfp4ScaleBytes, 256).bytes   // 182,344
#pragma once

#include "formats/host_device.h"
#include "kernels/gemm/device/product.h"
#include "kernels/gemm/device/w4a16_layout.h"

namespace nibble {

enum class Family : uint32_t {
  kMma,    // mma.sync: sm_80 and later
  kWgmma,  // wgmma: sm_90a alone
};

struct W4A16Tactic {
  Family family = Family::kMma;
  int rows = 256;         // of a tile: whole blocks of 64, shared evenly by the groups
  int tokens = 8;         // of a tile: whole groups of 8 slots
  int stage_chunks = 2;   // chunks of 64 columns that a stage of the ring holds
  int stages = 4;         // of the ring
  int groups = 2;         // of four warps that multiply; wgmma: warpgroups
  int blocks_per_sm = 1;  // that registers are limited for
  int cluster = 1;        // blocks that take neighbouring row tiles at the same time
  int fragments = 8;      // wgmma: products of 16 columns whose left operands registers hold: 4, 8
  bool split = true;      // parts of the work may end within a tile

  NIBBLE_HOST_DEVICE constexpr int consumers() const { return 128 * groups; }
  // wgmma: the copying warp brings three idle ones, since registers move by warpgroups.
  NIBBLE_HOST_DEVICE constexpr int threads() const {
    return consumers() + (family == Family::kWgmma ? 128 : 32);
  }
  NIBBLE_HOST_DEVICE constexpr int blocks() const { return rows / kTileRows; }
  NIBBLE_HOST_DEVICE constexpr int token_groups() const { return tokens / kSlotGroup; }

  // Of a thread. wgmma: when the kernel begins, of a copying thread, and of a multiplying one.
  static constexpr int kCopyRegisters = 24;
  NIBBLE_HOST_DEVICE constexpr int registers_at_start() const {
    return 65536 / blocks_per_sm / threads() / 8 * 8;
  }
  NIBBLE_HOST_DEVICE constexpr int multiply_registers() const {
    const int free =
        (registers_at_start() * threads() - kCopyRegisters * 128) / consumers() / 8 * 8;
    return free < 240 ? free : 240;
  }

  // Tokens that one instruction multiplies: wgmma does all of a tile, so that tiles with fewer
  // tokens have a narrower one where there are registers for both. The next narrower one, or 0.
  // Below 32 tokens none is quicker, as it waits for its left operand.
  NIBBLE_HOST_DEVICE constexpr int narrower(int width) const {
    const bool room = width <= 64 && multiply_registers() >= 200;
    return family == Family::kWgmma && width > 32 && room ? 32 : 0;
  }
  // What is multiplied where a tile has so many tokens.
  NIBBLE_HOST_DEVICE constexpr int width_for(int count) const {
    int width = tokens;
    while (narrower(width) >= count && narrower(width) > 0) width = narrower(width);
    return width;
  }

  friend bool operator==(const W4A16Tactic&, const W4A16Tactic&) = default;
};

// Bytes from the beginning of a block's shared memory: token stages, weight stages, two barriers a
// stage, and the two tables of all experts.
struct SharedPlan {
  uint32_t token_stage = 0;   // bytes of a stage
  uint32_t block_stage = 0;   // of one block of 64 rows in a stage
  uint32_t weight_stage = 0;  // of all of them
  uint32_t weight_begin = 0;
  uint32_t barrier_begin = 0;
  uint32_t table_begin = 0;
  uint32_t bytes = 0;
};

NIBBLE_HOST_DEVICE constexpr SharedPlan shared_plan(const W4A16Tactic& tactic, int scale_bytes,
                                                    int experts) {
  SharedPlan plan;
  plan.token_stage =
      static_cast<uint32_t>(tactic.token_groups() * tactic.stage_chunks * kSlotTileBytes);
  plan.block_stage = static_cast<uint32_t>(tactic.stage_chunks * (kCodeBytes + scale_bytes));
  plan.weight_stage = static_cast<uint32_t>(tactic.blocks()) * plan.block_stage;
  const auto stages = static_cast<uint32_t>(tactic.stages);
  plan.weight_begin = stages * plan.token_stage;
  plan.barrier_begin = plan.weight_begin + stages * plan.weight_stage;
  plan.table_begin = plan.barrier_begin + stages * 2 * 8;
  plan.bytes = plan.table_begin + 2 * 4 * (static_cast<uint32_t>(experts) + 1);
  return plan;
}

}  // namespace nibble
