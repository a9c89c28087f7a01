#include "tactics/cutlass.h"

#include "ledger/tile.h"

namespace nibble {
namespace {

struct CompiledTile {
  TacticTile tile;
  int registers;
  int spill_bytes;
};

// Measured once, by compiling each (kCutlassCompiled); docs/sm120.md has the same table. Tiles that
// are not here were not compiled.
constexpr CompiledTile kCompiledTiles[] = {
    {{128, 128, 128}, 168, 80},  {{128, 128, 256}, 168, 80}, {{128, 128, 64}, 168, 80},
    {{128, 256, 128}, 168, 208}, {{256, 128, 128}, 168, 76}, {{128, 64, 128}, 114, 0},
    {{128, 64, 256}, 118, 0},    {{128, 32, 128}, 114, 0},   {{128, 32, 256}, 114, 0},
    {{128, 16, 128}, 114, 0},    {{128, 8, 128}, 118, 0},
};

void add_compiled(const TacticTile& tile, CutlassUse& use) {
  for (const CompiledTile& compiled : kCompiledTiles) {
    if (compiled.tile != tile) continue;
    use.registers = compiled.registers;
    use.spill_bytes = compiled.spill_bytes;
  }
}

}  // namespace

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
                     .verdict = std::string(to_string(budget.verdict)),
                     .registers = {},
                     .spill_bytes = {}});
    if (grouped) add_compiled(tile, found.back());
  }
  return found;
}

}  // namespace nibble
