// A whole layer in one launch, for few tokens: its variants, its shared memory, how its work is
// cut, and what it takes. The same on host and device; one_launch.cuh says how it works.
//
//   const OneLaunchTactic tactic{.tokens = 8, .slabs = 4, .down_slabs = 3, .slots = 5};
//   one_launch_plan(tactic, kNvfp4ScaleBytes, {.experts = 256, .choices = 64}).bytes
//   slab_piece({.at = 61, .end = 70}, 32, 4)   // of matrix 1: slabs 29, 30 and 31
//
// A slab: 16 rows of a matrix, all its columns. Of a tile (w4a16_layout.h) it has 512 bytes of
// codes and a quarter of the scales: what one warp multiplies at a time.
#pragma once

#include "kernels/gemm/device/w4a16_layout.h"
#include "kernels/moe/device/moe_shape.h"

namespace nibble {

inline constexpr int kSlabRows = 16;
inline constexpr int kSlabsOfTile = kTileRows / kSlabRows;
inline constexpr int kSlabCodeBytes = kCodeBytes / kSlabsOfTile;

// A choice a thread; more tokens are quicker in a launch a step.
inline constexpr int kMostOneLaunchTokens = 16;
inline constexpr int kMostOneLaunchChoices = 512;
inline constexpr int kOneLaunchWarps = 16;

struct OneLaunchTactic {
  int tokens = 8;      // of a call at most: 8 or 16
  int slabs = 4;       // of gate and up that a warp multiplies with the same tokens: 1, 2 or 4
  int down_slabs = 3;  // of down: 1 to 4
  int slots = 5;       // of a warp's ring; each holds a chunk of all slabs
  int blocks = 132;    // of the launch: one an SM
  int teams = 1;       // of warps that share the columns of gate and up: 1, 2 or 4

  NIBBLE_HOST_DEVICE constexpr int threads() const { return 32 * kOneLaunchWarps; }
  NIBBLE_HOST_DEVICE constexpr int team_warps() const { return kOneLaunchWarps / teams; }
  NIBBLE_HOST_DEVICE constexpr int most_slabs() const {
    return slabs > down_slabs ? slabs : down_slabs;
  }
  NIBBLE_HOST_DEVICE constexpr int groups() const { return tokens / kSlotGroup; }
  friend constexpr bool operator==(const OneLaunchTactic&, const OneLaunchTactic&) = default;
};

struct OneLaunchTables {
  int experts = 1;
  int choices = 1;  // of the most tokens
};

// Bytes from the beginning of a block's shared memory.
struct OneLaunchPlan {
  uint32_t scales = 0;  // of a slot of the ring: codes of all slabs, from here on their scales
  uint32_t slot = 0;    // bytes of a slot
  uint32_t partial_begin = 0;
  uint32_t table_begin = 0;  // of words: masks and bases [experts], then what choices have
  uint32_t bytes = 0;
};

NIBBLE_HOST_DEVICE constexpr OneLaunchPlan one_launch_plan(const OneLaunchTactic& tactic,
                                                           int scale_bytes,
                                                           const OneLaunchTables& tables) {
  constexpr uint32_t kLaneSums = 16;     // bytes: four sums of a slab
  constexpr uint32_t kChoiceTables = 6;  // passes, actives, weights, factors; ids, weights as given
  constexpr auto warps = static_cast<uint32_t>(kOneLaunchWarps);
  const auto slabs = static_cast<uint32_t>(tactic.most_slabs());
  OneLaunchPlan plan;
  plan.scales = slabs * kSlabCodeBytes;
  plan.slot = plan.scales + slabs * static_cast<uint32_t>(scale_bytes / kSlabsOfTile);
  plan.partial_begin = warps * static_cast<uint32_t>(tactic.slots) * plan.slot;
  plan.table_begin = plan.partial_begin + warps * slabs * 32 * kLaneSums;
  const auto words = 2 * static_cast<uint32_t>(tables.experts) +
                     kChoiceTables * static_cast<uint32_t>(tables.choices) + warps + 4;
  plan.bytes = plan.table_begin + 4 * words;
  return plan;
}

// Neighbouring slabs of a list of matrices, `per_matrix` each, that a block takes.
struct SlabPart {
  int32_t at = 0;
  int32_t end = 0;
};
NIBBLE_HOST_DEVICE constexpr SlabPart slab_part(int32_t slabs, int32_t part, int32_t parts) {
  const int32_t each = slabs / parts;
  const int32_t rest = slabs % parts;  // that parts from the first on have one more
  const int32_t at = part * each + (part < rest ? part : rest);
  return {at, at + each + (part < rest ? 1 : 0)};
}

// What of a part, from its beginning on, is of one matrix, and no more than `most`.
struct SlabPiece {
  int32_t matrix = 0;
  int32_t slab = 0;
  int32_t slabs = 0;
};
NIBBLE_HOST_DEVICE constexpr SlabPiece slab_piece(const SlabPart& part, int32_t per_matrix,
                                                  int32_t most) {
  SlabPiece piece{part.at / per_matrix, part.at % per_matrix, most};
  if (piece.slabs > per_matrix - piece.slab) piece.slabs = per_matrix - piece.slab;
  if (piece.slabs > part.end - part.at) piece.slabs = part.end - part.at;
  return piece;
}

// Counters of a call in progress; all zero before and after it.
struct OneLaunchProgress {
  uint32_t teams = 0;   // whose part of gate and up is in memory
  uint32_t blocks = 0;  // that wait for them no longer
};

struct OneLaunchParams {
  RouteTopK top_k;                       // without logits ids and weights are given
  const int* ids = nullptr;              // [tokens, top_k]; one that is no expert is dropped
  const float* weights = nullptr;        // [tokens, top_k]
  const void* x = nullptr;               // [tokens, hidden], 16-bit elements
  const uint8_t* gate_up = nullptr;      // tiles of all experts, [2 intermediate, hidden]
  const float* gate_up_alpha = nullptr;  // [experts, 2]
  const float* gate_up_bias = nullptr;   // [experts, 2 intermediate], or null
  const uint8_t* down = nullptr;         // tiles, [hidden, intermediate]
  const float* down_alpha = nullptr;     // [experts, 2], twice the same
  const float* down_bias = nullptr;      // [experts, hidden], or null
  const void* shared = nullptr;          // [tokens, hidden], added last; or null; may be y
  void* y = nullptr;                     // [tokens, hidden]
  void* activated = nullptr;             // [choices, chunks of intermediate x 64]
  int* counts = nullptr;                 // [experts]: tokens of each, for who asks afterwards
  int* dropped = nullptr;                // [1]: dropped choices are added to it
  OneLaunchProgress* progress = nullptr;
  int tokens = 0;
  float swiglu_alpha = 0;  // of the clamped form
  float swiglu_limit = 0;
};

}  // namespace nibble
