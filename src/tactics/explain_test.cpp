#include "tactics/explain.h"

#include <gtest/gtest.h>

#include "tactics/cutlass.h"
#include "tactics/test_products.h"

namespace nibble {
namespace {

Chip explained_chip() {
  return chip_of("sm_120a").value();
}

TEST(Explain, TheWideTilePartByPart) {
  const std::vector<TileBudget> budgets =
      explain_tile(glm_gate_up(), {128, 256, 128}, TacticFamily::kW4A4, explained_chip());
  ASSERT_EQ(budgets.size(), 2U);
  const TileBudget& tokens = budgets[0];
  EXPECT_EQ(tokens.way, Way::kTokensOnM);
  EXPECT_EQ(budgets[1].way, Way::kWeightsOnM);
  const auto part = [&](std::string_view name) -> const BudgetPart& {
    for (const BudgetPart& each : tokens.parts) {
      if (each.name == name) return each;
    }
    ADD_FAILURE() << name;
    return tokens.parts.front();
  };
  EXPECT_EQ(part("codes of M").bytes, 8192);
  EXPECT_EQ(part("codes of M").how, "128 x 128 / 2");
  EXPECT_EQ(part("codes of N").bytes, 16384);
  EXPECT_EQ(part("scales").bytes, 3072);
  EXPECT_EQ(part("scales").how, "(128 + 256) x 128 / 16");
  EXPECT_EQ(part("rows of tokens").bytes, 1024);
  EXPECT_FALSE(part("rows of tokens").per_stage);
  EXPECT_EQ(part("tables of experts").bytes, 2056);
  // Three stages fit (86,072 B); the fourth makes it 113,736 B, and the list ends.
  ASSERT_EQ(tokens.stages.size(), 4U);
  EXPECT_EQ(tokens.stages[2].total_bytes, 86072);
  EXPECT_EQ(tokens.stages[2].left_bytes, 15304);
  EXPECT_EQ(tokens.stages[2].blocks_per_sm, 1);
  EXPECT_EQ(tokens.stages[3].total_bytes, 113736);
  EXPECT_EQ(tokens.stages[3].left_bytes, -12360);
  EXPECT_EQ(tokens.stages[3].blocks_per_sm, 0);
  // One stage is 30,744 B: 31,872 with the driver's, of which 102,400 holds three.
  EXPECT_EQ(tokens.stages[0].blocks_per_sm, 3);
}

TEST(Explain, WhatThePartsSayIsTheTotal) {
  for (const TacticFamily family : {TacticFamily::kW4A4, TacticFamily::kW4A16}) {
    for (const TileBudget& budget :
         explain_tile(glm_gate_up(), {128, 64, 256}, family, explained_chip())) {
      for (const StageBudget& row : budget.stages) {
        std::int64_t sum = 0;
        for (const BudgetPart& part : budget.parts) {
          sum += part.bytes * (part.per_stage ? row.stages : 1);
        }
        EXPECT_EQ(sum, row.total_bytes);
      }
    }
  }
}

TEST(Explain, TilesThatAFamilyHasNot) {
  const auto count = [](const TacticTile& tile, TacticFamily family) {
    return explain_tile(glm_gate_up(), tile, family, explained_chip()).size();
  };
  EXPECT_EQ(count({16, 8, 128}, TacticFamily::kW4A4), 2U);
  EXPECT_EQ(count({16, 8, 128}, TacticFamily::kW4A16), 0U);  // blocks of 64 rows
  EXPECT_EQ(count({64, 8, 64}, TacticFamily::kW4A4), 0U);    // K in steps of 128
  EXPECT_EQ(count({64, 8, 64}, TacticFamily::kW4A16), 1U);
}

// docs/arithmetic.md, "Shared memory of a tile": 98,304 B grouped and 97,280 B dense.
TEST(Cutlass, TheWideTile) {
  const std::vector<CutlassUse> uses = cutlass_uses({128, 256, 128}, explained_chip());
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0].kernel, "grouped");
  EXPECT_EQ(uses[0].stages, 3);
  EXPECT_EQ(uses[0].bytes, 98304);
  EXPECT_EQ(uses[1].bytes, 97280);
  // ptxas for sm_120a: grouped 208 B of spill stores and 204 of loads; the dense kernel was not
  // compiled.
  EXPECT_EQ(uses[0].registers, 168);
  EXPECT_EQ(uses[0].spill_bytes, 208);
  EXPECT_FALSE(uses[1].registers.has_value());
  EXPECT_EQ(cutlass_uses({128, 64, 128}, explained_chip())[0].spill_bytes, 0);
  EXPECT_TRUE(cutlass_uses({64, 128, 128}, explained_chip()).empty());
  EXPECT_TRUE(cutlass_uses({128, 256, 128}, chip_of("sm_100a").value()).empty());
}

TEST(TacticTile, Parse) {
  const Result<TacticTile> tile = parse_tactic_tile("128x256x64");
  ASSERT_TRUE(tile.ok());
  EXPECT_EQ(*tile, (TacticTile{128, 256, 64}));
  EXPECT_EQ(to_string(*tile), "128x256x64");
  // CUTLASS's name: 64 B of K are 128 values.
  const Result<TacticTile> bytes = parse_tactic_tile("128x256x64B");
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, (TacticTile{128, 256, 128}));
  EXPECT_FALSE(parse_tactic_tile("128x256x4096B").ok());  // 8,192 values
  EXPECT_FALSE(parse_tactic_tile("128x256Bx64").ok());
  for (const char* text : {"", "128", "128x256", "128x256x", "128x256x128x", "1x2x3x4", "0x8x8",
                           "-8x8x8", "128x256x9999", "128X256X128", "axbxc", "128x256x128 "}) {
    const Result<TacticTile> none = parse_tactic_tile(text);
    ASSERT_FALSE(none.ok()) << text;
    EXPECT_EQ(none.error().kind, ErrorKind::kUsage);
    EXPECT_NE(none.error().message.find("as 128x256x128"), std::string::npos);
  }
}

}  // namespace
}  // namespace nibble
