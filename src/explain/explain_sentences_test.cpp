// What the sentences of a case may and may not claim, with the numbers worked by hand.
#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "explain/explain_expect.h"
#include "explain/explain_parts.h"

namespace nibble {
namespace {

void expect_never_says(const CaseAnalysis& analysis, std::string_view part) {
  for (const Finding& finding : analysis.findings) {
    EXPECT_EQ(finding.sentence.find(part), std::string::npos)
        << finding.id << ": " << finding.sentence;
  }
}

std::size_t occurrences(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t from = text.find(part); from != std::string_view::npos;
       from = text.find(part, from + part.size())) {
    ++count;
  }
  return count;
}

// A flag that gives the FP4 peak, as the command line applies it.
CaseOptions fp4_flag(double tflops, std::optional<PeakIs> is = std::nullopt) {
  CaseOptions options{.peak_is = is};
  options.adjust = [=](Deployment& deployment) {
    return set_peak(deployment.machine, Precision::kFp4, tflops, is.value_or(PeakIs::kDense), false,
                    "--peak");
  };
  return options;
}

TEST(SentenceTest, ATileThatTheMeasuredRateExceedsIsNoCap) {
  // 4 x 16 tiles on 188 SMs: 462.5 * 64 / 188 = 157.4 TFLOPS, and 225 were measured.
  const char* bf16 = "tiles.coverage.bf16.512x2048x6144";
  expect_value(unchanged(), bf16, 157.4);
  EXPECT_EQ(verdict_of(unchanged(), bf16), "another tile");
  EXPECT_EQ(find(unchanged(), bf16)->title, "What 128x128 tiles would reach");
  expect_says(unchanged(), bf16,
              "at most 157.4 TFLOPS of 462.5; 225 were measured, so torch.mm uses smaller tiles or "
              "splits K.");
  // 437 of the 629.8 TFLOPS that the same tiles allow at the FP4 peak.
  const char* fp4 = "tiles.coverage.nvfp4.512x2048x6144";
  EXPECT_EQ(verdict_of(unchanged(), fp4), "");
  EXPECT_EQ(find(unchanged(), fp4)->sentence.find("measured"), std::string::npos);
  // With the peak doubled they allow 314.9: no other tile is needed.
  const CaseAnalysis dense = explain_document(case_document(kGlm), {.peak_is = PeakIs::kDense});
  EXPECT_EQ(verdict_of(dense, bf16), "");
}

TEST(SentenceTest, ARateAboveThePeakSaysNothingAboutTiles) {
  Json json = case_document(kGlm);
  at(json, "kernels[4].tflops") = Json(500);  // of 462.5
  at(json, "kernels[4].library") = Json();
  expect_missing(explain_document(json), "tiles.coverage.bf16.512x2048x6144",
                 "above the bf16 peak");
  at(json, "kernels[4].tflops") = Json(225);
  expect_says(explain_document(json), "tiles.coverage.bf16.512x2048x6144", "so the library uses");
}

TEST(SentenceTest, TheRegimeNamesBothMemoryFloors) {
  // 7,340,032 B and, with nvfp4 activations, 7,198,720 B at 1597 GB/s; 0.4027 GFLOP at 1850 TFLOPS.
  expect_says(unchanged(), "kernel.regime.nvfp4.16x2048x6144",
              "503.3 us against a memory floor of 4.596 us (4.508 us with nvfp4 activations) and a "
              "compute floor of 217.7 ns");
  // One floor only: 25,165,824 + 6,291,456 + 2,097,152 B are 21.01 us.
  expect_says(unchanged(), "kernel.regime.bf16.512x2048x6144",
              "against a memory floor of 21.01 us and a compute floor of 27.86 us");
}

TEST(SentenceTest, RatiosHaveThreeDigits) {
  EXPECT_EQ(times_text(21.13), "21.1 x");
  EXPECT_EQ(times_text(109.5), "110 x");
  EXPECT_EQ(times_text(2312.4), "2312 x");
  EXPECT_EQ(times_text(1.9422), "1.94 x");
  EXPECT_EQ(times_text(0.4707), "0.471 x");
  expect_says(unchanged(), "intensity.below_ridge.nvfp4.16x2048x6144", "lies 21.1 x below");
  expect_says(unchanged(), "formats.measured.nvfp4.512x2048x6144.bf16", "1.94 x faster");
}

TEST(SentenceTest, AFlagReplacesTheQuotedPeakAndNothingSaysOtherwise) {
  const CaseAnalysis analysis = explain_document(case_document(kGlm), fp4_flag(100));
  EXPECT_EQ(value_of(analysis, "peak.used"), 100);
  EXPECT_EQ(verdict_of(analysis, "peak.used"), "a flag's number");
  expect_says(analysis, "peak.used", "100 TFLOPS dense are used, a flag's number (--peak");
  expect_says(analysis, "peak.used", "not the 3700 TFLOPS that the case quotes");
  expect_missing(analysis, "peak.dependents", "a flag replaces the case's quoted peak");
  const char* difference = "disagreement.machine.fp4_tflops_dense_assumed";
  expect_says(analysis, difference, "1850 TFLOPS in the case");
  expect_says(analysis, difference, "neither is used, as a flag replaces both (--peak");
  expect_never_says(analysis, "the case's number is used");
  expect_never_says(analysis, "would change if");
  expect_never_says(analysis, "taken as sparse");
  for (const Finding& finding : analysis.findings) {
    for (const std::string& assumption : finding.assumptions) {
      EXPECT_EQ(assumption.find("quoted peak is"), std::string::npos) << finding.id;
      EXPECT_EQ(assumption.find("sparse or dense"), std::string::npos) << finding.id;
    }
  }
}

TEST(SentenceTest, AFlagThatRepeatsTheQuotedNumberAsDenseIsNotCalledSparse) {
  const CaseAnalysis analysis =
      explain_document(case_document(kGlm), fp4_flag(3700, PeakIs::kDense));
  EXPECT_EQ(value_of(analysis, "peak.used"), 3700);
  expect_never_says(analysis, "sparse (3700 TFLOPS dense)");
  expect_missing(analysis, "peak.dependents", "flag");
}

TEST(SentenceTest, AFlagForAnotherNumberLeavesThePeakToTheCase) {
  Json json = case_document(kGlm);
  at(json, "machine.bandwidth_gb_s") = Json(1792);
  at(json, "machine.sms") = Json(144);
  CaseOptions options;
  options.adjust = [](Deployment& deployment) {
    return set_number(deployment.machine, "bandwidth_gb_s", 1500, "--set");
  };
  const CaseAnalysis analysis = explain_document(json, options);
  EXPECT_EQ(verdict_of(analysis, "peak.used"), "sparse (assumed)");
  EXPECT_GT(value_of(analysis, "peak.dependents"), 0);
  expect_says(analysis, "disagreement.machine.bandwidth_gb_s", "a flag replaces both (--set)");
  expect_says(analysis, "disagreement.machine.sms", "the case's number is used");
}

TEST(SentenceTest, PowerAboveTheLimitIsAnErrorAndNoShare) {
  Json json = case_document(kGlm);
  at(json, "load.levels[2].gpus.power_w[0]") = Json(90000);
  const CaseAnalysis analysis = explain_document(json);
  // (90000 + 1884.85 - 237.54) / 8 W; the other seven samples stand in the case.
  expect_value(analysis, "power.share.1024", 11455.9);
  EXPECT_EQ(find(analysis, "power.share.1024")->unit, "W");
  EXPECT_EQ(verdict_of(analysis, "power.share.1024"), "accounting error");
  expect_says(analysis, "power.share.1024", "more than its limit of 600 W");
  EXPECT_EQ(find(analysis, "power.share.1024")->sentence.find('%'), std::string::npos);
  EXPECT_EQ(find(analysis, "power.position.1024"), nullptr);
}

TEST(SentenceTest, OnlyALargeFactorHintsAtAShortTest) {
  // 639.6 ms over 264 ms is 2.42; over 537 ms 1.19.
  expect_says(unchanged(), "little.1024.ratio",
              "consistent with a load test too short to be steady");
  EXPECT_EQ(verdict_of(unchanged(), "little.1024.ratio"), "not steady");
  Json json = case_document(kGlm);
  at(json, "load.levels[2].itl_ms.p50") = Json(537);
  at(json, "load.levels[2].itl_ms.p95") = Json(600);
  const CaseAnalysis near = explain_document(json);
  expect_says(near, "little.1024.ratio",
              "the factor 1.19 is prefill, TTFT and tail (P99 3096 ms).");
  EXPECT_EQ(verdict_of(near, "little.1024.ratio"), "prefill, TTFT and tail");
  expect_never_says(near, "too short");
}

TEST(SentenceTest, DependentsAreNamedByTheirTitles) {
  const Finding* finding = find(unchanged(), "peak.dependents");
  ASSERT_NE(finding, nullptr);
  // Ridge and distance are of point 1, ceiling and floor of point 2.
  EXPECT_NE(finding->sentence.find("would change if the quoted peak were dense (3700 TFLOPS "
                                   "dense): ridge of fp4, distance from the ridge, "),
            std::string::npos)
      << finding->sentence;
  EXPECT_NE(finding->sentence.find(" more kinds."), std::string::npos) << finding->sentence;
  EXPECT_EQ(finding->sentence.find("kernel."), std::string::npos) << finding->sentence;
  // Six kinds and what is left of them: six commas.
  EXPECT_EQ(occurrences(finding->sentence, ", "), 6U) << finding->sentence;
  EXPECT_NE(finding->verdict.find("kernel.compute_floor"), std::string::npos);
}

TEST(SentenceTest, ProposalsNameTheirLossByWhatItIs) {
  // Median ITL 264 ms less the floor of the decode step, not the waterfall's unexplained rest.
  expect_says(unchanged(), "proposal.grouped_gemm",
              "lie between the decode floor and the median gap between chunks");
  expect_never_says(unchanged(), "of the decode step are unexplained");
  Json json = case_document(kGlm);
  at(json, "load.levels[2].itl_ms") = Json();
  expect_says(explain_document(json), "proposal.grouped_gemm", "of the step are unexplained");
}

TEST(SentenceTest, HeadlinesAnswerEveryPoint) {
  for (const char* id :
       {"intensity.bf16.nvfp4.16x2048x6144", "kernel.memory_floor.nvfp4.16x2048x6144",
        "routing.rank.1024", "collectives.ring.pcie5-x16", "layouts.floor.tp4pp2.512",
        "little.2048.step"}) {
    ASSERT_NE(find(unchanged(), id), nullptr) << id;
    EXPECT_TRUE(find(unchanged(), id)->headline) << id;
  }
  for (const char* id : {"intensity.bf16.nvfp4.64x2048x6144", "routing.rank.512",
                         "collectives.one-shot.pcie5-x16", "little.512.step"}) {
    ASSERT_NE(find(unchanged(), id), nullptr) << id;
    EXPECT_FALSE(find(unchanged(), id)->headline) << id;
  }
  for (const Finding& finding : unchanged().findings) {
    if (finding.id.starts_with("proposal.")) {
      EXPECT_TRUE(finding.headline) << finding.id;
    }
  }
}

TEST(SentenceTest, ATileOfNoKernelIsCalledSoOnce) {
  Json json = case_document(kGlm);
  at(json, "tactics_failed[0]") = Json("1x1");
  const CaseAnalysis analysis = explain_document(json);
  const Finding* finding = find(analysis, "tile.failed.1x1");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(occurrences(finding->sentence, "not a tile of this kernel family"), 1U)
      << finding->sentence;
}

TEST(SentenceTest, OneIsSingular) {
  EXPECT_EQ(counted(1, "request"), "1 request");
  EXPECT_EQ(counted(0, "request"), "0 requests");
  EXPECT_EQ(counted(1024, "request"), "1,024 requests");
  Json json = case_document(kGlm);
  at(json, "load.levels[0].concurrency") = Json(1);
  at(json, "load.levels[0].output_tok_s") = Json(10);
  const CaseAnalysis analysis = explain_document(json);
  expect_says(analysis, "step.1.floor", "At 1 sequence:");
  expect_says(analysis, "little.1.step", "1 request at");
  expect_never_says(analysis, "At 1 requests");
  expect_never_says(analysis, "At 1 sequences");
}

TEST(SentenceTest, ThePrefillChunkIsOneNumber) {
  const Finding* finding = find(unchanged(), "step.1024.unexplained");
  ASSERT_NE(finding, nullptr);
  const bool named = std::any_of(
      finding->assumptions.begin(), finding->assumptions.end(), [](const std::string& text) {
        return text.find("in passes of 8,192 tokens or one step's prompts") != std::string::npos;
      });
  EXPECT_TRUE(named);
  // A pass at 1,024 sequences holds that many: 64 prompts of 128 tokens.
  EXPECT_DOUBLE_EQ(unchanged().levels[2].prefill->rows, 8192);
}

}  // namespace
}  // namespace nibble
