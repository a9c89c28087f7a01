#include "tactics/cutlass.h"

#include "ledger/tile.h"

namespace nibble {

std::vector<CutlassUse> cutlass_uses(const TacticTile& tile, const Chip& chip) {
  std::vector<CutlassUse> found;
  if (chip.arch.major != 12 || chip.limits.shared_per_block != kSm120Limits.shared_per_block) {
    return found;
  }
  for (const bool grouped : {true, false}) {
    const SharedBudget budget =
        cutlass_nvfp4_budget({tile.m, tile.n, tile.k},
                             {.limit_bytes = chip.limits.shared_per_block, .grouped = grouped});
    if (budget.verdict == TileVerdict::kIndivisible) continue;
    found.push_back({.kernel = grouped ? "grouped" : "dense",
                     .stages = budget.stages,
                     .stage_bytes = budget.stage_bytes,
                     .epilogue_bytes = budget.epilogue_bytes,
                     .fixed_bytes = budget.fixed_bytes,
                     .bytes = budget.total_bytes,
                     .verdict = std::string(to_string(budget.verdict))});
  }
  return found;
}

}  // namespace nibble
