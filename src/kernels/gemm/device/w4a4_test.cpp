// The W4A4 product without a GPU: sizes by hand, what is refused, and that tactics compile for
// sm_120 without spilling, wherever NVRTC is.
#include "kernels/gemm/device/w4a4.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <tuple>

#include "formats/codec.h"
#include "kernels/device/test_compile.h"
#include "kernels/gemm/device/test_w4a4.h"

namespace nibble {
namespace {

// GLM-5's shard of a tensor-parallel group of eight.
const W4A4Problem kGateUpTp8{.experts = 256, .n = 512, .k = 6144, .epilogue = Epilogue::kSwiGlu};

TEST(W4A4Shared, ByHand) {
  // 128 x 256 x 128: a row has 64 B of codes and 8 scales a stage.
  const W4A4Tactic wide{.m = 128, .n = 256, .k = 128, .stages = 3, .warps_m = 2, .warps_n = 4};
  const W4A4Shared plan = w4a4_shared(wide, WeightFormat::kNvfp4, 256);
  EXPECT_EQ(plan.m_stage, 128U * 64U);
  EXPECT_EQ(plan.n_stage, 256U * 64U);
  EXPECT_EQ(plan.scale_stage, 384U * 8U);
  EXPECT_EQ(plan.stage(), 27648U);
  // Six barriers of 8 B, two rows for each of 128 tokens, two tables of 257.
  EXPECT_EQ(plan.bytes, 3U * 27648U + 48U + 1024U + 2056U);
  // MXFP4 has half as many scales.
  EXPECT_EQ(w4a4_shared(wide, WeightFormat::kMxfp4, 256).scale_stage, 384U * 4U);
  // Tokens on N: eight of them.
  const W4A4Tactic few{.way = Way::kWeightsOnM, .m = 64, .n = 8, .k = 256, .stages = 4};
  EXPECT_EQ(w4a4_shared(few, WeightFormat::kNvfp4, 1).bytes,
            4U * (72U * 128U + 72U * 16U) + 64U + 64U + 16U);
}

TEST(W4A4Tactic, ThreadsAndRegistersThatMove) {
  // 128 sums a thread: a third warp would take the registers of the two beside it.
  const W4A4Tactic wide{.m = 128, .n = 256, .warps_m = 2, .warps_n = 4};
  EXPECT_TRUE(wide.moves_registers());
  EXPECT_EQ(wide.threads(), 384);
  const W4A4Tactic square{.m = 128, .n = 128, .warps_m = 2, .warps_n = 4};
  EXPECT_FALSE(square.moves_registers());
  EXPECT_EQ(square.threads(), 288);
}

// 102,400 B an SM: half of it is 51,200, of which a block asks for 1,024 less than it takes.
TEST(BlockLimits, AnSmHoldsAsManyBlocksAsItIsTo) {
  EXPECT_EQ(shared_for_blocks(20000, 1, kSm120Limits), 51200 + 128 - 1024);
  EXPECT_EQ(shared_for_blocks(86072, 1, kSm120Limits), 86072);
  // Two: a third is 34,133, in units of 128 34,048, and 34,176 is too much for three.
  EXPECT_EQ(shared_for_blocks(20000, 2, kSm120Limits), 34176 - 1024);
  EXPECT_GT(3 * shared_of_block(shared_for_blocks(20000, 2, kSm120Limits)), 102400);
  EXPECT_LE(2 * shared_of_block(shared_for_blocks(20000, 2, kSm120Limits)), 102400);
}

std::string refusal(const W4A4Problem& problem, const W4A4Tactic& tactic,
                    const BlockLimits& limits = kSm120Limits) {
  const auto result = check_tactic(problem, tactic, limits);
  return result.ok() ? "" : result.error().message;
}

TEST(W4A4Tactic, TheLastByteDecides) {
  // 128 x 128 x 128, five stages, one expert: 5 x 18,432 + 80 + 1,024 + 16 = 93,280.
  const W4A4Problem problem{.n = 128, .k = 128};
  const W4A4Tactic tactic{.m = 128, .n = 128, .k = 128, .stages = 5};
  BlockLimits limits = kSm120Limits;
  limits.shared_per_block = 93280;
  EXPECT_EQ(refusal(problem, tactic, limits), "");
  limits.shared_per_block = 93279;
  EXPECT_EQ(refusal(problem, tactic, limits),
            "tactic w4a4 tokens 128x128x128 5 stages 2x4 warps split takes 93280 bytes of shared "
            "memory; a block has at most 93279");
  // Two blocks of 93,280 + 1,024, each in units of 128: 94,336.
  W4A4Tactic two = tactic;
  two.blocks_per_sm = 2;
  limits = kSm120Limits;
  limits.shared_per_sm = 188672;
  EXPECT_EQ(refusal(problem, two, limits), "");
  limits.shared_per_sm = 188671;
  EXPECT_EQ(refusal(problem, two, limits),
            "tactic w4a4 tokens 128x128x128 5 stages 2x4 warps 2 an SM split: 2 blocks take 188672 "
            "bytes of shared memory; an SM has 188671");
}

TEST(W4A4Tactic, WhatIsNoTile) {
  const W4A4Problem plain{.n = 128, .k = 128};
  EXPECT_NE(refusal(plain, {.m = 100}).find("not whole products of 16 x 8"), std::string::npos);
  EXPECT_NE(refusal(plain, {.n = 96, .warps_n = 4}).find("24 columns a warp"), std::string::npos);
  EXPECT_NE(refusal(plain, {.k = 384}).find("384 values a stage"), std::string::npos);
  EXPECT_NE(refusal(plain, {.stages = 0}).find("stages are from 1"), std::string::npos);
  EXPECT_NE(refusal(plain, {}, {.major = 7, .minor = 5}).find("came with sm_80"),
            std::string::npos);
  // 16 gate and up rows are 8 columns: half a block of NVFP4.
  W4A4Problem gated{.n = 128, .k = 128, .epilogue = Epilogue::kSwiGlu};
  const W4A4Tactic narrow{
      .way = Way::kWeightsOnM, .m = 64, .n = 8, .k = 128, .warps_m = 4, .warps_n = 1};
  EXPECT_EQ(refusal(gated, narrow), "");
  gated.output = W4A4Output::kNvfp4;
  EXPECT_NE(refusal(gated, narrow).find("16 weight rows a warp"), std::string::npos);
}

TEST(W4A4Problem, WhatIsRefused) {
  const auto of = [](const W4A4Problem& problem) {
    const auto result = check_problem(problem);
    return result.ok() ? "" : result.error().message;
  };
  EXPECT_EQ(of({.n = 64, .k = 48}), "");
  // 352 and 1,856 over eight ranks.
  EXPECT_EQ(
      of({.n = 64, .k = 44}),
      "a matrix of 64 x 44 in nvfp4: its 44 columns are not whole blocks of 16, and a block's "
      "scale cannot be shared between ranks; take a tensor-parallel size that divides them, or "
      "W4A16");
  EXPECT_NE(of({.n = 64, .k = 232}), "");
  EXPECT_NE(of({.n = 64, .k = 80, .format = Format::kMxfp4}), "");
  EXPECT_EQ(of({.n = 64, .k = 80}), "");
  EXPECT_EQ(of({.n = 64, .k = 64, .output = W4A4Output::kNvfp4}),
            "only gated products have an nvfp4 output");
  EXPECT_EQ(of({.n = 80, .k = 64, .output = W4A4Output::kNvfp4, .epilogue = Epilogue::kSwiGlu}),
            "gate and up of 80 rows give 40 columns, which are not whole nvfp4 blocks of 16; take "
            "another output");
  EXPECT_EQ(of({.n = 65, .k = 64, .epilogue = Epilogue::kSwiGlu}),
            "gate and up have 65 rows together, which is odd");
  EXPECT_EQ(of({.n = 64, .k = 64, .format = Format::kBf16}),
            "weights in bf16: the W4A4 kernels take nvfp4 and mxfp4");
  EXPECT_EQ(of({.experts = 5000, .n = 64, .k = 64}),
            "5000 experts; a grouped product has 1 to 4096");
}

TEST(W4A4Tactics, ForSm120) {
  std::set<std::tuple<int, int, int, Way>> tiles;
  bool wide = false;
  bool tall = false;
  for (const W4A4Tactic& tactic : w4a4_tactics(kGateUpTp8, kSm120Limits)) {
    EXPECT_TRUE(check_tactic(kGateUpTp8, tactic, kSm120Limits).ok()) << to_string(tactic);
    EXPECT_GE(tactic.stages, 2) << to_string(tactic);
    tiles.emplace(tactic.m, tactic.n, tactic.k, tactic.way);
    wide |= tactic.m == 128 && tactic.n == 256 && tactic.k == 128;
    tall |= tactic.m == 256 && tactic.n == 128 && tactic.k == 128;
  }
  EXPECT_GE(tiles.size(), 24U);
  EXPECT_TRUE(wide && tall);
}

TEST(W4A4Tactics, DefaultsFit) {
  for (const std::int64_t experts : {1, 256, 1025, 4096}) {
    for (const std::int64_t rows : {1, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 4096}) {
      const W4A4Problem problem{.experts = experts, .n = 512, .k = 6144};
      const W4A4Tactic tactic = default_tactic(problem, rows, kSm120Limits);
      EXPECT_TRUE(check_tactic(problem, tactic, kSm120Limits).ok()) << to_string(tactic);
      EXPECT_GE(tactic.tokens(), std::min<std::int64_t>(rows, 64)) << to_string(tactic);
    }
  }
}

// Every candidate runs each case of the tests on a GPU, or is refused with its bytes.
TEST(W4A4Tactics, EveryCaseIsTestedOrRefusedWithNumbers) {
  std::set<std::string> names;
  for (const W4A4Case& what : w4a4_cases_of_every_tactic()) {
    EXPECT_TRUE(names.insert(what.name).second) << what.name;
    const W4A4Problem problem = problem_of(what);
    const std::vector<W4A4Tactic> offered = w4a4_tactics(problem, kSm120Limits);
    EXPECT_GE(offered.size(), 24U) << what.name;
    for (W4A4Tactic tactic : w4a4_candidates()) {
      const auto same_tile = [&tactic](const W4A4Tactic& other) {
        return other.way == tactic.way && other.m == tactic.m && other.n == tactic.n &&
               other.k == tactic.k;
      };
      if (std::any_of(offered.begin(), offered.end(), same_tile)) continue;
      tactic.stages = 2;
      tactic.blocks_per_sm = 1;
      const W4A4Shared plan =
          w4a4_shared(tactic, problem.weight_format(), static_cast<int>(problem.experts));
      EXPECT_GT(plan.bytes, 101376U) << to_string(tactic);
      EXPECT_EQ(refusal(problem, tactic),
                "tactic " + to_string(tactic) + " takes " + std::to_string(plan.bytes) +
                    " bytes of shared memory; a block has at most 101376");
    }
  }
}

// 352 over four and eight ranks, 1,856 over eight; 640 over eight in MXFP4: by every tactic.
TEST(W4A4Tactics, RefuseSplitsThatAreNoWholeBlocks) {
  for (const W4A4Problem& down : {W4A4Problem{.n = 72, .k = 88},
                                  {.n = 72, .k = 44},
                                  {.n = 72, .k = 232},
                                  {.n = 72, .k = 80, .format = Format::kMxfp4}}) {
    EXPECT_TRUE(w4a4_tactics(down, kSm120Limits).empty());
    for (const W4A4Tactic& tactic : w4a4_candidates()) {
      const std::string said = refusal(down, tactic);
      EXPECT_NE(said.find("a matrix of 72 x " + std::to_string(down.k)), std::string::npos) << said;
      EXPECT_NE(
          said.find(down.format == Format::kNvfp4 ? "whole blocks of 16" : "whole blocks of 32"),
          std::string::npos)
          << said;
    }
  }
}

TEST(W4A4Choices, AreCountedIn32Bits) {
  const W4A4Tactic tactic{.way = Way::kWeightsOnM, .m = 128, .n = 8, .k = 256};
  EXPECT_TRUE(check_choices(kGateUpTp8, tactic, 1 << 20).ok());
  // 4 row tiles of 24 steps each: 2^31 / 96 tiles at most.
  EXPECT_FALSE(check_choices(kGateUpTp8, tactic, std::int64_t{22369621} * 8 + 1).ok());
}

// ---- what the tests on a GPU compare with
// --------------------------------------------------------

TEST(W4A4TestMatrix, ValuesAreThoseOfTheFormats) {
  W4A4Matrix matrix{.rows = 1, .columns = 32, .block = 16, .codes = {}, .scales = {0, 0}};
  for (int code = 0; code < 32; code += 2) {
    matrix.codes.push_back(static_cast<std::uint8_t>((code & 15) | ((code + 1) & 15) << 4));
  }
  for (int scale = 0; scale < 127; ++scale) {
    matrix.scales = {static_cast<std::uint8_t>(scale), static_cast<std::uint8_t>(126 - scale)};
    for (int column = 0; column < 32; ++column) {
      const float factor = e4m3_to_float(matrix.scales[static_cast<std::size_t>(column / 16)]);
      const float code = e2m1_to_float(static_cast<std::uint8_t>(column % 16));
      ASSERT_EQ(matrix.value(0, column), static_cast<double>(code * factor)) << scale;
    }
  }
  matrix.block = 32;
  for (int scale = 1; scale < 255; ++scale) {
    matrix.scales = {static_cast<std::uint8_t>(scale)};
    ASSERT_EQ(matrix.value(0, 7), 6 * static_cast<double>(e8m0_to_float(matrix.scales[0])));
  }
}

std::vector<std::byte> with_float(std::vector<std::byte> bytes, std::size_t at, float value) {
  std::memcpy(bytes.data() + at * 4, &value, 4);
  return bytes;
}

// 11 slots of 72 columns.
TEST(W4A4TestProduct, AWrongOutputIsAFault) {
  W4A4Product product({.name = "right",
                       .counts = {9, 0, 2},
                       .problem = {.n = 72, .k = 176, .output = W4A4Output::kFp32}});
  const std::vector<std::byte> right = product.right_bytes();
  ASSERT_EQ(right.size(), 11U * 72 * 4);
  EXPECT_EQ(product.fault(right), "");
  float value = 0;
  std::memcpy(&value, right.data() + std::size_t{5 * 72 + 7} * 4, 4);
  const std::string off = product.fault(with_float(right, 5 * 72 + 7, value + 1));
  EXPECT_NE(off.find("slot 5, column 7: "), std::string::npos) << off;
  const std::string none = product.fault(with_float(right, 791, std::nanf("")));
  EXPECT_NE(none.find("slot 10, column 71: nan"), std::string::npos) << none;
  // Nothing was written, or rows stand in one another's place.
  EXPECT_NE(product.fault(std::vector<std::byte>(right.size(), std::byte{0xff})), "");
  EXPECT_NE(product.fault(std::vector<std::byte>(right.size(), std::byte{0})), "");
  std::vector<std::byte> turned = right;
  std::rotate(turned.begin(), turned.begin() + 72 * 4, turned.end());
  EXPECT_NE(product.fault(turned), "");
}

TEST(W4A4TestProduct, RoundedOutputsAreRightAndTurnedSignsAreNot) {
  for (const W4A4Output output : {W4A4Output::kBf16, W4A4Output::kFp16}) {
    W4A4Product product(
        {.name = "rounded",
         .counts = {3},
         .problem = {.n = 40, .k = 96, .output = output, .epilogue = Epilogue::kSwiGlu}});
    std::vector<std::byte> bytes = product.right_bytes();
    EXPECT_EQ(product.fault(bytes), "");
    for (std::size_t at = 1; at < bytes.size(); at += 2) bytes[at] ^= std::byte{0x80};
    EXPECT_NE(product.fault(bytes), "");
  }
}

TEST(W4A4TestProduct, NoTokensHaveNoFault) {
  W4A4Product product({.name = "none", .counts = {0, 0}, .problem = {.n = 72, .k = 176}});
  EXPECT_EQ(product.right_bytes().size(), 0U);
  EXPECT_EQ(product.fault({}), "");
}

// The widest tiles, the narrowest, and what a fused quantization and MXFP4 add.
TEST(DeviceCompile, W4A4StaysInRegisters) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  const auto compiles = [](const W4A4Problem& problem, const W4A4Tactic& tactic, const char* arch) {
    SCOPED_TRACE(to_string(problem) + ", " + to_string(tactic) + ", " + arch);
    expect_in_registers(compile_w4a4(problem, tactic, arch));
  };
  const W4A4Tactic wide{.m = 128, .n = 256, .k = 128, .stages = 3};
  const W4A4Tactic tall{.m = 256, .n = 128, .k = 128, .stages = 3, .warps_m = 4, .warps_n = 2};
  const W4A4Tactic few{.way = Way::kWeightsOnM,
                       .m = 128,
                       .n = 8,
                       .k = 256,
                       .stages = 2,
                       .warps_m = 4,
                       .warps_n = 1,
                       .blocks_per_sm = 2};
  W4A4Problem quantized = kGateUpTp8;
  quantized.output = W4A4Output::kNvfp4;
  const W4A4Problem clamped{.experts = 32,
                            .n = 5760,
                            .k = 2880,
                            .format = Format::kMxfp4,
                            .epilogue = Epilogue::kClampedSwiGlu,
                            .bias = true};
  compiles(kGateUpTp8, wide, "sm_120a");
  compiles(quantized, tall, "sm_120a");
  compiles(clamped, wide, "sm_120a");
  compiles(quantized, few, "sm_120a");
  compiles({.n = 96, .k = 48}, few, "sm_120f");
  compiles({.n = 96, .k = 48}, few, "sm_121a");
}

TEST(DeviceCompile, W4A4WhereThereIsNoInstruction) {
  EXPECT_TRUE(has_fp4_mma(*cuda::parse_arch("sm_120a")));
  EXPECT_TRUE(has_fp4_mma(*cuda::parse_arch("sm_120f")));
  EXPECT_TRUE(has_fp4_mma(*cuda::parse_arch("sm_121a")));
  EXPECT_FALSE(has_fp4_mma(*cuda::parse_arch("sm_120")));
  EXPECT_FALSE(has_fp4_mma(*cuda::parse_arch("sm_100a")));
  EXPECT_FALSE(has_fp4_mma(*cuda::parse_arch("sm_90a")));
  NIBBLE_SKIP_WITHOUT_COMPILER();
  const W4A4Tactic few{
      .way = Way::kWeightsOnM, .m = 64, .n = 8, .k = 128, .warps_m = 2, .warps_n = 1};
  for (const char* const arch : {"sm_120", "sm_90a", "sm_80", "compute_80"}) {
    const auto cubin = compile_w4a4({.n = 96, .k = 48}, few, arch);
    ASSERT_TRUE(cubin.ok()) << cubin.error().message;
    ASSERT_EQ(cubin->kernels.size(), 1U);
    EXPECT_EQ(cubin->kernels[0].parameter_bytes, std::vector<int>{sizeof(W4A4Params)});
  }
}

}  // namespace
}  // namespace nibble
