// The shared memory of a tactic's block, part by part, for a product: the tables of all experts
// are in it, so that it is never a property of the tile alone.
//
//   const BlockBudget budget = budget_of(product, candidate);
//   budget.stage() * budget.stages + budget.barriers + budget.rows + budget.tables
//       + budget.epilogue == budget.total
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tactics/candidate.h"
#include "tactics/chip.h"

namespace nibble {

struct BlockBudget {
  std::int64_t m_stage = 0;      // bytes of M's codes in a stage
  std::int64_t n_stage = 0;      // of N's: codes; 16-bit tokens of W4A16
  std::int64_t scale_stage = 0;  // of the scales of both sides
  int stages = 0;
  std::int64_t barriers = 0;  // two of 8 bytes a stage
  std::int64_t rows = 0;      // which tokens a tile has
  std::int64_t tables = 0;    // where each expert begins
  std::int64_t epilogue = 0;  // none: sums go from registers to the output
  std::int64_t total = 0;

  std::int64_t stage() const { return m_stage + n_stage + scale_stage; }
};

BlockBudget budget_of(const TacticProduct& product, const TacticCandidate& candidate);

// The same tactic with other sizes: what would make one fit.
TacticCandidate with_stages(const TacticCandidate& candidate, int stages);
TacticCandidate with_k(const TacticCandidate& candidate, int k);
TacticCandidate with_blocks(const TacticCandidate& candidate, int blocks_per_sm);
int unit_of_k(TacticFamily family);  // a stage's K is a multiple of it

// What the kernels' own checks say of it: sizes and shared memory, for as many blocks as it asks
// for.
Result<> check_tactic(const TacticProduct& product, const TacticCandidate& candidate,
                      const BlockLimits& limits);

// What makes a tactic fit that does not: "2 stages (75,840 B)", "K = 128 (...)", "1 block an SM":
// the nearest of each that check_tactic() takes. Empty where nothing does.
std::vector<std::string> remedies(const TacticProduct& product, const TacticCandidate& candidate,
                                  const BlockLimits& limits);

}  // namespace nibble
