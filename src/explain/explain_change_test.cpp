// The built-in case with something changed: another peak, other bytes, impossible numbers.
#include <gtest/gtest.h>

#include "explain/explain.h"
#include "explain/explain_expect.h"

namespace nibble {
namespace {

TEST(ExplainTest, DensePeakMovesTheRidgeAndWhatHangsOnIt) {
  const CaseAnalysis dense = explain_document(case_document(kGlm), {.peak_is = PeakIs::kDense});
  expect_value(dense, "peak.used", 3700);
  EXPECT_EQ(verdict_of(dense, "peak.used"), "dense");
  // 3700e12 / 1597e9 = 2317; twice all that was proportional to the peak.
  expect_value(dense, "ridge.fp4", 2317);
  expect_value(dense, "ridge.bf16", 925e3 / 1597);
  expect_value(dense, "intensity.below_ridge.nvfp4.16x2048x6144", 42.2);
  expect_value(dense, "kernel.share_of_peak.nvfp4.large", 1300 / 37.0);
  expect_value(dense, "kernel.compute_floor.nvfp4.16x2048x6144", 0.1088);
  expect_value(dense, "tiles.coverage.nvfp4.512x2048x6144", 1259.6);
  // Unmoved: bytes and what follows from them.
  expect_value(dense, "kernel.over_memory.nvfp4.16x2048x6144", 110);
  expect_value(dense, "step.1024.expert_weights", 31.91e3);
}

TEST(ExplainTest, CaseThatSaysDenseIsTakenAsDense) {
  Json json = case_document(kGlm);
  at(json, "machine.fp4_tflops_quoted_is") = Json("dense");
  expect_value(explain_document(json), "ridge.fp4", 2317);
  // Without a dense number of its own, sparse is halved: 3700 / 2.
  at(json, "machine.fp4_tflops_quoted_is") = Json("sparse");
  erase(at(json, "machine"), "fp4_tflops_dense_assumed");
  expect_value(explain_document(json), "ridge.fp4", 1158);
}

TEST(ExplainTest, TenTimesTheBytesInTheSameTimeAreMemoryBound) {
  Json json = case_document(kGlm);
  at(json, "kernels[2]").set("tflops", Json()).set("time_us", 60);
  // 64x2048x6144: 7,561,216 B are 4.73 us: 60 us is 12.7 x.
  EXPECT_EQ(verdict_of(explain_document(json), "kernel.regime.nvfp4.64x2048x6144"),
            "launch or latency");
  // 64x20480x6144: 70.78 + 0.22 + 2.62 MB = 73.6 MB are 46.1 us: within 2 x.
  at(json, "kernels[2].n") = Json(20480);
  EXPECT_EQ(verdict_of(explain_document(json), "kernel.regime.nvfp4.64x20480x6144"), "memory");
  // Faster than that: not 115 % of a roof but an error, or a hot cache.
  at(json, "kernels[2].time_us") = Json(40);
  const CaseAnalysis hot = explain_document(json);
  EXPECT_EQ(verdict_of(hot, "kernel.regime.nvfp4.64x20480x6144"), "accounting error");
  expect_says(hot, "kernel.regime.nvfp4.64x20480x6144", "hot in L2");
  EXPECT_EQ(find(hot, "kernel.share_of_peak.nvfp4.64x20480x6144"), nullptr);
}

TEST(ExplainTest, KernelsAboveThePeakAreAccountingErrors) {
  Json json = case_document(kGlm);
  at(json, "kernels[0].tflops") = Json(2000);
  at(json, "kernels[3].tflops") = Json(1900);
  const CaseAnalysis analysis = explain_document(json);
  EXPECT_EQ(verdict_of(analysis, "kernel.share_of_peak.nvfp4.large"), "accounting error");
  EXPECT_EQ(verdict_of(analysis, "kernel.regime.nvfp4.512x2048x6144"), "accounting error");
  for (const Finding& finding : analysis.findings) {
    if (finding.id.starts_with("kernel.")) {
      EXPECT_EQ(finding.sentence.find("108 %"), std::string::npos) << finding.sentence;
    }
  }
}

TEST(ExplainTest, FloorAboveTheMeasuredTimeIsAnAccountingError) {
  Json json = case_document(kGlm);
  at(json, "load.levels[2].output_tok_s") = Json(30000);  // 34 ms a step: the weights alone take 37
  const CaseAnalysis analysis = explain_document(json);
  EXPECT_EQ(verdict_of(analysis, "step.1024.accounting"), "accounting error");
  EXPECT_TRUE(analysis.levels[2].waterfall.empty());
  EXPECT_EQ(find(analysis, "step.1024.unexplained"), nullptr);
  expect_missing(analysis, "proposals", "rate that its floor allows");
}

TEST(ExplainTest, PrefillIsCutWhereNoTimeIsLeft) {
  Json json = case_document(kGlm);
  at(json, "load.levels[2].output_tok_s") =
      Json(7000);  // 146 ms; decode and prefill floors exceed that
  const CaseAnalysis analysis = explain_document(json);
  const LevelAnalysis& level = analysis.levels[2];
  ASSERT_FALSE(level.waterfall.empty());
  EXPECT_NEAR(level.waterfall.back().time_us, 0, 1e-6);
  expect_says(analysis, "step.1024.prefill", "prompts share passes");
}

TEST(ExplainTest, OverridesOfTheCatalogAreUsedAndNamed) {
  Json json = case_document(kGlm);
  at(json, "model.hidden") = Json(5120);
  at(json, "machine.bandwidth_gb_s") = Json(1792);
  const CaseAnalysis analysis = explain_document(json);
  EXPECT_EQ(analysis.deployment.model.hidden, 5120);
  EXPECT_EQ(verdict_of(analysis, "disagreement.model.hidden"), "disagrees");
  expect_value(analysis, "disagreement.machine.bandwidth_gb_s", 1792.0 / 1597);
  expect_says(analysis, "shapes.gate_up", "[m, 512, 5120]");
}

TEST(ExplainTest, AdjustIsAppliedToTheDeployment) {
  CaseOptions options;
  options.adjust = [](Deployment& deployment) -> Result<> {
    return set_number(deployment.machine, "bandwidth_gb_s", 798.5, "--set");
  };
  const CaseAnalysis analysis = explain_document(case_document(kGlm), options);
  expect_value(analysis, "step.1024.expert_weights", 2 * 31.91e3);
  EXPECT_EQ(find(analysis, "ridge.fp4")->inputs.back().source, "--set");
}

}  // namespace
}  // namespace nibble
