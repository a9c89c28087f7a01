// Cases with pieces missing: reasons instead of numbers, and never a crash.
#include <gtest/gtest.h>
#include <set>

#include "explain/explain.h"
#include "explain/explain_expect.h"

namespace nibble {
namespace {

Json without(std::string_view parent, std::string_view key) {
  Json json = case_document("glm5_rtxpro6000");
  erase(parent.empty() ? json : at(json, parent), key);
  return json;
}

bool lacks(const CaseAnalysis& analysis, std::string_view part) {
  for (const std::string& signal : analysis.missing_signals) {
    if (signal.find(part) != std::string::npos) return true;
  }
  return false;
}

void expect_all_points(const CaseAnalysis& analysis) {
  std::set<int> points;
  for (const Finding& finding : analysis.findings) points.insert(finding.point);
  for (int point = 1; point <= 14; ++point) EXPECT_TRUE(points.contains(point)) << point;
}

TEST(ExplainMissingTest, EveryPieceMayBeAbsent) {
  const std::pair<const char*, const char*> pieces[] = {{"", "kernels"},
                                                        {"", "server"},
                                                        {"", "load"},
                                                        {"", "layouts_compared"},
                                                        {"", "claims"},
                                                        {"", "tactics_failed"},
                                                        {"", "notes"},
                                                        {"load", "levels"},
                                                        {"load", "after_tuning"},
                                                        {"load", "input_len"},
                                                        {"load", "output_len"},
                                                        {"machine", "fp4_tflops_quoted"},
                                                        {"machine", "fp4_tflops_dense_assumed"},
                                                        {"machine", "power_limit_w"},
                                                        {"machine", "bandwidth_gb_s"},
                                                        {"machine", "sms"},
                                                        {"server", "max_running_requests"},
                                                        {"server", "layout"},
                                                        {"load.levels[2]", "gpus"},
                                                        {"load.levels[2]", "itl_ms"},
                                                        {"load.levels[2]", "output_tok_s"},
                                                        {"load.levels[2].gpus", "utilization_pct"},
                                                        {"load.levels[2].gpus", "power_w"},
                                                        {"model", "experts"}};
  for (const auto& [parent, key] : pieces) {
    SCOPED_TRACE(fmt::format("without {}.{}", parent, key));
    const CaseAnalysis analysis = explain_document(without(parent, key));
    expect_all_points(analysis);
    for (const Finding& finding : analysis.findings) {
      EXPECT_TRUE(!finding.value || std::isfinite(*finding.value)) << finding.id;
    }
  }
}

TEST(ExplainMissingTest, NothingButNames) {
  const Json json =
      Json::parse(R"({"schema": "nibble.case/1", "name": "bare", "model": {"name": "GLM-5-NVFP4"},
      "machine": {"gpu": "RTX PRO 6000 Blackwell Server", "gpus": 8}})",
                  "bare.json")
          .value();
  const CaseAnalysis analysis = explain_document(json);
  expect_all_points(analysis);
  expect_missing(analysis, "intensity", "no kernel with m, n, k");
  expect_missing(analysis, "step", "no load level");
  expect_missing(analysis, "formats", "no shape was timed in two formats");
  expect_missing(analysis, "power.share", "no level has power samples");
  expect_missing(analysis, "plateau", "fewer than two levels");
  expect_missing(analysis, "layouts", "fewer than two layouts");
  expect_missing(analysis, "peak.used", "quotes no FP4 peak");
  expect_missing(analysis, "proposals", "no level has a rate");
  expect_missing(analysis, "little", "no level has an output rate");
  EXPECT_EQ(verdict_of(analysis, "parameters"), "no claim to compare");
  EXPECT_TRUE(lacks(analysis, "kernel timings"));
  EXPECT_TRUE(lacks(analysis, "output tok/s"));
  EXPECT_TRUE(lacks(analysis, "power per GPU"));
  EXPECT_TRUE(analysis.levels.empty());
}

TEST(ExplainMissingTest, WithoutPower) {
  expect_missing(explain_document(without("load.levels[2]", "gpus")), "power.share",
                 "no level has power samples");
}

TEST(ExplainMissingTest, WithoutACapThePlateauIsNotBlamedOnOne) {
  const CaseAnalysis analysis = explain_document(without("server", "max_running_requests"));
  EXPECT_EQ(verdict_of(analysis, "plateau"), "flat, max_running_requests not stated");
  EXPECT_EQ(find(analysis, "proposal.max_running_requests"), nullptr);
  // All 2,048 run: 2048 / 1640 tok/s is the step.
  EXPECT_NEAR(value_of(analysis, "step.2048.measured"), 1248.8e3, 1e3);
}

TEST(ExplainMissingTest, WithoutLengths) {
  const CaseAnalysis analysis = explain_document(without("load", "output_len"));
  expect_missing(analysis, "kv.fit", "input_len and output_len are not stated");
  EXPECT_TRUE(lacks(analysis, "load.input_len"));
  EXPECT_FALSE(analysis.levels[2].prefill.has_value());
  EXPECT_EQ(find(analysis, "layouts.agreement.tp8pp1.512"), nullptr);
}

TEST(ExplainMissingTest, WithoutARateOrAnItl) {
  const CaseAnalysis no_rate = explain_document(without("load.levels[2]", "output_tok_s"));
  expect_missing(no_rate, "step.1024.measured", "no rate");
  EXPECT_TRUE(lacks(no_rate, "output tok/s at concurrency 1024"));
  const CaseAnalysis no_itl = explain_document(without("load.levels[2]", "itl_ms"));
  expect_missing(no_itl, "little.ratio", "no level has a median ITL");
  EXPECT_EQ(find(no_itl, "proposal.prefill_schedule"), nullptr);
}

TEST(ExplainMissingTest, ATotalRateStandsInForTheOutputRate) {
  Json json = without("load.levels[2]", "output_tok_s");
  at(json, "load.levels[2].total_tok_s") = Json(3202);  // 128 in, 128 out: half of it is output
  EXPECT_NEAR(value_of(explain_document(json), "little.1024.step"), 639.6, 0.1);
}

TEST(ExplainMissingTest, LayoutNotStatedIsTensorParallelAndSaysSo) {
  const CaseAnalysis analysis = explain_document(without("server", "layout"));
  EXPECT_EQ(analysis.deployment.layout.tp, 8);
  bool assumed = false;
  for (const FindingInput& input : find(analysis, "shapes.gate_up")->inputs) {
    assumed = assumed || input.source.starts_with("assumed: TP over machine.gpus");
  }
  EXPECT_TRUE(assumed);
}

TEST(ExplainMissingTest, QuotedFp4PeakOfAChipWithoutFp4IsNotUsed) {
  Json json = case_document("deepseek_r1_h200");
  at(json, "machine.fp4_tflops_quoted") = Json(4000);
  const CaseAnalysis analysis = explain_document(json);
  expect_missing(analysis, "peak.used", "no FP4 matrix unit");
  expect_missing(analysis, "ignored.machine.fp4_tflops_quoted", "no FP4 matrix unit");
}

TEST(ExplainMissingTest, ALayoutThatTheModelCannotHaveIsAReason) {
  Json json = case_document("glm5_rtxpro6000");
  at(json, "layouts_compared[1].tp") = Json(3);
  const CaseAnalysis analysis = explain_document(json);
  expect_missing(analysis, "layouts.predicted.tp3pp2.512", "64");
}

TEST(ExplainMissingTest, UnknownModelsAndMachinesAreRefused) {
  Json json = case_document("glm5_rtxpro6000");
  at(json, "model.name") = Json("GLM-55");
  const Result<CaseAnalysis> no_model = explain_case(parse_case(json, "x.json").value(), {});
  ASSERT_FALSE(no_model.ok());
  EXPECT_NE(no_model.error().message.find("model.name"), std::string::npos)
      << no_model.error().message;
  json = case_document("glm5_rtxpro6000");
  at(json, "machine.gpu") = Json("RTX PRO 9000");
  const Result<CaseAnalysis> no_machine = explain_case(parse_case(json, "x.json").value(), {});
  ASSERT_FALSE(no_machine.ok());
  EXPECT_NE(no_machine.error().message.find("machine.gpu"), std::string::npos)
      << no_machine.error().message;
}

// Whatever number is absurd: refused in a sentence, or explained with finite numbers.
TEST(ExplainMissingTest, AbsurdNumbersNeverCrash) {
  std::set<std::string> paths;
  collect_numbers(case_document("glm5_rtxpro6000"), "", paths);
  int explained = 0;
  for (const std::string& path : paths) {
    if (path.find(".gpus.") != std::string::npos && !path.ends_with("[0]")) continue;
    for (const double absurd : {1e-6, 50000.0}) {
      Json json = case_document("glm5_rtxpro6000");
      at(json, path) = Json(absurd);
      const Result<Case> found = parse_case(json, "absurd.json");
      if (!found) continue;
      const Result<CaseAnalysis> analysis = explain_case(*found, {});
      if (!analysis) {
        EXPECT_FALSE(analysis.error().message.empty());
        continue;
      }
      ++explained;
      for (const Finding& finding : analysis->findings) {
        EXPECT_TRUE(!finding.value || std::isfinite(*finding.value))
            << path << " = " << absurd << ": " << finding.id;
        EXPECT_EQ(finding.sentence.find("nan"), std::string::npos) << finding.sentence;
      }
    }
  }
  EXPECT_GT(explained, 50);  // most are within the ranges that a case may have
}

TEST(ExplainMissingTest, UnknownClaimsAreNotJudged) {
  Json json = case_document("glm5_rtxpro6000");
  at(json, "claims[0].what") = Json("colour");
  expect_missing(explain_document(json), "claim.colour", "colour");
}

}  // namespace
}  // namespace nibble
