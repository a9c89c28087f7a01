// The byte budget of one tile, part by part, and how it grows with the stages of the ring.
//
//   NIBBLE_ASSIGN_OR_RETURN(const auto budgets, explain_tile(product, {128, 256, 128},
//                                                            TacticFamily::kW4A4, chip));
//   for (const TileBudget& budget : budgets)
//     for (const BudgetPart& part : budget.parts) say(part.name, part.bytes, part.how);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tactics/budget.h"
#include "tactics/candidate.h"
#include "tactics/chip.h"

namespace nibble {

struct BudgetPart {
  std::string name;        // "codes of M"
  std::int64_t bytes = 0;  // of a stage, or once
  bool per_stage = false;
  std::string how;  // "128 x 128 / 2"
};

struct StageBudget {
  int stages = 0;
  std::int64_t ring_bytes = 0;
  std::int64_t total_bytes = 0;
  std::int64_t left_bytes = 0;  // of what a block may have; below 0: it does not fit
  int blocks_per_sm = 0;        // by shared memory
};

struct TileBudget {
  TacticFamily family = TacticFamily::kW4A4;
  Way way = Way::kTokensOnM;
  std::string product;  // "256 x [512, 6144] nvfp4 x nvfp4 swiglu -> nvfp4"
  std::vector<BudgetPart> parts;
  std::int64_t stage_bytes = 0;
  std::vector<StageBudget> stages;  // from 1 on; the last one does not fit
};

// Both ways round of W4A4; W4A16 has weights on M alone. Empty where a family has no such tile.
std::vector<TileBudget> explain_tile(const TacticProduct& product, const TacticTile& tile,
                                     TacticFamily family, const Chip& chip);

}  // namespace nibble
