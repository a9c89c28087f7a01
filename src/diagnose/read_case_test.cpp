#include <gtest/gtest.h>

#include "diagnose/proposals.h"
#include "diagnose/read_evidence.h"
#include "diagnose/read_fixture.h"

namespace nibble::diagnose {
namespace {

struct ReadCase {
  Evidence evidence;
  CaseAnalysis analysis;
};

ReadCase built_in(std::string_view name) {
  ReadCase read;
  const auto text = built_in_case(name);
  EXPECT_TRUE(text.has_value());
  Result<CaseAnalysis> analysis =
      read_case(json_of(text.value_or("{}")), {.name = std::string(name)}, read.evidence);
  EXPECT_TRUE(analysis.ok()) << (analysis.ok() ? "" : analysis.error().message);
  if (analysis.ok()) read.analysis = *std::move(analysis);
  return read;
}

TEST(ReadCaseTest, TheGlm5CaseAsItStates) {
  const ReadCase read = built_in("glm5_rtxpro6000");
  const Evidence& evidence = read.evidence;
  ASSERT_EQ(evidence.levels.size(), 4U);
  const LevelEvidence& level = evidence.levels[2];
  EXPECT_EQ(level.name, "1024 users");
  EXPECT_DOUBLE_EQ(*level.get(Fact::kOutputRate), 1601);
  EXPECT_DOUBLE_EQ(*level.get(Fact::kItlP50), 264);
  EXPECT_DOUBLE_EQ(*level.get(Fact::kItlP99), 3096);
  // The mean of the eight samples, over 600 W.
  EXPECT_NEAR(*level.get(Fact::kPower), 235.61, 0.01);
  EXPECT_NEAR(*level.get(Fact::kPowerShare), 0.3927, 0.0001);
  EXPECT_DOUBLE_EQ(*level.get(Fact::kUtilization), 1);
  EXPECT_DOUBLE_EQ(*level.get(Fact::kPromptRate), 1601);  // as many tokens in as out
  EXPECT_EQ(level[Fact::kOccupancy].reason, "the case does not state it");
  EXPECT_EQ(evidence.levels[3][Fact::kRunning].reason, "the case does not state it");
  // 75 layers x 679.5 MB at 1597 GB/s.
  ASSERT_TRUE(level.floor.has_value());
  EXPECT_NEAR(level.floor->expert_weights, 31.9, 0.1);
  EXPECT_GT(*level.prefill_floor, 0);
  EXPECT_EQ(evidence.setting.max_running, 1024);
  EXPECT_EQ(evidence.setting.engine, "sglang");
  EXPECT_EQ(evidence.setting.gpus, 8);
  EXPECT_EQ(evidence.setting.copy_power_w, 365);
  EXPECT_EQ(evidence.kernels.size(), 4U);  // of the five one has no shape
  EXPECT_EQ(read.analysis.levels.size(), 4U);
}

TEST(ReadCaseTest, TheWaterfallExplainsWhatLittlesLawSays) {
  const ReadCase read = built_in("glm5_rtxpro6000");
  LevelDiagnosis level;
  build_waterfall(read.evidence, 2, level);
  EXPECT_NEAR(*level.measured_ms, 639.6, 0.1);  // 1024 / 1601
  build_waterfall(read.evidence, 3, level);
  EXPECT_NEAR(*level.measured_ms, 1248.8, 0.1);  // 2048 / 1640
  // By the cap 1024 of 2048 wait: half of the time.
  for (const WaterfallBar& bar : level.waterfall) {
    if (bar.id == "queue") {
      EXPECT_NEAR(*bar.ms, 624.4, 0.1);
    }
  }
}

TEST(ReadCaseTest, TheSpinningCase) {
  const ReadCase read = built_in("glm52_rtxpro6000_spin");
  ASSERT_EQ(read.evidence.levels.size(), 1U);
  const LevelEvidence& level = read.evidence.levels[0];
  EXPECT_DOUBLE_EQ(*level.get(Fact::kOutputRate), 39.6);
  EXPECT_DOUBLE_EQ(*level.get(Fact::kUtilization), 1);
  EXPECT_NEAR(*level.get(Fact::kPowerShare), 140.0 / 600, 1e-12);
  LevelDiagnosis diagnosis;
  build_waterfall(read.evidence, 0, diagnosis);
  EXPECT_NEAR(*diagnosis.measured_ms, 25.25, 0.01);  // 1 / 39.6
  // 140 W x 8 / 39.6.
  EXPECT_NEAR(*diagnosis.joules_per_token, 28.28, 0.01);
  EXPECT_LT(*diagnosis.joules_floor, *diagnosis.joules_per_token);
}

TEST(ReadCaseTest, VerdictsOfTheSpinningCaseAreOfCollectivesOrWaiting) {
  Diagnosis diagnosis = conclude(built_in("glm52_rtxpro6000_spin").evidence);
  ASSERT_FALSE(diagnosis.verdicts.empty());
  const Class cls = diagnosis.verdicts.front().cls;
  EXPECT_TRUE(cls == Class::kCollectives || cls == Class::kLaunchHost)
      << info_of(cls).name << ": " << diagnosis.verdicts.front().sentence;
}

TEST(ReadCaseTest, ProposalsOfACaseAreTakenOver) {
  const ReadCase read = built_in("glm5_rtxpro6000");
  Diagnosis diagnosis = conclude(read.evidence);
  add_case(read.analysis, diagnosis);
  std::size_t taken = 0;
  for (const Proposal& proposal : diagnosis.proposals) {
    for (const nibble::Proposal& stated : read.analysis.proposals) {
      if (stated.id != proposal.id) continue;
      ++taken;
      EXPECT_GT(stated.at_most_us, 0) << stated.id;
      EXPECT_DOUBLE_EQ(proposal.at_most_ms, stated.at_most_us / 1000) << stated.id;
      EXPECT_DOUBLE_EQ(proposal.at_most_ratio, stated.at_most_ratio) << stated.id;
    }
    EXPECT_NE(proposal.how, "") << proposal.id;
    EXPECT_NE(proposal.cost, "") << proposal.id;
  }
  // All but the larger tiles, which win nothing at this load.
  EXPECT_EQ(taken + 1, read.analysis.proposals.size());
  EXPECT_EQ(diagnosis.findings.size(), read.analysis.findings.size());
  // Those of the class that is named, collectives, stand first; within both groups by what they
  // win.
  const auto named = [](const Proposal& proposal) {
    return proposal.because == Class::kCollectives;
  };
  ASSERT_TRUE(named(diagnosis.proposals.front()));
  for (std::size_t index = 1; index < diagnosis.proposals.size(); ++index) {
    const Proposal& before = diagnosis.proposals[index - 1];
    const Proposal& here = diagnosis.proposals[index];
    EXPECT_TRUE(named(before) || !named(here)) << here.id;
    if (named(before) == named(here)) {
      EXPECT_GE(before.at_most_ms, here.at_most_ms) << here.id;
    }
  }
  EXPECT_NE(diagnosis.sentence.find(diagnosis.proposals.front().title), std::string::npos);
  const auto cap =
      std::find_if(diagnosis.proposals.begin(), diagnosis.proposals.end(),
                   [](const Proposal& proposal) { return proposal.id == "max_running_requests"; });
  ASSERT_NE(cap, diagnosis.proposals.end());
  // 1,413 sequences fit by the case's own finding.
  EXPECT_TRUE(cap->how.starts_with("--max-running-requests 1413 ")) << cap->how;
}

TEST(ReadCaseTest, ANamedClassStandsFirstInACase) {
  const ReadCase read = built_in("glm52_rtxpro6000_spin");
  Diagnosis diagnosis = conclude(read.evidence);
  add_case(read.analysis, diagnosis);
  ASSERT_FALSE(diagnosis.proposals.empty());
  EXPECT_EQ(diagnosis.proposals.front().because, diagnosis.verdicts.front().cls);
}

TEST(ReadCaseTest, RefusesWhatTheCaseReaderRefuses) {
  Evidence evidence;
  const auto read = read_case(json_of(R"({"schema": "nibble.case/1"})"), {.name = "x"}, evidence);
  EXPECT_FALSE(read.ok());
}

}  // namespace
}  // namespace nibble::diagnose
