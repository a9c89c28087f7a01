#include "tactics/explain.h"

#include <fmt/format.h>

#include "tactics/occupancy.h"

namespace nibble {
namespace {

constexpr int kMostStagesShown = 64;

bool has_tile(const TacticTile& tile, TacticFamily family) {
  const bool native = family == TacticFamily::kW4A4;
  const int m_unit = native ? 16 : kTileRows;
  return tile.m % m_unit == 0 && tile.n % kSlotGroup == 0 && tile.k % unit_of_k(family) == 0;
}

TacticCandidate candidate_of(const TacticTile& tile, TacticFamily family, Way way) {
  if (family == TacticFamily::kW4A4)
    return {W4A4Tactic{.way = way, .m = tile.m, .n = tile.n, .k = tile.k}};
  return {W4A16Tactic{.rows = tile.m, .tokens = tile.n, .stage_chunks = tile.k / kChunk}};
}

std::vector<BudgetPart> parts_of_native(const TacticProduct& product,
                                        const TacticCandidate& candidate,
                                        const BlockBudget& budget) {
  const int m = candidate.m();
  const int n = candidate.n();
  const int k = candidate.k();
  const int tokens = candidate.way() == Way::kTokensOnM ? m : n;
  const int block = block_of(product.w4a4().weight_format());
  return {{"codes of M", budget.m_stage, true, fmt::format("{} x {} / 2", m, k)},
          {"codes of N", budget.n_stage, true, fmt::format("{} x {} / 2", n, k)},
          {"scales", budget.scale_stage, true, fmt::format("({} + {}) x {} / {}", m, n, k, block)},
          {"barriers", budget.barriers, true, "2 x 8"},
          {"rows of tokens", budget.rows, false, fmt::format("2 x 4 x {}", tokens)}};
}

std::vector<BudgetPart> parts_of_w4a16(const TacticProduct& product,
                                       const TacticCandidate& candidate,
                                       const BlockBudget& budget) {
  const int m = candidate.m();
  const int n = candidate.n();
  const int k = candidate.k();
  const int block = product.format == Format::kMxfp4 ? 32 : 16;
  return {{"codes of weights", budget.m_stage, true, fmt::format("{} x {} / 2", m, k)},
          {"tokens", budget.n_stage, true, fmt::format("{} x {} x 2", n, k)},
          {"scales", budget.scale_stage, true, fmt::format("{} x {} / {}", m, k, block)},
          {"barriers", budget.barriers, true, "2 x 8"}};
}

TileBudget budget_of_tile(const TacticProduct& product, const TacticCandidate& tile,
                          const Chip& chip) {
  const BlockBudget one = budget_of(product, with_stages(tile, 1));
  const bool native = tile.family() == TacticFamily::kW4A4;
  TileBudget found{
      .family = tile.family(),
      .way = tile.way(),
      .product = product.text(tile.family()),
      .parts = native ? parts_of_native(product, tile, one) : parts_of_w4a16(product, tile, one),
      .stage_bytes = one.stage() + one.barriers,
      .stages = {}};
  found.parts.push_back(
      {"tables of experts", one.tables, false, fmt::format("2 x 4 x ({} + 1)", product.experts)});
  found.parts.push_back(
      {"epilogue", one.epilogue, false, "none: sums go from registers to the output"});
  for (int stages = 1; stages <= kMostStagesShown; ++stages) {
    const BlockBudget budget = budget_of(product, with_stages(tile, stages));
    const BlocksPerSm held =
        blocks_per_sm(chip, {.threads = tile.threads(), .shared_bytes = budget.total});
    found.stages.push_back({.stages = stages,
                            .ring_bytes = budget.stage() * stages + budget.barriers,
                            .total_bytes = budget.total,
                            .left_bytes = chip.limits.shared_per_block - budget.total,
                            .blocks_per_sm = held.shared});
    if (found.stages.back().left_bytes < 0) break;
  }
  return found;
}

}  // namespace

std::vector<TileBudget> explain_tile(const TacticProduct& product, const TacticTile& tile,
                                     TacticFamily family, const Chip& chip) {
  std::vector<TileBudget> found;
  if (!has_tile(tile, family)) return found;
  for (const Way way : {Way::kTokensOnM, Way::kWeightsOnM}) {
    if (family == TacticFamily::kW4A16 && way == Way::kTokensOnM) continue;
    found.push_back(budget_of_tile(product, candidate_of(tile, family, way), chip));
  }
  return found;
}

}  // namespace nibble
