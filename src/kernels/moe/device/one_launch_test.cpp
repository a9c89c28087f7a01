// The host's side of a layer in one launch, and what its tactics compile to: no GPU is needed.
#include "kernels/moe/device/one_launch.h"

#include <gtest/gtest.h>
#include <string>

#include "kernels/device/test_compile.h"
#include "kernels/moe/device/moe_cuda.h"

namespace nibble {
namespace {

constexpr BlockLimits kA100Limits{
    .major = 8, .minor = 0, .shared_per_block = 166912, .shared_per_sm = 167936};

CudaMoeProblem one_launch_problem(std::int64_t experts, std::int64_t top_k, std::int64_t hidden,
                                  std::int64_t intermediate, Format format = Format::kNvfp4) {
  CudaMoeConfig config{.hidden = hidden, .intermediate = intermediate};
  config.router = {.experts = experts, .top_k = top_k, .renormalise = true};
  if (format == Format::kMxfp4) {
    config.router.softmax_after_top_k = true;
    config.router.renormalise = false;
    config.activation = {.kind = ActivationKind::kClampedSwiGlu};
  }
  const bool bias = format == Format::kMxfp4;
  const auto problem = cuda_moe_problem(config, format, bias, bias);
  EXPECT_TRUE(problem.ok()) << problem.error().message;
  return *problem;
}

CudaMoeProblem glm_shard() {
  return one_launch_problem(256, 8, 6144, 256);
}

TEST(OneLaunchPlan, SharedMemoryByHand) {
  // A slot is 4 slabs' codes of 512 B, then their scales of 64 B; 16 rings of 5 are 184,320 B, 16
  // warps' sums of 4 slabs 32,768 B. Words: 2 x 256 of experts, 6 x 64 of choices, 16 and 4.
  const OneLaunchPlan plan = one_launch_plan({.tokens = 8, .slabs = 4, .down_slabs = 3, .slots = 5},
                                             kNvfp4ScaleBytes, {.experts = 256, .choices = 64});
  EXPECT_EQ(plan.scales, 2048U);
  EXPECT_EQ(plan.slot, 2304U);
  EXPECT_EQ(plan.partial_begin, 184320U);
  EXPECT_EQ(plan.table_begin, 217088U);
  EXPECT_EQ(plan.bytes, 220752U);
  // MXFP4 has half of the scales.
  EXPECT_EQ(one_launch_plan({}, kMxfp4ScaleBytes, {}).slot, 2176U);
}

TEST(OneLaunchTactic, RefusesWhatDoesNotFit) {
  const auto refusal = [](const CudaMoeProblem& problem, const OneLaunchTactic& tactic,
                          const BlockLimits& limits = {}) {
    const Result<> result = check_one_launch(problem, tactic, limits);
    return result.ok() ? "" : result.error().message;
  };
  EXPECT_EQ(refusal(glm_shard(), {.tokens = 8, .slabs = 4, .down_slabs = 3, .slots = 5}), "");
  EXPECT_NE(refusal(glm_shard(), {.tokens = 8, .slabs = 4, .down_slabs = 3, .slots = 6}), "");
  EXPECT_NE(
      refusal(glm_shard(), {.tokens = 8, .slabs = 4, .down_slabs = 3, .slots = 5}, kA100Limits),
      "");
  EXPECT_EQ(refusal(glm_shard(), {.tokens = 12, .slabs = 4, .down_slabs = 3, .slots = 5}),
            "tactic one launch 12 tokens 4+3 slabs 5 slots 1 teams: tokens are 8 or 16, "
            "slabs 1 to 4, slots 2 to 16");
  EXPECT_EQ(refusal(glm_shard(), {.slots = 4, .teams = 3}),
            "tactic one launch 8 tokens 4+3 slabs 4 slots 3 teams: 16 warps are 1, 2 or 4 teams");
  EXPECT_EQ(
      refusal(one_launch_problem(64, 33, 256, 128),
              {.tokens = 16, .slabs = 2, .down_slabs = 2, .slots = 4}),
      "tactic one launch 16 tokens 2+2 slabs 4 slots 1 teams: 528 choices of 33 experts each; one "
      "launch has room for 512");
}

TEST(OneLaunchTactic, ForSoManyTokens) {
  for (const std::int64_t tokens : {1, 8, 9, 16}) {
    const auto tactic = one_launch_for(glm_shard(), tokens, kTestH200);
    ASSERT_TRUE(tactic.has_value());
    EXPECT_EQ(tactic->tokens, ceil_div(tokens, 8) * 8);
    EXPECT_TRUE(check_one_launch(glm_shard(), *tactic, limits_of(kTestH200)).ok());
  }
  EXPECT_FALSE(one_launch_for(glm_shard(), 17, kTestH200).has_value());
  EXPECT_FALSE(one_launch_for(one_launch_problem(64, 64, 256, 128), 9, kTestH200).has_value());
}

void expect_one_launch_in_registers(const CudaMoeProblem& problem, const OneLaunchTactic& tactic,
                                    const char* arch = "sm_90a") {
  SCOPED_TRACE(fmt::format("{} {}", to_string(tactic), arch));
  expect_in_registers(compile_one_launch(problem, tactic, arch));
}

// What one_launch_for() gives has 8 or 16 tokens, one or two teams, and one to three slabs of down.
TEST(OneLaunchCompile, TacticsThatAreTakenStayInRegisters) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  const CudaMoeProblem gpt_oss = one_launch_problem(128, 4, 2880, 2880, Format::kMxfp4);
  for (const int tokens : {8, 16}) {
    for (const int teams : {1, 2}) {
      const OneLaunchTactic tactic{.tokens = tokens, .slots = 4, .teams = teams};
      expect_one_launch_in_registers(glm_shard(), tactic);
      expect_one_launch_in_registers(gpt_oss, tactic);
    }
  }
  expect_one_launch_in_registers(glm_shard(), {.tokens = 8, .down_slabs = 1, .slots = 4});
  expect_one_launch_in_registers(glm_shard(),
                                 {.tokens = 16, .down_slabs = 2, .slots = 4, .teams = 2});
}

TEST(OneLaunchCompile, EveryArchitecture) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  for (const char* const arch : {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    expect_one_launch_in_registers(glm_shard(), {.tokens = 8, .slots = 2}, arch);
  }
}

}  // namespace
}  // namespace nibble
