#include "tactics/feasible.h"

#include <gtest/gtest.h>
#include <set>

#include "tactics/test_products.h"

namespace nibble {
namespace {

Chip chip_named(const char* arch) {
  return chip_of(arch).value();
}

Feasibility judged(const TacticProduct& product, const TacticCandidate& candidate,
                   const char* arch = "sm_120a") {
  return feasibility(product, candidate, chip_named(arch));
}

cuda::Cubin compiled_with(int registers, int spill_bytes, int stack_bytes = 0) {
  cuda::Cubin cubin;
  cubin.kernels.push_back({.name = "w4a4",
                           .registers = registers,
                           .spill_store_bytes = spill_bytes,
                           .spill_load_bytes = spill_bytes / 2,
                           .stack_bytes = stack_bytes});
  return cubin;
}

TEST(Feasible, TheWideTiles) {
  for (const auto& [m, n] : {std::pair{128, 256}, std::pair{256, 128}}) {
    TacticCandidate candidate = wide_tile();
    auto& tactic = std::get<W4A4Tactic>(candidate.tactic);
    tactic.m = m;
    tactic.n = n;
    const Feasibility found = judged(glm_gate_up(), candidate);
    EXPECT_TRUE(found.feasible()) << found.reason;
    EXPECT_EQ(found.blocks.shared, 1);
    EXPECT_EQ(found.registers_reason, "not compiled");
  }
}

TEST(Feasible, PerBlock) {
  const Feasibility found = judged(glm_gate_up(), with_stages(wide_tile(), 4));
  EXPECT_EQ(found.limit, TacticLimit::kBlock);
  EXPECT_EQ(found.reason,
            "a block takes 113,736 B of shared memory and may have 101,376: 12,360 B too many");
  EXPECT_EQ(found.remedies, std::vector<std::string>{"3 stages (86,072 B)"});
}

TEST(Feasible, OneByteDecides) {
  const auto at = [](int limit) {
    TacticProduct product = glm_gate_up();
    product.experts = 2169;  // 84,016 + 8 x 2,170 = 101,376 B
    return feasibility(product, wide_tile(), chip_with_shared(limit, 110000));
  };
  EXPECT_EQ(at(101375).limit, TacticLimit::kBlock);
  EXPECT_EQ(at(101375).reason,
            "a block takes 101,376 B of shared memory and may have 101,375: 1 B too many");
  EXPECT_TRUE(at(101376).feasible());
  EXPECT_TRUE(at(101377).feasible());
  EXPECT_TRUE(at(102400).feasible());
}

// The same tile, with tables of 2,297 experts: 84,016 + 8 x 2,298 = 102,400 B.
TEST(Feasible, NeverByTheTileAlone) {
  TacticProduct product = glm_gate_up();
  EXPECT_TRUE(judged(product, wide_tile()).feasible());
  product.experts = 2297;
  const Feasibility found = judged(product, wide_tile());
  EXPECT_EQ(found.reason,
            "a block takes 102,400 B of shared memory and may have 101,376: 1,024 B too many");
}

TEST(Feasible, PerSm) {
  const Feasibility found = judged(glm_gate_up(), with_blocks(with_stages(wide_tile(), 2), 2));
  EXPECT_EQ(found.limit, TacticLimit::kSm);
  EXPECT_EQ(found.reason,
            "2 blocks of 58,408 B, each 59,520 B with the driver's in units of 128, take 119,040 B "
            "of shared memory and an SM has 102,400: 16,640 B too many");
  EXPECT_EQ(found.remedies, std::vector<std::string>{"1 block an SM"});
}

TEST(Feasible, Threads) {
  // 16 x 8 x 128, one stage: 24 x (64 + 8) + 16 + 64 + 16 = 1,824 B, and 64 threads. 24 blocks are
  // all that an SM has, and all of its 48 warps.
  const TacticCandidate small{W4A4Tactic{.way = Way::kWeightsOnM,
                                         .m = 16,
                                         .n = 8,
                                         .k = 128,
                                         .stages = 1,
                                         .warps_m = 1,
                                         .warps_n = 1,
                                         .blocks_per_sm = 20}};
  TacticProduct product = glm_down();
  product.experts = 1;
  EXPECT_TRUE(judged(product, small).feasible()) << judged(product, small).reason;
  const Feasibility found = judged(product, with_blocks(small, 25));
  EXPECT_EQ(found.limit, TacticLimit::kThreads);
  EXPECT_EQ(found.reason,
            "25 blocks of 64 threads: an SM has 48 warps and 24 blocks, which is 24 of them");
  EXPECT_EQ(found.remedies, std::vector<std::string>{"24 blocks an SM"});
}

TEST(Feasible, ArchitecturesWithoutTheInstruction) {
  const auto reason = [](const char* arch) {
    const Feasibility found = judged(glm_gate_up(), wide_tile(), arch);
    EXPECT_EQ(found.limit, TacticLimit::kArchitecture) << arch;
    return found.reason;
  };
  EXPECT_EQ(reason("sm_90a"),
            "sm_90a has no FP4 mma: 4-bit weights are multiplied in 16 bits there (w4a16)");
  EXPECT_EQ(reason("sm_100a"),
            "sm_100a has no mma.sync with block-scaled FP4: its FP4 is tcgen05, on tensor memory, "
            "which these kernels do not use");
  EXPECT_EQ(reason("sm_120"),
            "sm_120 without a suffix has no block-scaled FP4 mma: compile for sm_120a or sm_120f");
  for (const char* arch : {"sm_120f", "sm_121a"}) {
    EXPECT_TRUE(judged(glm_gate_up(), wide_tile(), arch).feasible()) << arch;
  }
}

TEST(Feasible, WgmmaAndClusters) {
  const TacticCandidate wgmma{
      W4A16Tactic{.family = Family::kWgmma, .rows = 512, .tokens = 16, .stages = 4}};
  EXPECT_TRUE(judged(glm_gate_up(), wgmma, "sm_90a").feasible());
  EXPECT_EQ(judged(glm_gate_up(), wgmma, "sm_100a").reason,
            "wgmma is an instruction of sm_90a alone, and this is sm_100a");
  EXPECT_EQ(judged(glm_gate_up(), wgmma, "sm_90").limit, TacticLimit::kArchitecture);
  const TacticCandidate pair{W4A16Tactic{.rows = 256, .tokens = 8, .stages = 2, .cluster = 2}};
  EXPECT_TRUE(judged(glm_gate_up(), pair, "sm_90a").feasible());
  EXPECT_EQ(judged(glm_gate_up(), pair, "sm_80").reason,
            "clusters of blocks came with sm_90, and this is sm_80");
  EXPECT_EQ(judged(glm_gate_up(), pair).limit, TacticLimit::kArchitecture);
}

TEST(Feasible, SizesThatDoNotDivide) {
  TacticProduct product = glm_down();
  product.k = 2880 / 8 / 2;  // 180 columns: 11.25 blocks of 16
  Feasibility found = judged(product, wide_tile());
  EXPECT_EQ(found.limit, TacticLimit::kDivisibility);
  EXPECT_NE(found.reason.find("180 columns are not whole blocks of 16"), std::string::npos)
      << found.reason;
  EXPECT_NE(found.reason.find("tensor-parallel"), std::string::npos) << found.reason;
  // Sizes that were given are no rank's share.
  product.given = true;
  found = judged(product, wide_tile());
  EXPECT_EQ(found.limit, TacticLimit::kDivisibility);
  EXPECT_EQ(found.reason,
            "180 columns are not whole blocks of 16, which share a scale: take K = 176 or 192");
  product.k = 8;
  EXPECT_EQ(judged(product, wide_tile()).reason,
            "8 columns are not whole blocks of 16, which share a scale: take K = 16");
  product.given = false;
  product.k = 180;
  // 16 gate and up rows a warp are 8 columns, and an NVFP4 block has 16.
  const TacticCandidate narrow{W4A4Tactic{.way = Way::kWeightsOnM,
                                          .m = 64,
                                          .n = 8,
                                          .k = 256,
                                          .stages = 2,
                                          .warps_m = 4,
                                          .warps_n = 1,
                                          .blocks_per_sm = 3}};
  found = judged(glm_gate_up(), narrow);
  EXPECT_EQ(found.limit, TacticLimit::kDivisibility);
  EXPECT_EQ(found.reason,
            "16 weight rows a warp; gate and up rows that become nvfp4 need a multiple of 32");
  EXPECT_TRUE(judged(glm_down(), narrow).feasible());  // the same tactic, another product
}

TEST(Feasible, RegistersWithinTheirLimits) {
  Feasibility found = judged(glm_gate_up(), wide_tile());
  judge_compiled(found, compiled_with(168, 0), chip_named("sm_120a"));
  EXPECT_TRUE(found.feasible()) << found.reason;
  EXPECT_EQ(found.registers, 168);
  EXPECT_EQ(found.spill_bytes, 0);
  EXPECT_EQ(found.registers_reason, "");
  EXPECT_EQ(found.blocks.registers, 1);
}

TEST(Feasible, SpillsReject) {
  Feasibility found = judged(glm_gate_up(), wide_tile());
  ASSERT_EQ(found.candidate.threads(), 384);
  judge_compiled(found, compiled_with(168, 208), chip_named("sm_120a"));
  EXPECT_EQ(found.limit, TacticLimit::kSpills);
  EXPECT_EQ(found.reason,
            "spills 208 B: a thread needs more than the 168 registers that 1 block of 384 threads "
            "leave it");
  Feasibility arrays = judged(glm_gate_up(), wide_tile());
  judge_compiled(arrays, compiled_with(168, 0, 64), chip_named("sm_120a"));
  EXPECT_EQ(arrays.limit, TacticLimit::kSpills);
  EXPECT_EQ(arrays.reason,
            "keeps 64 B of each thread in memory: an array that registers do not hold");
}

TEST(Feasible, TooManyRegisters) {
  Feasibility found = judged(glm_gate_up(), wide_tile());
  judge_compiled(found, compiled_with(176, 0), chip_named("sm_120a"));
  EXPECT_EQ(found.limit, TacticLimit::kRegisters);
  // 12 warps of 5,632 are 67,584.
  EXPECT_EQ(found.reason,
            "176 registers a thread, 5,632 a warp, 384 threads: an SM's 65,536 hold 0 of the 1 "
            "blocks");
}

// 256 threads that multiply take 232 registers, 128 that copy keep 40: 64,512 = 384 x 168.
TEST(Feasible, RegistersThatMoveMustBeThere) {
  Feasibility found = judged(glm_gate_up(), wide_tile());
  judge_compiled(found, compiled_with(160, 0), chip_named("sm_120a"));
  EXPECT_EQ(found.limit, TacticLimit::kRegisters);
  EXPECT_EQ(found.reason,
            "256 threads that multiply are to have 232 registers and 128 that copy 40: 64,512 in "
            "all, and a block of 384 threads is given 160 each: 61,440");
}

TEST(Feasible, WithoutACompilerRegistersHaveAReason) {
  Feasibility found = judged(glm_gate_up(), wide_tile());
  judge_compiled(found, run_error("NVRTC is missing\nand a second line"), chip_named("sm_120a"));
  EXPECT_TRUE(found.feasible());
  EXPECT_EQ(found.shared.total, 86072);
  EXPECT_FALSE(found.registers.has_value());
  EXPECT_FALSE(found.spill_bytes.has_value());
  EXPECT_EQ(found.registers_reason, "not compiled: NVRTC is missing");
}

TEST(Feasible, WarningsThatNoKernelMayHave) {
  Feasibility found = judged(glm_gate_up(), wide_tile());
  cuda::Cubin cubin = compiled_with(168, 0);
  cubin.warnings = {"ptxas info: (C7508) Potential Performance Loss: 'setmaxnreg' ignored"};
  judge_compiled(found, cubin, chip_named("sm_120a"));
  EXPECT_EQ(found.limit, TacticLimit::kCompiler);
  EXPECT_EQ(found.reason, cubin.warnings.front());
}

TEST(Feasible, ATacticThatDoesFitIsNamedBesideOneThatSpills) {
  std::vector<Feasibility> list = {judged(glm_gate_up(), wide_tile()),
                                   judged(glm_gate_up(), with_stages(wide_tile(), 2)),
                                   judged(glm_down(), wide_tile())};
  judge_compiled(list[0], compiled_with(168, 40), chip_named("sm_120a"));
  judge_compiled(list[1], compiled_with(168, 0), chip_named("sm_120a"));
  judge_compiled(list[2], compiled_with(168, 40), chip_named("sm_120a"));
  add_neighbours(list);
  EXPECT_EQ(list[0].remedies, std::vector<std::string>{list[1].name});
  EXPECT_TRUE(list[2].remedies.empty());  // another product
}

// What a launch checks, and what is said here, agree; the driver's units are said here alone.
TEST(Feasible, AgreesWithWhatALaunchChecks) {
  int compared = 0;
  for (const char* arch : {"sm_120a", "sm_90a", "sm_100a", "sm_80"}) {
    const Chip chip = chip_named(arch);
    for (const TacticFamily family : {TacticFamily::kW4A4, TacticFamily::kW4A16}) {
      for (const TacticCandidate& candidate : tactic_candidates(family)) {
        for (const TacticProduct& product : {glm_gate_up(), glm_down()}) {
          const Feasibility found = feasibility(product, candidate, chip);
          const auto* native = std::get_if<W4A4Tactic>(&candidate.tactic);
          const bool launches =
              native != nullptr ? check_tactic(product.w4a4(), *native, chip.limits).ok()
                                : check_tactic(product.w4a16(),
                                               std::get<W4A16Tactic>(candidate.tactic), chip.limits)
                                      .ok();
          if (found.feasible()) {
            EXPECT_TRUE(launches) << found.name << " " << arch;
          }
          if (found.limit == TacticLimit::kBlock || found.limit == TacticLimit::kDivisibility) {
            EXPECT_FALSE(launches) << found.name << " " << arch;
          }
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 100);
}

std::set<std::string> feasible_names(const char* machine) {
  const Chip chip = chip_of(load_machine(machine).value()).value();
  std::set<std::string> names;
  for (const TacticFamily family : {TacticFamily::kW4A4, TacticFamily::kW4A16}) {
    for (const TacticCandidate& candidate : tactic_candidates(family)) {
      if (feasibility(glm_gate_up(), candidate, chip).feasible()) names.insert(candidate.name());
    }
  }
  return names;
}

TEST(Feasible, OneListTwoAnswers) {
  const std::set<std::string> pro = feasible_names("rtx-pro-6000-server");
  const std::set<std::string> b200 = feasible_names("b200");
  EXPECT_TRUE(pro.contains(wide_tile().name()));
  EXPECT_FALSE(b200.contains(wide_tile().name()));
  const std::string large = "mma 512x8x128 5 stages 4 groups split";  // 196,696 B
  EXPECT_FALSE(pro.contains(large));
  EXPECT_TRUE(b200.contains(large));
}

TEST(Feasible, LimitsHaveNames) {
  EXPECT_EQ(to_string(TacticLimit::kBlock), "per_block");
  EXPECT_EQ(to_string(TacticLimit::kSm), "per_sm");
  EXPECT_EQ(to_string(TacticLimit::kSpills), "spills");
}

}  // namespace
}  // namespace nibble
