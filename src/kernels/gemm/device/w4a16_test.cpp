// The grouped product's host side, and what its tactics compile to: no GPU is needed.
#include "kernels/gemm/device/w4a16.h"

#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "kernels/device/test_compile.h"

namespace nibble {
namespace {

constexpr W4A16Problem kGlmGateUp{.experts = 256, .n = 4096, .k = 6144, .mode = W4A16Mode::kSwiGlu};

TEST(W4A16Layout, SlotsOfAChunkFillItOnce) {
  // 8 slots x 64 columns x 2 bytes: every even byte of 1,024 is somebody's.
  std::set<std::int64_t> bytes;
  for (std::int64_t slot = 8; slot < 16; ++slot) {
    for (std::int64_t column = 64; column < 128; ++column) {
      bytes.insert(slot_byte(slot, column, 3));
    }
  }
  EXPECT_EQ(bytes.size(), 512U);
  // Group 1 of 3 chunks a group, chunk 1: byte (3 + 1) x 1024.
  EXPECT_EQ(*bytes.begin(), 4096);
  EXPECT_EQ(*bytes.rbegin(), 4096 + 1022);
  // Slot 1, column 16: t = 1, so place 2, in unit 0; row 1 has it at unit 1.
  EXPECT_EQ(slot_byte(1, 16, 1), 128 + 16 + 4);
}

TEST(W4A16Layout, RowsOfABlock) {
  EXPECT_EQ(source_row(RowOrder::kPlain, 1, 0, 128), 64);
  EXPECT_EQ(source_row(RowOrder::kPlain, 1, 8, 128), 65);
  EXPECT_EQ(source_row(RowOrder::kPlain, 0, 17, 128), 18);
  // Of 2 x 352 rows, block 3: gate rows from 96, up rows from 352 + 96.
  EXPECT_EQ(source_row(RowOrder::kGateUp, 3, 0, 704), 96);
  EXPECT_EQ(source_row(RowOrder::kGateUp, 3, 8, 704), 448);
  EXPECT_EQ(source_row(RowOrder::kGateUp, 11, 0, 704), 704);  // padding
  EXPECT_EQ(weight_tiles(704, 6144, kNvfp4ScaleBytes, RowOrder::kGateUp).blocks, 12);
  EXPECT_EQ(weight_tiles(704, 6144, kNvfp4ScaleBytes, RowOrder::kPlain).blocks, 11);
}

TEST(W4A16Tactic, SharedMemoryByHand) {
  const W4A16Tactic tactic{.family = Family::kWgmma,
                           .rows = 512,
                           .tokens = 32,
                           .stage_chunks = 2,
                           .stages = 4,
                           .groups = 2};
  const SharedPlan plan = shared_plan(tactic, kNvfp4ScaleBytes, 256);
  EXPECT_EQ(plan.token_stage, 4U * 2 * 1024);
  EXPECT_EQ(plan.weight_stage, 8U * 2 * 2304);
  // 4 x (8,192 + 36,864) + 4 x 16 for barriers + 2 x 257 x 4 for tables
  EXPECT_EQ(plan.bytes, 182344U);
  EXPECT_EQ(tactic.threads(), 384);
  EXPECT_EQ(to_string(tactic), "wgmma 512x32x128 4 stages 2 groups split");
  EXPECT_EQ(to_string(kGlmGateUp), "256 x [4096, 6144] nvfp4 x bf16 swiglu");
}

std::string refusal(const W4A16Tactic& tactic, const BlockLimits& limits = {},
                    const W4A16Problem& problem = kGlmGateUp) {
  const Result<> checked = check_tactic(problem, tactic, limits);
  return checked.ok() ? "" : checked.error().message;
}

TEST(W4A16Tactic, WhatCannotRunSaysWhy) {
  constexpr BlockLimits kAda{
      .major = 8, .minor = 9, .shared_per_block = 101376, .shared_per_sm = 102400};
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({.rows = 96}),
            "tactic mma 96x8x128 4 stages 2 groups split: 96 rows are not whole blocks of 64 for "
            "each of 2 groups");
  EXPECT_EQ(refusal({.tokens = 12}),
            "tactic mma 256x12x128 4 stages 2 groups split: 12 tokens; a tile has a multiple of 8 "
            "up to 256");
  EXPECT_EQ(refusal({.family = Family::kWgmma}, kAda),
            "tactic wgmma 256x8x128 4 stages 2 groups split: wgmma is an instruction of sm_90a "
            "alone, and this is sm_89");
  EXPECT_EQ(refusal({.family = Family::kWgmma, .tokens = 40}),
            "tactic wgmma 256x40x128 4 stages 2 groups split: there is no wgmma of 40 tokens here; "
            "take 8, 16, 24, 32, 48, 64, 96 or 128");
  EXPECT_EQ(refusal({.family = Family::kWgmma, .rows = 192, .stage_chunks = 1, .groups = 1}),
            "tactic wgmma 192x8x64 4 stages 1 groups split: a warpgroup has an odd number of tiles "
            "in a stage, and its two sets of registers take turns");
  EXPECT_EQ(refusal({.cluster = 2}, kAda),
            "tactic mma 256x8x128 4 stages 2 groups cluster 2 split: clusters came with sm_90, and "
            "this is sm_89");
  // 12 x 20,480 + 12 x 16 + 2,056
  EXPECT_EQ(refusal({.stages = 12}),
            "tactic mma 256x8x128 12 stages 2 groups split takes 248008 bytes of shared memory; a "
            "block has at most 232448");
  // 4 x 20,480 + 64 + 2,056 + 1,024 a block, in units of 128
  EXPECT_EQ(refusal({.blocks_per_sm = 3}),
            "tactic mma 256x8x128 4 stages 2 groups 3 an SM split: 3 blocks take 255360 bytes of "
            "shared memory; an SM has 233472");
  EXPECT_EQ(refusal({.groups = 0}),
            "tactic mma 256x8x128 4 stages 0 groups split: 256 rows are not whole blocks of 64 for "
            "each of 0 groups");
  EXPECT_EQ(refusal({.rows = 64 * 16, .groups = 8}),
            "tactic mma 1024x8x128 4 stages 8 groups split: 1056 threads; a block has at most "
            "1,024");
}

// Code for compute_80 on an H200: that one's memory, without its instructions.
TEST(W4A16Tactic, CodeOfAnEarlierArchitecture) {
  const cuda::DeviceInfo h200{
      .major = 9, .minor = 0, .shared_per_block_optin = 232448, .shared_per_sm = 233472};
  const BlockLimits limits = limits_of(h200, *cuda::parse_arch("compute_80"));
  EXPECT_EQ(refusal({.rows = 512, .stages = 5}, limits), "");
  EXPECT_EQ(refusal({.family = Family::kWgmma}, limits),
            "tactic wgmma 256x8x128 4 stages 2 groups split: wgmma is an instruction of sm_90a "
            "alone, and this is sm_80");
  EXPECT_EQ(refusal({.cluster = 2}, limits),
            "tactic mma 256x8x128 4 stages 2 groups cluster 2 split: clusters came with sm_90, and "
            "this is sm_80");
  EXPECT_EQ(refusal({.cluster = 2}, limits_of(h200, *cuda::parse_arch("compute_90"))), "");
}

TEST(W4A16Tactic, StepsAreCountedIn32Bits) {
  // 64 blocks in row tiles of 2 x 8, 96 chunks by two: 4 x 48 steps a token tile, and 2^31 - 1 over
  // 192 is 11,184,810 tiles; 256 of them may be partly full.
  const W4A16Tactic tactic{.rows = 512, .groups = 4, .cluster = 2};
  EXPECT_TRUE(check_choices(kGlmGateUp, tactic, 8 * (11184810 - 256)).ok());
  const Result<> refused = check_choices(kGlmGateUp, tactic, 8 * (11184810 - 256) + 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(
      refused.error().message,
      "89476433 tokens of all experts are up to 11184811 tiles of 8; a launch of 256 x [4096, "
      "6144] nvfp4 x bf16 swiglu has at most 11184810: take a tactic with more tokens a tile, "
      "or fewer tokens at a time");
  EXPECT_TRUE(check_choices(kGlmGateUp, tactic, 0).ok());
}

TEST(W4A16Tactic, ProblemsThatAreNone) {
  const auto of = [](W4A16Problem problem) {
    const Result<> checked = check_problem(problem);
    return checked.ok() ? std::string() : checked.error().message;
  };
  EXPECT_EQ(of({.n = 64, .k = 64}), "");
  EXPECT_EQ(of({.experts = 0, .n = 64, .k = 64}), "0 experts; a grouped product has 1 to 4096");
  EXPECT_EQ(of({.n = 0, .k = 64}), "a matrix of 0 x 64; both sides are from 1 to 16777216");
  EXPECT_EQ(of({.n = 64, .k = 64, .format = Format::kBf16}),
            "weights in bf16: the W4A16 kernels take nvfp4 and mxfp4");
  EXPECT_EQ(of({.n = 64, .k = 64, .activations = Element::kFp32}),
            "fp32 activations: the W4A16 kernels take bf16 and fp16");
  EXPECT_EQ(of({.n = 65, .k = 64, .mode = W4A16Mode::kSwiGlu}),
            "gate and up have 65 rows together, which is odd");
}

TEST(W4A16Tactic, DefaultsFit) {
  const cuda::DeviceInfo h200{.major = 9,
                              .minor = 0,
                              .sms = 132,
                              .shared_per_block_optin = 232448,
                              .shared_per_sm = 233472};
  for (const std::int64_t n : {64, 512, 1536, 4096, 5760, 6144}) {
    for (const std::int64_t rows : {1, 8, 9, 16, 17, 32, 40, 64, 65, 128, 1000}) {
      const W4A16Problem problem{.experts = 1025, .n = n, .k = 6144};
      const W4A16Tactic tactic = default_tactic(problem, rows, h200);
      EXPECT_TRUE(check_tactic(problem, tactic, limits_of(h200)).ok()) << to_string(tactic);
      EXPECT_GE(tactic.tokens, std::min<std::int64_t>(rows, 96)) << to_string(tactic);
      // No block of a cluster is without rows.
      EXPECT_LE((tactic.cluster - 1) * tactic.rows, n) << to_string(tactic);
    }
  }
}

TEST(W4A16Tactic, TilesThatTheMatrixIsMadeOf) {
  // 90 blocks of 64 rows are 9 tiles of 640, and 45 chunks 15 steps of three.
  const W4A16Problem gpt{.experts = 128, .n = 5760, .k = 2880, .format = Format::kMxfp4};
  EXPECT_EQ(to_string(default_tactic(gpt, 8, kTestH200, 1024)),
            "mma 640x8x192 3 stages 5 groups split");
  // 8 blocks: one tile of 512 rows, without a neighbour.
  const W4A16Problem shard{.experts = 256, .n = 512, .k = 6144, .mode = W4A16Mode::kSwiGlu};
  EXPECT_EQ(to_string(default_tactic(shard, 8, kTestH200, 2048)),
            "mma 512x8x128 5 stages 4 groups split");
  EXPECT_EQ(to_string(default_tactic(kGlmGateUp, 8, kTestH200, 2048)),
            "mma 512x8x128 5 stages 4 groups cluster 2 split");
}

TEST(W4A16Tactic, FewColumnsTakeSeveralBlocksAnSm) {
  const W4A16Problem down{.experts = 256, .n = 6144, .k = 256};
  EXPECT_EQ(to_string(default_tactic(down, 8, kTestH200, 2048)),
            "mma 256x8x128 3 stages 2 groups 3 an SM");
  EXPECT_EQ(to_string(default_tactic(down, 16, kTestH200, 4096)),
            "wgmma 128x16x256 2 stages 1 groups 3 an SM");
}

// Of 256 experts: 32 tokens each on average, and one with 806; 32 each; 16 each, and one with 29.
TEST(W4A16Tactic, OneLargeExpertDoesNotMakeAllTilesWide) {
  EXPECT_EQ(default_tactic(kGlmGateUp, 806, kTestH200, 8192).tokens, 64);
  EXPECT_EQ(default_tactic(kGlmGateUp, 806, kTestH200).tokens, 128);
  EXPECT_EQ(default_tactic(kGlmGateUp, 32, kTestH200, 8192).tokens, 32);
  EXPECT_EQ(default_tactic(kGlmGateUp, 29, kTestH200, 4096).tokens, 32);
}

TEST(W4A16Tactic, TilesOfFewTokensTakeTheNarrowerInstruction) {
  const W4A16Tactic wide{
      .family = Family::kWgmma, .rows = 512, .tokens = 64, .groups = 2, .fragments = 4};
  EXPECT_EQ(wide.width_for(64), 64);
  EXPECT_EQ(wide.width_for(33), 64);
  EXPECT_EQ(wide.width_for(32), 32);
  EXPECT_EQ(wide.width_for(1), 32);
  const W4A16Tactic narrow{.family = Family::kWgmma, .tokens = 16};
  EXPECT_EQ(narrow.width_for(1), 16);
  const W4A16Tactic crowded{.family = Family::kWgmma, .rows = 256, .tokens = 64, .groups = 4};
  EXPECT_EQ(crowded.width_for(8), 64);  // 112 registers
}

// 48 KB a block: two are there at once with what the driver takes of each.
TEST(W4A16Tactic, TwoBlocksWhereAnSmHas100Kb) {
  const cuda::DeviceInfo rtx{.major = 12,
                             .minor = 0,
                             .sms = 188,
                             .shared_per_block_optin = 101376,
                             .shared_per_sm = 102400};
  for (const std::int64_t rows : {1, 8, 16, 17, 64}) {
    const W4A16Problem problem{.experts = 256, .n = 512, .k = 6144};
    const W4A16Tactic tactic = default_tactic(problem, rows, rtx);
    EXPECT_TRUE(check_tactic(problem, tactic, kSm120Limits).ok()) << to_string(tactic);
    EXPECT_EQ(tactic.family, Family::kMma);
    EXPECT_EQ(tactic.blocks_per_sm, rows <= 16 ? 2 : 1) << to_string(tactic);
    EXPECT_GE(tactic.stages, 3) << to_string(tactic);
  }
}

void expect_w4a16_in_registers(const W4A16Problem& problem, const W4A16Tactic& tactic,
                               const char* arch) {
  SCOPED_TRACE(to_string(problem) + ", " + to_string(tactic) + ", " + arch);
  expect_in_registers(compile_w4a16(problem, tactic, arch));
}

// Every tactic that is taken by default or offered to a tuner.
TEST(DeviceCompile, W4A16TacticsStayInRegisters) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  for (const W4A16Tactic& tactic : w4a16_tactics(kGlmGateUp, {})) {
    if (tactic.split) expect_w4a16_in_registers(kGlmGateUp, tactic, "sm_90a");
  }
}

TEST(DeviceCompile, W4A16TacticsOfPlainRowsStayInRegisters) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  const W4A16Problem down{.experts = 256, .n = 6144, .k = 2048};
  for (const W4A16Tactic& tactic : w4a16_tactics(down, {})) {
    if (tactic.split) expect_w4a16_in_registers(down, tactic, "sm_90a");
  }
}

TEST(DeviceCompile, W4A16OnOtherArchitectures) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  W4A16Problem problem{.experts = 128,
                       .n = 5760,
                       .k = 2880,
                       .format = Format::kMxfp4,
                       .mode = W4A16Mode::kClampedSwiGlu,
                       .bias = true};
  const W4A16Tactic tactic{.rows = 256, .tokens = 16, .stages = 3, .groups = 2};
  for (const char* const arch : {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    expect_w4a16_in_registers(problem, tactic, arch);
  }
  problem = {
      .experts = 8, .n = 333, .k = 333, .activations = Element::kFp16, .output = Element::kFp32};
  expect_w4a16_in_registers(problem, tactic, "sm_80");
  // PTX has wgmma in that of sm_90a alone. What it takes of an SM nobody knows before it is loaded.
  for (const char* const arch : {"compute_80", "compute_90", "compute_90a"}) {
    const auto ptx = compile_w4a16(problem, tactic, arch);
    ASSERT_TRUE(ptx.ok()) << ptx.error().message;
    ASSERT_EQ(ptx->kernels.size(), 1U);
    EXPECT_EQ(ptx->kernels[0].name, "w4a16");
    EXPECT_EQ(ptx->kernels[0].parameter_bytes, std::vector<int>{sizeof(W4A16Params)});
    EXPECT_EQ(ptx->kernels[0].max_threads, tactic.threads());
    EXPECT_EQ(ptx->kernels[0].registers, std::nullopt);
  }
  EXPECT_TRUE(compile_w4a16(problem, {.family = Family::kWgmma}, "compute_90a").ok());
  EXPECT_FALSE(compile_w4a16(problem, {.family = Family::kWgmma}, "compute_90").ok());
  EXPECT_FALSE(compile_w4a16(problem, {.family = Family::kWgmma}, "compute_80").ok());
  const auto refused = compile_w4a16(problem, {.family = Family::kWgmma}, "sm_120a");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "tactic wgmma 256x8x128 4 stages 2 groups split: wgmma is an instruction of sm_90a "
            "alone, not of sm_120a");
}

}  // namespace
}  // namespace nibble
