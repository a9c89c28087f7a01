// Products and tactics that tests of this room share.
#pragma once

#include "tactics/candidate.h"
#include "tactics/chip.h"

namespace nibble {

// GLM-5's experts on one of eight ranks.
inline TacticProduct glm_gate_up() {
  return {.op = "moe.gate_up", .experts = 256, .n = 512, .k = 6144, .epilogue = Epilogue::kSwiGlu};
}
inline TacticProduct glm_down() {
  return {.op = "moe.down", .experts = 256, .n = 6144, .k = 256};
}

// Three stages of 128 x 256 x 128, tokens on M: 86,072 B with 256 experts (budget_test.cpp).
inline TacticCandidate wide_tile() {
  return {W4A4Tactic{.way = Way::kTokensOnM,
                     .m = 128,
                     .n = 256,
                     .k = 128,
                     .stages = 3,
                     .warps_m = 2,
                     .warps_n = 4}};
}

inline Chip chip_with_shared(int per_block, int per_sm) {
  Chip chip = chip_of("sm_120a").value();
  chip.limits.shared_per_block = per_block;
  chip.limits.shared_per_sm = per_sm;
  return chip;
}

}  // namespace nibble
