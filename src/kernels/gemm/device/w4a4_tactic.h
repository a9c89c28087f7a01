// A variant ("tactic") of the grouped W4A4 product, and the shared memory that it takes: the same
// numbers on the host, which launches, and in the kernel.
//
//   const W4A4Tactic tactic{.way = Way::kWeightsOnM, .m = 128, .n = 16, .k = 256, .stages = 4,
//                           .warps_m = 4, .warps_n = 1};
//   w4a4_shared(tactic, WeightFormat::kNvfp4, 256).bytes
//
// The instruction multiplies 16 rows ("M") by 8 columns ("N") along 64 values ("K"). Large groups
// of tokens lie on M; few tokens lie on N, where a tile of 8 wastes nothing, and weights on M.
#pragma once

#include "formats/host_device.h"
#include "kernels/gemm/device/product.h"

namespace nibble {

// Of a thread, where registers move between warps.
inline constexpr int kW4A4MultiplyRegisters = 232;
inline constexpr int kW4A4CopyRegisters = 40;

enum class Way : uint32_t { kTokensOnM, kWeightsOnM };

struct W4A4Tactic {
  Way way = Way::kTokensOnM;
  int m = 128;      // of a tile: warps_m times a multiple of 16
  int n = 128;      // of a tile: warps_n times a multiple of 8
  int k = 128;      // values of a stage: a multiple of 128
  int stages = 3;   // of the ring
  int warps_m = 2;  // warps that multiply, side by side
  int warps_n = 4;
  int blocks_per_sm = 1;  // that registers are limited for
  bool split = true;      // parts of the work may end within a tile

  NIBBLE_HOST_DEVICE constexpr int consumers() const { return 32 * warps_m * warps_n; }
  // 128 sums a thread and more: a warp that copies would take a third of the registers of the two
  // that multiply beside it, since all get as many. So four copy, of which three are idle, and
  // registers move from them to the eight that multiply: 12 x 168 = 8 x 232 + 4 x 40.
  NIBBLE_HOST_DEVICE constexpr bool moves_registers() const {
    return m * n / consumers() >= 128 && warps_m * warps_n == 8 && blocks_per_sm == 1;
  }
  NIBBLE_HOST_DEVICE constexpr int threads() const {
    return consumers() + (moves_registers() ? 128 : 32);
  }
  NIBBLE_HOST_DEVICE constexpr int weights() const { return way == Way::kWeightsOnM ? m : n; }
  NIBBLE_HOST_DEVICE constexpr int tokens() const { return way == Way::kWeightsOnM ? n : m; }

  friend bool operator==(const W4A4Tactic&, const W4A4Tactic&) = default;
};

// Values that share a scale, and scales of a 32-bit word.
NIBBLE_HOST_DEVICE constexpr int block_of(WeightFormat format) {
  return format == WeightFormat::kNvfp4 ? 16 : 32;
}

// Bytes of shared memory, and where each part begins: the ring of M's codes (at 0), of N's, the
// ring of scale words [k / (4 blocks)][rows] of M and of N, two barriers a stage, the rows of
// tokens of a tile, and two tables of all experts.
struct W4A4Shared {
  uint32_t m_stage = 0;  // codes of a stage
  uint32_t n_stage = 0;
  uint32_t scale_stage = 0;  // scale words of both sides in a stage
  uint32_t n_begin = 0;
  uint32_t scale_begin = 0;
  uint32_t barrier_begin = 0;
  uint32_t rows_begin = 0;   // int32 [2][tokens]: rows of codes and of scales
  uint32_t table_begin = 0;  // int32 [2][experts + 1]
  uint32_t bytes = 0;

  NIBBLE_HOST_DEVICE constexpr uint32_t stage() const { return m_stage + n_stage + scale_stage; }
};

NIBBLE_HOST_DEVICE constexpr W4A4Shared w4a4_shared(const W4A4Tactic& tactic, WeightFormat format,
                                                    int experts) {
  W4A4Shared plan;
  plan.m_stage = static_cast<uint32_t>(tactic.m * tactic.k / 2);
  plan.n_stage = static_cast<uint32_t>(tactic.n * tactic.k / 2);
  plan.scale_stage = static_cast<uint32_t>((tactic.m + tactic.n) * (tactic.k / block_of(format)));
  const auto stages = static_cast<uint32_t>(tactic.stages);
  plan.n_begin = stages * plan.m_stage;
  plan.scale_begin = plan.n_begin + stages * plan.n_stage;
  plan.barrier_begin = plan.scale_begin + stages * plan.scale_stage;
  plan.rows_begin = plan.barrier_begin + stages * 2 * 8;
  plan.table_begin = plan.rows_begin + 2 * 4 * static_cast<uint32_t>(tactic.tokens());
  plan.bytes = plan.table_begin + 2 * 4 * (static_cast<uint32_t>(experts) + 1);
  return plan;
}

}  // namespace nibble
