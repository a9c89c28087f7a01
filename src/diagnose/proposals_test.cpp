#include "diagnose/proposals.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>

namespace nibble::diagnose {
namespace {

// 100 ms a token: 40 of queue, 20 of kernels, 4 of host, 36 of floor.
Diagnosis hundred() {
  Diagnosis diagnosis;
  diagnosis.evidence.setting.engine = "vllm";
  diagnosis.evidence.levels.push_back({.name = "100 users"});
  LevelEvidence& facts = diagnosis.evidence.levels[0];
  facts[Fact::kUsers] = recorded(100, "t");
  facts[Fact::kRunning] = recorded(60, "t");
  facts[Fact::kKvUsage] = recorded(0.3, "t");
  LevelDiagnosis level{.name = "100 users", .users = 100, .measured_ms = 100};
  level.waterfall = {{.id = "expert_weights", .title = "expert weights", .ms = 36},
                     {.id = "kernels", .title = "kernels", .ms = 20},
                     {.id = "host", .title = "host", .ms = 4},
                     {.id = "queue", .title = "queue", .ms = 40},
                     {.id = "unexplained", .title = "unexplained", .ms = 0}};
  diagnosis.levels = {level};
  return diagnosis;
}

const Proposal* named(const std::vector<Proposal>& proposals, std::string_view id) {
  for (const Proposal& proposal : proposals) {
    if (proposal.id == id) return &proposal;
  }
  return nullptr;
}

std::vector<std::string> ids_of(const std::vector<Proposal>& proposals) {
  std::vector<std::string> ids;
  for (const Proposal& proposal : proposals) ids.push_back(proposal.id);
  return ids;
}

TEST(ProposalsTest, RankedByWhatTheyWinAndOnlyWhatTheNumbersSupport) {
  const std::vector<Proposal> proposals = propose(hundred());
  // The host's 4 ms are below a twentieth.
  EXPECT_EQ(ids_of(proposals), (std::vector<std::string>{"raise_running_cap", "better_kernels"}));
  EXPECT_DOUBLE_EQ(proposals[0].at_most_ms, 40);
  EXPECT_NEAR(proposals[0].at_most_ratio, 100.0 / 60, 1e-12);
  EXPECT_DOUBLE_EQ(proposals[1].at_most_ratio, 1.25);
  EXPECT_EQ(proposals[0].because, Class::kSchedulerCap);
  EXPECT_NE(proposals[0].evidence.find("40 ms of the 100 ms"), std::string::npos);
}

TEST(ProposalsTest, AVerdictSupportsWhatItsBarDoesNot) {
  Diagnosis diagnosis = hundred();
  Verdict verdict{.cls = Class::kLaunchHost,
                  .confidence = 0.6,
                  .certainty = Certainty::kLikely,
                  .evidence_for = {{.id = "gap", .sentence = "Steps take 90 % of the time."}}};
  diagnosis.levels[0].verdicts = {verdict};
  const std::vector<Proposal> proposals = propose(diagnosis);
  const Proposal* host = named(proposals, "fewer_host_gaps");
  ASSERT_NE(host, nullptr);
  EXPECT_DOUBLE_EQ(host->at_most_ms, 4);
  EXPECT_NE(host->evidence.find("Steps take 90 %"), std::string::npos);
  diagnosis.levels[0].verdicts[0].certainty = Certainty::kNone;
  EXPECT_EQ(named(propose(diagnosis), "fewer_host_gaps"), nullptr);
}

TEST(ProposalsTest, FlagsHaveTheirValueAndTheirEngine) {
  Diagnosis diagnosis = hundred();
  // 60 of 100 run and take 30 % of the cache: 128 fit well.
  EXPECT_EQ(named(propose(diagnosis), "raise_running_cap")->how, "--max-num-seqs 128");
  diagnosis.evidence.levels[0][Fact::kKvUsage] = recorded(0.8, "t");
  EXPECT_EQ(named(propose(diagnosis), "raise_running_cap")->how, "--max-num-seqs 75");  // 60 / 0.8
  diagnosis.evidence.setting.engine = "nibble";
  EXPECT_EQ(named(propose(diagnosis), "raise_running_cap")->how, "--max-running-requests 75");
  diagnosis.evidence.setting.engine = "";
  const std::string all = named(propose(diagnosis), "raise_running_cap")->how;
  EXPECT_NE(all.find("vLLM: --max-num-seqs 75; SGLang: --max-running-requests 75"),
            std::string::npos);
  EXPECT_NE(all.find("llama.cpp: --parallel 75"), std::string::npos);
}

TEST(ProposalsTest, ACapAboveTheLoadHoldsNothingBack) {
  Diagnosis diagnosis = hundred();
  diagnosis.evidence.setting.max_running = 256;
  EXPECT_EQ(named(propose(diagnosis), "raise_running_cap"), nullptr);
  diagnosis.evidence.setting.max_running = 60;
  EXPECT_NE(named(propose(diagnosis), "raise_running_cap"), nullptr);
}

TEST(ProposalsTest, AFullCacheIsNoCap) {
  Diagnosis diagnosis = hundred();
  diagnosis.evidence.levels[0][Fact::kKvUsage] = recorded(0.97, "t");
  const std::vector<Proposal> proposals = propose(diagnosis);
  EXPECT_EQ(ids_of(proposals), (std::vector<std::string>{"more_kv_cache", "better_kernels"}));
}

TEST(ProposalsTest, AChunkTakesNoLongerThanAStep) {
  Diagnosis diagnosis = hundred();
  diagnosis.levels[0].waterfall.push_back({.id = "prefill", .title = "prefill", .ms = 10});
  diagnosis.evidence.levels[0][Fact::kKernels] = recorded(10, "t");
  diagnosis.evidence.levels[0][Fact::kPrefillPerToken] = recorded(0.05, "t");
  // 10 ms / 0.05 ms are 200 tokens: 128, and 60 of decode beside them, in sixteens.
  EXPECT_EQ(named(propose(diagnosis), "smaller_prefill_chunks")->how,
            "--max-num-batched-tokens 192");
  // By the ledger 0.2 ms for 100 tok/s x 60 / 200 tok/s = 30 tokens: 1,500 of them in 10 ms.
  LevelEvidence& facts = diagnosis.evidence.levels[0];
  facts[Fact::kPrefillPerToken] = missing("no bench");
  facts[Fact::kPromptRate] = recorded(100, "t");
  facts[Fact::kOutputRate] = recorded(200, "t");
  facts.prefill_floor = 0.2;
  EXPECT_EQ(named(propose(diagnosis), "smaller_prefill_chunks")->how,
            "--max-num-batched-tokens 1088");
}

TEST(ProposalsTest, AllUnexplainedSetsNoBound) {
  Diagnosis diagnosis = hundred();
  diagnosis.levels[0].waterfall = {{.id = "unexplained", .title = "unexplained", .ms = 100}};
  diagnosis.levels[0].verdicts = {
      {.cls = Class::kCollectives, .confidence = 0.5, .certainty = Certainty::kPossible}};
  const std::vector<Proposal> proposals = propose(diagnosis);
  ASSERT_EQ(proposals.size(), 1U);
  EXPECT_TRUE(std::isinf(proposals[0].at_most_ratio));
  const Json json = to_json(diagnosis);
  EXPECT_TRUE(json.find("proposals")->as_array().empty());
  diagnosis.proposals = proposals;
  const Json with = to_json(diagnosis);
  const Json& written = with.find("proposals")->as_array()[0];
  EXPECT_TRUE(written.find("at_most_ratio")->is_null());
  EXPECT_TRUE(written.find("at_most_reason")->is_string());
}

TEST(ProposalsTest, NothingWithoutALevel) {
  EXPECT_TRUE(propose(Diagnosis{}).empty());
  Diagnosis healthy = hundred();
  healthy.levels[0].waterfall = {{.id = "expert_weights", .title = "weights", .ms = 100}};
  EXPECT_TRUE(propose(healthy).empty());
}

TEST(ProposalsTest, EveryRowSaysWhatToDo) {
  std::set<std::string_view> ids;
  for (const ProposalDef& def : proposal_table()) {
    EXPECT_TRUE(ids.insert(def.id).second) << def.id;
    EXPECT_NE(def.title, "") << def.id;
    EXPECT_NE(def.cost, "") << def.id;
    EXPECT_NE(def.depends_on, "") << def.id;
    EXPECT_TRUE(!def.any.empty() || (!def.vllm.empty() && !def.sglang.empty())) << def.id;
    EXPECT_GT(def.part, 0) << def.id;
    EXPECT_LE(def.part, 1) << def.id;
  }
  // Everything but health and what nobody can name has its proposal.
  EXPECT_EQ(ids.size(), kClasses - 2);
}

}  // namespace
}  // namespace nibble::diagnose
