#include "tactics/budget.h"

#include <fmt/format.h>

#include "base/units.h"

namespace nibble {
namespace {

BlockBudget w4a4_budget(const W4A4Problem& problem, const W4A4Tactic& tactic) {
  const W4A4Shared plan =
      w4a4_shared(tactic, problem.weight_format(), static_cast<int>(problem.experts));
  return {.m_stage = plan.m_stage,
          .n_stage = plan.n_stage,
          .scale_stage = plan.scale_stage,
          .stages = tactic.stages,
          .barriers = plan.rows_begin - plan.barrier_begin,
          .rows = plan.table_begin - plan.rows_begin,
          .tables = plan.bytes - plan.table_begin,
          .epilogue = 0,
          .total = plan.bytes};
}

BlockBudget w4a16_budget(const W4A16Problem& problem, const W4A16Tactic& tactic) {
  const SharedPlan plan =
      shared_plan(tactic, problem.scale_bytes(), static_cast<int>(problem.experts));
  const std::int64_t tiles = std::int64_t{tactic.blocks()} * tactic.stage_chunks;
  return {.m_stage = tiles * kCodeBytes,
          .n_stage = plan.token_stage,
          .scale_stage = tiles * problem.scale_bytes(),
          .stages = tactic.stages,
          .barriers = plan.table_begin - plan.barrier_begin,
          .rows = 0,
          .tables = plan.bytes - plan.table_begin,
          .epilogue = 0,
          .total = plan.bytes};
}

std::string sized(const TacticProduct& product, const TacticCandidate& candidate,
                  std::string_view what) {
  const std::int64_t bytes = budget_of(product, candidate).total;
  return fmt::format("{} ({} B)", what, format_count(static_cast<double>(bytes)));
}

}  // namespace

BlockBudget budget_of(const TacticProduct& product, const TacticCandidate& candidate) {
  if (const auto* native = std::get_if<W4A4Tactic>(&candidate.tactic)) {
    return w4a4_budget(product.w4a4(), *native);
  }
  return w4a16_budget(product.w4a16(), std::get<W4A16Tactic>(candidate.tactic));
}

TacticCandidate with_stages(const TacticCandidate& candidate, int stages) {
  TacticCandidate other = candidate;
  if (auto* native = std::get_if<W4A4Tactic>(&other.tactic)) {
    native->stages = stages;
  } else {
    std::get<W4A16Tactic>(other.tactic).stages = stages;
  }
  return other;
}

TacticCandidate with_k(const TacticCandidate& candidate, int k) {
  TacticCandidate other = candidate;
  if (auto* native = std::get_if<W4A4Tactic>(&other.tactic)) {
    native->k = k;
  } else {
    std::get<W4A16Tactic>(other.tactic).stage_chunks = k / kChunk;
  }
  return other;
}

TacticCandidate with_blocks(const TacticCandidate& candidate, int blocks_per_sm) {
  TacticCandidate other = candidate;
  if (auto* native = std::get_if<W4A4Tactic>(&other.tactic)) {
    native->blocks_per_sm = blocks_per_sm;
  } else {
    std::get<W4A16Tactic>(other.tactic).blocks_per_sm = blocks_per_sm;
  }
  return other;
}

int unit_of_k(TacticFamily family) {
  constexpr int kW4A4Unit = 128;  // a row's scales of 128 values are two words
  return family == TacticFamily::kW4A4 ? kW4A4Unit : kChunk;
}

Result<> check_tactic(const TacticProduct& product, const TacticCandidate& candidate,
                      const BlockLimits& limits) {
  if (const auto* native = std::get_if<W4A4Tactic>(&candidate.tactic)) {
    return check_tactic(product.w4a4(), *native, limits);
  }
  return check_tactic(product.w4a16(), std::get<W4A16Tactic>(candidate.tactic), limits);
}

std::vector<std::string> remedies(const TacticProduct& product, const TacticCandidate& candidate,
                                  const BlockLimits& limits) {
  // With one stage nothing is read while the tensor cores work.
  constexpr int kFewestStages = 2;
  const auto runs = [&](const TacticCandidate& other) {
    return check_tactic(product, other, limits).ok();
  };
  std::vector<std::string> list;
  for (int stages = candidate.stages() - 1; stages >= kFewestStages; --stages) {
    const TacticCandidate other = with_stages(candidate, stages);
    if (!runs(other)) continue;
    list.push_back(sized(product, other, fmt::format("{} stages", stages)));
    break;
  }
  const int unit = unit_of_k(candidate.family());
  for (int k = candidate.k() - unit; k >= unit; k -= unit) {
    const TacticCandidate other = with_k(candidate, k);
    if (!runs(other)) continue;
    list.push_back(sized(product, other, fmt::format("K = {}", k)));
    break;
  }
  for (int blocks = candidate.blocks_per_sm() - 1; blocks >= 1; --blocks) {
    if (!runs(with_blocks(candidate, blocks))) continue;
    list.push_back(fmt::format("{} {} an SM", blocks, blocks == 1 ? "block" : "blocks"));
    break;
  }
  if (!list.empty()) return list;
  for (int k = candidate.k() - unit; k >= unit; k -= unit) {
    const TacticCandidate other = with_k(with_stages(candidate, kFewestStages), k);
    if (!runs(other)) continue;
    list.push_back(sized(product, other, fmt::format("{} stages of K = {}", kFewestStages, k)));
    break;
  }
  return list;
}

}  // namespace nibble
