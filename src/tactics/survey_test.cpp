#include "tactics/survey.h"

#include <gtest/gtest.h>
#include <set>

#include "cuda/compile.h"
#include "tactics/test_products.h"

namespace nibble {
namespace {

SurveyRequest request_for(const char* arch) {
  return {.products = {glm_gate_up(), glm_down()},
          .chip = chip_of(arch).value(),
          .tile = {},
          .compile = false};
}

TEST(Survey, TheListIsTheSameForEveryDevice) {
  const auto names = [](const char* arch) {
    std::vector<std::string> list;
    for (const Feasibility& found : survey_tactics(request_for(arch), {}).tactics) {
      list.push_back(found.op + " " + found.name);
    }
    return list;
  };
  EXPECT_EQ(names("sm_120a"), names("sm_100a"));
  EXPECT_EQ(names("sm_120a"), names("sm_80"));
}

TEST(Survey, EachCandidateIsOnTheListOnce) {
  std::set<std::string> names;
  const Survey survey = survey_tactics(request_for("sm_120a"), {});
  for (const Feasibility& found : survey.tactics) {
    EXPECT_TRUE(names.insert(found.op + " " + found.name).second) << found.name;
  }
}

TEST(Survey, WithoutCompilingTheReasonSaysSo) {
  const Survey survey = survey_tactics(request_for("sm_120a"), {});
  for (const Feasibility& found : survey.tactics) {
    EXPECT_FALSE(found.registers.has_value());
    EXPECT_EQ(found.registers_reason, found.feasible() ? "not compiled: --no-compile"
                                                       : "not compiled: it was rejected before");
  }
  EXPECT_EQ(survey.compiler, "");
}

TEST(Survey, AtLeast24DistinctTilesOnSm120) {
  const Survey survey = survey_tactics(request_for("sm_120a"), {});
  EXPECT_GE(distinct_tiles(survey.tactics, "moe.gate_up", TacticFamily::kW4A4), 24);
  EXPECT_GE(distinct_tiles(survey.tactics, "moe.down", TacticFamily::kW4A4), 24);
  EXPECT_EQ(distinct_tiles(survey_tactics(request_for("sm_100a"), {}).tactics, "moe.down",
                           TacticFamily::kW4A4),
            0);
}

TEST(Survey, OneTileAlone) {
  SurveyRequest request = request_for("sm_120a");
  request.tile = TacticTile{128, 256, 128};
  const Survey survey = survey_tactics(request, {});
  ASSERT_FALSE(survey.tactics.empty());
  for (const Feasibility& found : survey.tactics) EXPECT_EQ(found.candidate.tile(), *request.tile);
}

TEST(Survey, WithoutACompilerBytesAreJudged) {
  SurveyRequest request = request_for("sm_120a");
  request.compile = true;
  request.threads = 3;
  const SurveyCompiler none{run_error("NVRTC is missing: it compiles kernels"),
                            [](const auto&, const auto&, const auto&) {
                              return Result<cuda::Cubin>(run_error("it is not compiled: no NVRTC"));
                            }};
  const Survey survey = survey_with(request, none, [](std::string_view, int, int) {});
  EXPECT_EQ(survey.compiler, "");
  EXPECT_EQ(survey.compiler_reason, "NVRTC is missing: it compiles kernels");
  const Survey by_bytes = survey_tactics(request_for("sm_120a"), {});
  ASSERT_EQ(survey.tactics.size(), by_bytes.tactics.size());
  for (std::size_t index = 0; index < survey.tactics.size(); ++index) {
    const Feasibility& found = survey.tactics[index];
    EXPECT_EQ(found.limit, by_bytes.tactics[index].limit) << found.name;
    EXPECT_FALSE(found.registers.has_value());
    if (found.feasible()) {
      EXPECT_EQ(found.registers_reason, "not compiled: it is not compiled: no NVRTC");
    }
  }
}

TEST(Survey, WhatDoesNotCompileIsRejected) {
  SurveyRequest request = request_for("sm_120a");
  request.compile = true;
  request.tile = TacticTile{128, 256, 128};
  const SurveyCompiler fails{std::string("NVRTC 13.0"), [](const auto&, const auto&, const auto&) {
                               return Result<cuda::Cubin>(run_error("line 1 is wrong\nthe log"));
                             }};
  const Survey survey = survey_with(request, fails, [](std::string_view, int, int) {});
  ASSERT_FALSE(survey.tactics.empty());
  for (const Feasibility& found : survey.tactics) {
    EXPECT_EQ(found.limit, TacticLimit::kCompiler);
    EXPECT_EQ(found.reason, "not compiled: line 1 is wrong");
  }
}

// The two that the field says do not fit: compiled, without a GPU.
TEST(Survey, CompilesTheWideTiles) {
  const Result<std::string> compiler = cuda::compiler();
  if (!compiler.ok()) GTEST_SKIP() << compiler.error().message;
  SurveyRequest request = request_for("sm_120a");
  request.products = {glm_down()};
  request.families = {TacticFamily::kW4A4};
  request.compile = true;
  for (const TacticTile& tile : {TacticTile{128, 256, 128}, TacticTile{256, 128, 128}}) {
    request.tile = tile;
    int last = 0;
    const Survey survey = survey_tactics(request, [&](std::string_view, int done, int all) {
      EXPECT_LE(done, all);
      last = done;
    });
    EXPECT_EQ(survey.compiler, *compiler);
    ASSERT_EQ(survey.tactics.size(), 1U);
    EXPECT_EQ(last, 1);
    for (const Feasibility& found : survey.tactics) {
      EXPECT_TRUE(found.feasible()) << found.name << ": " << found.reason;
      EXPECT_EQ(found.spill_bytes, 0) << found.name;
      EXPECT_EQ(found.stack_bytes, 0) << found.name;
      ASSERT_TRUE(found.registers.has_value());
      EXPECT_LE(*found.registers, 168);  // 65,536 / 384
      EXPECT_EQ(found.blocks.blocks(), 1);
    }
  }
}

}  // namespace
}  // namespace nibble
