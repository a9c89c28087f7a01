#include "tactics/budget.h"

#include <gtest/gtest.h>
#include <regex>
#include <string>

#include "tactics/test_products.h"

namespace nibble {
namespace {

void expect_whole(const BlockBudget& budget) {
  EXPECT_EQ(budget.stage() * budget.stages + budget.barriers + budget.rows + budget.tables +
                budget.epilogue,
            budget.total);
}

TEST(Budget, WideTileByHand) {
  const BlockBudget budget = budget_of(glm_gate_up(), wide_tile());
  EXPECT_EQ(budget.m_stage, 8192);         // 128 x 128 codes of half a byte
  EXPECT_EQ(budget.n_stage, 16384);        // 256 x 128
  EXPECT_EQ(budget.scale_stage, 384 * 8);  // 384 rows of 8 scales
  EXPECT_EQ(budget.barriers, 3 * 16);
  EXPECT_EQ(budget.rows, 1024);    // 2 x 4 B x 128 tokens
  EXPECT_EQ(budget.tables, 2056);  // 2 x 4 B x 257
  // 3 x 27,648 + 48 + 1,024 + 2,056
  EXPECT_EQ(budget.total, 86072);
  expect_whole(budget);
}

TEST(Budget, WeightsOnMByHand) {
  const TacticCandidate candidate{W4A4Tactic{.way = Way::kWeightsOnM,
                                             .m = 128,
                                             .n = 8,
                                             .k = 256,
                                             .stages = 2,
                                             .warps_m = 4,
                                             .warps_n = 1,
                                             .blocks_per_sm = 2}};
  const BlockBudget budget = budget_of(glm_gate_up(), candidate);
  EXPECT_EQ(budget.m_stage, 16384);
  EXPECT_EQ(budget.n_stage, 1024);
  EXPECT_EQ(budget.scale_stage, 136 * 16);
  EXPECT_EQ(budget.rows, 64);  // of 8 tokens
  // 2 x 19,584 + 32 + 64 + 2,056
  EXPECT_EQ(budget.total, 41320);
  expect_whole(budget);
}

TEST(Budget, Mxfp4HasHalfTheScales) {
  TacticProduct product = glm_gate_up();
  product.format = Format::kMxfp4;
  const BlockBudget budget = budget_of(product, wide_tile());
  EXPECT_EQ(budget.scale_stage, 384 * 4);
  EXPECT_EQ(budget.total, 86072 - 3 * 384 * 4);
}

TEST(Budget, SixteenBitTokensByHand) {
  // The tile of w4a16_test.cpp, 182,344 B: four stages of 8 x 2 blocks of 2,048 + 256 B and of
  // 4 x 2 groups of 1,024 B.
  const TacticCandidate candidate{W4A16Tactic{
      .family = Family::kWgmma, .rows = 512, .tokens = 32, .stage_chunks = 2, .stages = 4}};
  const BlockBudget budget = budget_of(glm_gate_up(), candidate);
  EXPECT_EQ(budget.m_stage, 16 * 2048);
  EXPECT_EQ(budget.scale_stage, 16 * 256);
  EXPECT_EQ(budget.n_stage, 8192);
  EXPECT_EQ(budget.barriers, 64);
  EXPECT_EQ(budget.rows, 0);
  EXPECT_EQ(budget.total, 182344);
  expect_whole(budget);
}

TEST(Budget, ExpertsTakeRoom) {
  TacticProduct product = glm_gate_up();
  product.experts = 1025;
  EXPECT_EQ(budget_of(product, wide_tile()).total, 86072 + 8 * (1025 - 256));
}

TEST(Budget, PartsOfAllCandidatesAddUp) {
  for (const TacticFamily family : {TacticFamily::kW4A4, TacticFamily::kW4A16}) {
    ASSERT_FALSE(tactic_candidates(family).empty());
    for (const TacticCandidate& candidate : tactic_candidates(family)) {
      for (const TacticProduct& product : {glm_gate_up(), glm_down()}) {
        expect_whole(budget_of(product, candidate));
      }
    }
  }
}

// The table of experts brings the same tile to any multiple of 8 B: 84,016 + 8 x (experts + 1).
TacticProduct with_total(std::int64_t bytes) {
  TacticProduct product = glm_gate_up();
  product.experts = (bytes - 84016) / 8 - 1;
  return product;
}

TEST(Budget, ATacticExactlyAtTheLimit) {
  ASSERT_EQ(budget_of(with_total(101376), wide_tile()).total, 101376);
  EXPECT_TRUE(check_tactic(with_total(101376), wide_tile(), kSm120Limits).ok());
  ASSERT_EQ(budget_of(with_total(101384), wide_tile()).total, 101384);
  EXPECT_FALSE(check_tactic(with_total(101384), wide_tile(), kSm120Limits).ok());
  ASSERT_EQ(budget_of(with_total(102400), wide_tile()).total, 102400);
  EXPECT_FALSE(check_tactic(with_total(102400), wide_tile(), kSm120Limits).ok());
}

TEST(Budget, LimitsAroundATactic) {
  for (const auto& [limit, fits] : {std::pair{101375, false}, std::pair{101376, true},
                                    std::pair{101377, true}, std::pair{102400, true}}) {
    BlockLimits limits = kSm120Limits;
    limits.shared_per_block = limit;
    limits.shared_per_sm = 110000;
    EXPECT_EQ(check_tactic(with_total(101376), wide_tile(), limits).ok(), fits) << limit;
  }
}

TEST(Budget, BlocksBesideEachOther) {
  // Two stages: 58,408 B; with 1,024 in units of 128 B that is 59,520, and two are 119,040.
  const TacticCandidate two = with_blocks(with_stages(wide_tile(), 2), 2);
  BlockLimits limits = kSm120Limits;
  EXPECT_FALSE(check_tactic(glm_gate_up(), two, limits).ok());
  limits.shared_per_sm = 119040;
  EXPECT_TRUE(check_tactic(glm_gate_up(), two, limits).ok());
  limits.shared_per_sm = 119039;
  EXPECT_FALSE(check_tactic(glm_gate_up(), two, limits).ok());
}

using Remedies = std::vector<std::string>;

TEST(Remedies, FewerStages) {
  // Four stages are 113,736 B; a smaller K is a multiple of 128, and there is none.
  EXPECT_EQ(remedies(glm_gate_up(), with_stages(wide_tile(), 4), kSm120Limits),
            (Remedies{"3 stages (86,072 B)"}));
}

TEST(Remedies, SmallerK) {
  // Two stages of K = 256 are 113,704 B, and there are no fewer.
  const TacticCandidate deep = with_k(with_stages(wide_tile(), 2), 256);
  EXPECT_EQ(remedies(glm_gate_up(), deep, kSm120Limits), (Remedies{"K = 128 (58,408 B)"}));
}

TEST(Remedies, FewerBlocks) {
  const TacticCandidate three = with_blocks(with_stages(wide_tile(), 2), 3);
  EXPECT_EQ(remedies(glm_gate_up(), three, kSm120Limits), (Remedies{"1 block an SM"}));
}

TEST(Remedies, BothAtOnce) {
  // Neither 2 stages of K = 512 (224,296 B) nor 8 of K = 128 (224,392 B).
  const TacticCandidate far = with_k(with_stages(wide_tile(), 8), 512);
  EXPECT_EQ(remedies(glm_gate_up(), far, kSm120Limits),
            (Remedies{"2 stages of K = 128 (58,408 B)"}));
}

TEST(Remedies, NoneIsSaidWhereNothingHelps) {
  BlockLimits tiny = kSm120Limits;
  tiny.shared_per_block = 49152;
  EXPECT_EQ(remedies(glm_gate_up(), wide_tile(), tiny), Remedies{});
}

TEST(Remedies, KIsOneThatAStageMayHave) {
  // 128 x 16 x 512 with tables of 4,096 experts: 2 x 144 x 288 + 32 + 128 + 32,776 = 115,880 B.
  // Three quarters of K, 95,144 B, would have room, but a stage has 128, 256, 512 or 1,024 values.
  TacticProduct product = glm_gate_up();
  product.experts = 4096;
  const TacticCandidate few{W4A4Tactic{.way = Way::kWeightsOnM,
                                       .m = 128,
                                       .n = 16,
                                       .k = 512,
                                       .stages = 2,
                                       .warps_m = 4,
                                       .warps_n = 1}};
  EXPECT_EQ(budget_of(product, few).total, 115880);
  EXPECT_EQ(budget_of(product, with_k(few, 384)).total, 95144);
  EXPECT_EQ(remedies(product, few, kSm120Limits), (Remedies{"K = 256 (74,408 B)"}));
}

// The tactic that a remedy names.
TacticCandidate as_said(const TacticCandidate& candidate, const std::string& remedy) {
  std::smatch said;
  if (std::regex_match(remedy, said, std::regex("(\\d+) stages of K = (\\d+) \\(.* B\\)"))) {
    return with_k(with_stages(candidate, std::stoi(said[1])), std::stoi(said[2]));
  }
  if (std::regex_match(remedy, said, std::regex("(\\d+) stages \\(.* B\\)"))) {
    return with_stages(candidate, std::stoi(said[1]));
  }
  if (std::regex_match(remedy, said, std::regex("K = (\\d+) \\(.* B\\)"))) {
    return with_k(candidate, std::stoi(said[1]));
  }
  if (std::regex_match(remedy, said, std::regex("(\\d+) blocks? an SM"))) {
    return with_blocks(candidate, std::stoi(said[1]));
  }
  ADD_FAILURE() << "no remedy: " << remedy;
  return candidate;
}

// Each candidate, as deep as it is and deeper.
void expect_remedies_that_run(const TacticProduct& product, bool each_has_one) {
  BlockLimits roomy = kSm120Limits;
  roomy.shared_per_block = roomy.shared_per_sm = 1 << 30;
  for (const TacticFamily family : {TacticFamily::kW4A4, TacticFamily::kW4A16}) {
    for (const TacticCandidate& one : tactic_candidates(family)) {
      for (const TacticCandidate& candidate : {one, with_stages(one, 8), with_k(one, 512)}) {
        if (check_tactic(product, candidate, kSm120Limits).ok()) continue;
        const Remedies list = remedies(product, candidate, kSm120Limits);
        if (!check_tactic(product, candidate, roomy).ok()) {
          EXPECT_EQ(list, Remedies{}) << candidate.name();  // sm_120 has no clusters, say
          continue;
        }
        EXPECT_TRUE(!each_has_one || !list.empty()) << candidate.name();
        for (const std::string& remedy : list) {
          const Result<> checked = check_tactic(product, as_said(candidate, remedy), kSm120Limits);
          EXPECT_TRUE(checked.ok())
              << candidate.name() << ", " << remedy << ": " << checked.error().message;
        }
      }
    }
  }
}

TEST(Remedies, EachOneRuns) {
  expect_remedies_that_run(glm_gate_up(), true);
  expect_remedies_that_run(glm_down(), true);
}

TEST(Remedies, EachOneRunsBesideTablesOf4096Experts) {
  TacticProduct product = glm_gate_up();
  product.experts = 4096;
  expect_remedies_that_run(product, false);
}

}  // namespace
}  // namespace nibble
