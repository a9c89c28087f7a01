#include "tactics/logs/conclusions.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "tactics/logs/log_document.h"

namespace nibble::logs {
namespace {

// An H200 and a B200: 227 KiB a block.
constexpr BlockLimits kWide{.major = 10, .minor = 0, .shared_per_block = 232448};

TacticLog read_text(std::string_view text, std::string_view name = "server.log") {
  Result<TacticLog> log = read_tactic_text(text, name);
  NIBBLE_CHECK(log.ok());
  return *log;
}

std::string tuner_line(std::string_view message, std::string_view rank = "TP0") {
  return fmt::format(
      "(Worker_{} pid=1) 2026-01-01 00:00:00,000 - DEBUG - autotuner.py:900 - "
      "flashinfer.jit: [Autotuner]: {}\n",
      rank, message);
}

std::string skipped_line(int tactic, std::string_view why) {
  return tuner_line(
      fmt::format("Skipping tactic <a.MoERunner object at 0x1> {}, due to failure "
                  "while profiling: {}",
                  tactic, why));
}

std::string chosen_line(int tactic, int rows, std::string_view rank = "TP0") {
  return tuner_line(fmt::format("profiling chosen runner: <a.MoERunner object at 0x1> {} for "
                                "('moe::gemm1', 'MoERunner', 7, (({}, 64),), ())",
                                tactic, rows),
                    rank);
}

std::string timed_line(int tactic, int rows) {
  return tuner_line(
      fmt::format("profiling <a.MoERunner object at 0x1> {}, shapes=[torch.Size([{}, "
                  "64])], avg_time 0.5",
                  tactic, rows));
}

std::vector<Finding> findings_of(const TacticLog& log, const BlockLimits& limits = kSm120Limits) {
  return conclusions({&log, 1}, limits);
}

const Finding* find_finding(const std::vector<Finding>& findings, std::string_view start) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.id.starts_with(start);
  });
  return found == findings.end() ? nullptr : &*found;
}

std::string sentence_of(const std::vector<Finding>& findings, std::string_view start) {
  const Finding* finding = find_finding(findings, start);
  return finding == nullptr ? "" : finding->sentence;
}

constexpr std::string_view kTooLarge =
    "MoE grouped GEMM requires 102400 bytes shared memory but device supports 101376 "
    "(cutlass_kernel_file_gemm_grouped_sm120_M128_BS_group2.generated.cu:39) CtaShape128x256x64B";

TEST(Conclusions, SharedMemoryNamesWhatIsAskedForAndWhatTheChipHas) {
  std::string text;
  for (int tactic = 0; tactic < 13; ++tactic) text += skipped_line(tactic, kTooLarge);
  for (int tactic = 13; tactic < 16; ++tactic) text += timed_line(tactic, 64);
  text += chosen_line(14, 64);
  // NVIDIA/cutlass issue 3144: 13 of 16 tactics; 64 bytes of FP4 are 128 values.
  EXPECT_EQ(sentence_of(findings_of(read_text(text)), "tactics.log.shared"),
            "13 of 16 tactics of moe::gemm1 were skipped: they ask for 102,400 B of shared memory, "
            "and a block of sm_120 has 101,376 B; \"nibble tactics --explain 128x256x128\" says "
            "whether the tile fits with fewer stages.");
}

TEST(Conclusions, AnotherChipGivesAnotherAnswer) {
  const TacticLog log = read_text(skipped_line(3, kTooLarge));
  const std::vector<Finding> findings = findings_of(log, kWide);
  const Finding* finding = find_finding(findings, "tactics.log.shared");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->verdict, "fits_here");
  EXPECT_EQ(finding->sentence,
            "1 tactic of MoERunner was skipped: it asks for 102,400 B of shared memory, more than "
            "the 101,376 B of the log's GPU; a block of sm_100 has 232,448 B.");
}

TEST(Conclusions, TheLimitItselfFits) {
  struct Case {
    int wanted;
    bool fits;
  };
  for (const Case& one :
       {Case{101375, true}, Case{101376, true}, Case{101377, false}, Case{102400, false}}) {
    const TacticLog log = read_text(skipped_line(
        1, fmt::format("requires {} bytes shared memory but device supports 49152", one.wanted)));
    const std::vector<Finding> findings = findings_of(log);
    const Finding* finding = find_finding(findings, "tactics.log.shared");
    ASSERT_NE(finding, nullptr);
    EXPECT_EQ(finding->verdict == "fits_here", one.fits) << one.wanted;
  }
}

TEST(Conclusions, CutlassGivesNoReason) {
  const TacticLog log = read_text(
      skipped_line(15,
                   "Assertion failed: Failed to initialize cutlass TMA WS grouped gemm. Error: "
                   "Error Internal") +
      skipped_line(16,
                   "Assertion failed: Failed to initialize cutlass TMA WS grouped gemm. Error: "
                   "Error Internal"));
  const std::vector<Finding> findings = findings_of(log);
  const Finding* finding = find_finding(findings, "tactics.log.not_initialised");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->confidence, Confidence::kLikely);
  EXPECT_EQ(finding->value, 2);
  EXPECT_NE(finding->sentence.find("2 tactics of MoERunner were skipped"), std::string::npos);
}

TEST(Conclusions, TheLimitOfAnotherChipIsNotBlamed) {
  const std::string folder = tuner_line(
      "Loaded 1 configs from /root/.cache/vllm/flashinfer_autotune_cache/0.6.14/120f/a/b");
  const TacticLog log = read_text(
      folder +
      skipped_line(15, "Failed to initialize cutlass TMA WS grouped gemm. Error Internal"));
  EXPECT_NE(sentence_of(findings_of(log), "tactics.log.not_initialised")
                .find("than a block has (101,376 B on sm_120)"),
            std::string::npos);
  EXPECT_NE(
      sentence_of(findings_of(log, kWide), "tactics.log.not_initialised").find("than a block has."),
      std::string::npos);
}

TEST(Conclusions, FailuresBehindAFaultSayLittle) {
  const TacticLog log =
      read_text(skipped_line(1, "CUDA error: an illegal instruction was encountered") +
                skipped_line(2, "K must be divisible by 64") +
                skipped_line(3, "CUDA error: an illegal instruction was encountered"));
  EXPECT_NE(sentence_of(findings_of(log), "tactics.log.fault")
                .find("first in server.log:1; 2 failures of the same process that come behind it"),
            std::string::npos);
}

TEST(Conclusions, EveryNativeTacticFailed) {
  const TacticLog log = read_text(
      timed_line(1, 8) + chosen_line(1, 8) + skipped_line(1, kTooLarge) +
      tuner_line("Failed when profiling <a.MoERunner object at 0x1> 1, shapes=[torch.Size([16, "
                 "64])]. Error occurred: x") +
      tuner_line("Skipped 1 unsupported tactic(s) for moe::gemm1 (enable debug logs)"));
  EXPECT_EQ(sentence_of(findings_of(log), "tactics.log.none_chosen"),
            "Every tactic of moe::gemm1 (1 tactic) failed in 1 shape, first at 16 rows in "
            "server.log:3: the run used the fallback (tactic -1), whose time says nothing about "
            "native kernels.");
}

TEST(Conclusions, WithoutTimingsNothingIsSaidAboutAllTactics) {
  // A log of warnings alone does not show what succeeded.
  const std::vector<Finding> findings = findings_of(read_text(skipped_line(1, kTooLarge)));
  EXPECT_EQ(find_finding(findings, "tactics.log.none_chosen"), nullptr);
  EXPECT_EQ(sentence_of(findings, "tactics.log.shared").find("1 of"), std::string::npos);
}

TEST(Conclusions, OneCandidateIsNotTuned) {
  const std::vector<Finding> findings =
      findings_of(read_text(timed_line(1, 8) + chosen_line(1, 8) + timed_line(1, 16) +
                            timed_line(2, 16) + chosen_line(2, 16)));
  EXPECT_EQ(sentence_of(findings, "tactics.log.single"),
            "Untuned: moe::gemm1 had one candidate in 1 shape, MoERunner 1 at 8 rows; nothing was "
            "compared.");
}

TEST(Conclusions, RanksThatChoseDifferently) {
  const TacticLog log = read_text(chosen_line(1, 8, "TP0") + chosen_line(1, 8, "TP1") +
                                  chosen_line(4, 16, "TP0") + chosen_line(5, 16, "TP1"));
  const std::vector<Finding> findings = findings_of(log);
  const Finding* finding = find_finding(findings, "tactics.log.ranks");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->value, 1);
  EXPECT_NE(
      finding->sentence.find("differently in 1 of 2 shapes: for moe::gemm1 at 16 rows TP0 took "
                             "MoERunner 4, TP1 took MoERunner 5"),
      std::string::npos);
}

TEST(Conclusions, RanksInFilesOfTheirOwn) {
  constexpr std::string_view kFirst = R"json({"('op', 'R', ((8, 4),))": ["R", 1]})json";
  constexpr std::string_view kSecond = R"json({"('op', 'R', ((8, 4),))": ["R", 2]})json";
  const std::vector<TacticLog> same = {read_text(kFirst, "rank_tp0_pp0_dp0.json"),
                                       read_text(kFirst, "rank_tp1_pp0_dp0.json")};
  EXPECT_EQ(find_finding(conclusions(same, kSm120Limits), "tactics.log.ranks"), nullptr);
  const std::vector<TacticLog> differing = {read_text(kFirst, "a.json"),
                                            read_text(kSecond, "b.json")};
  EXPECT_NE(sentence_of(conclusions(differing, kSm120Limits), "tactics.log.ranks")
                .find("a.json took R 1, b.json took R 2"),
            std::string::npos);
}

TEST(Conclusions, TheFallbackAsAChoice) {
  const TacticLog log = read_text(
      R"json({"('op', 'R', ((8, 4),))": ["R", -1], "('op', 'R', ((16, 4),))": ["R", 2]})json",
      "c.json");
  EXPECT_NE(sentence_of(findings_of(log), "tactics.log.fallback_chosen").find("1 of 2 choices is"),
            std::string::npos);
}

TEST(Conclusions, TritonsFormula) {
  // sgl-project/sglang PR 28038: "(4-1) x (128 + 256) x 128 x 1B = 147456", byte for byte.
  const TritonConfig config{.batch = 1, .m = 128, .n = 256, .k = 128, .stages = 4};
  EXPECT_EQ(triton_shared_bytes(config, 1), 147456);
  EXPECT_EQ(triton_most_stages(config, 1, 101376), 3);  // 2 x 49,152 = 98,304; 3 x are more
  EXPECT_EQ(triton_most_stages(config, 1, 147456), 4);
  EXPECT_EQ(triton_most_stages(config, 1, 147455), 3);
  EXPECT_EQ(triton_most_stages(config, 1, 49151), 0);
  const TritonConfig single{.batch = 1, .m = 16, .n = 16, .k = 16, .stages = 1};
  EXPECT_EQ(triton_shared_bytes(single, 2), 1024);  // 32 x 16 x 2: one buffer
}

TEST(Conclusions, AMissingConfigurationAndTheDefaultThatFails) {
  const TacticLog log = read_text(
      "[2026-01-01 00:00:00 TP0] Using default MoE kernel config. Performance might be "
      "sub-optimal! "
      "Config file not found at /sglang/configs/triton_3_4_0/E=256,N=256,device_name=NVIDIA_GB10,"
      "dtype=fp8_w8a8.json, you can create them\n"
      "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, "
      "Hardware limit: 101376.\n");
  const std::vector<Finding> findings = findings_of(log);
  const std::string sentence = sentence_of(findings, "tactics.log.untuned");
  EXPECT_NE(sentence.find("for E=256,N=256,dtype=fp8_w8a8 on NVIDIA GB10 was found"),
            std::string::npos);
  EXPECT_NE(sentence.find("(4 - 1) x (128 + 256) x 128 x 1 B = 147,456 B"), std::string::npos);
  EXPECT_NE(sentence.find("3 stages take 98,304 B"), std::string::npos);
  // On a chip where it fits, and where the log shows no failure, the default is not blamed.
  EXPECT_EQ(sentence_of(findings_of(log, kWide), "tactics.log.untuned").find("147,456"),
            std::string::npos);
}

TEST(Conclusions, ConfigurationsOfAnotherChipAgainstThisOnes) {
  const TacticLog log = read_text(
      R"({"1": {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "num_stages": 3},
          "48": {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 128, "num_stages": 4},
          "64": {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 128}})",
      "E=8,N=64,device_name=NVIDIA_H200,dtype=fp8_w8a8.json");
  EXPECT_EQ(
      sentence_of(findings_of(log), "tactics.log.triton"),
      "1 of 2 configurations for NVIDIA H200 do not fit a block of sm_120: 128x256x128 with 4 "
      "stages at batch 48 takes (4 - 1) x (128 + 256) x 128 x 1 B = 147,456 B of 101,376 B; 3 "
      "stages fit.");
  EXPECT_EQ(sentence_of(findings_of(log, kWide), "tactics.log.triton"),
            "All 2 configurations for NVIDIA H200 fit into the 232,448 B of a block of sm_100.");
}

TEST(Conclusions, OperandsOfTwoSizesAreNotGuessed) {
  const TacticLog log = read_text(
      R"({"1": {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "num_stages": 3}})",
      "E=8,N=64,device_name=NVIDIA_H200,dtype=int4_w4a16.json");
  const std::vector<Finding> findings = findings_of(log);
  const Finding* finding = find_finding(findings, "tactics.log.triton");
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->value.has_value());
  EXPECT_FALSE(finding->missing.empty());
}

TEST(Conclusions, ALogOfAnotherChipIsOneSentence) {
  const TacticLog log = read_text(
      tuner_line("Loaded 10 configs from /root/.cache/vllm/flashinfer_autotune_cache/0.6.14/103a/"
                 "82dc/autotune_configs.json") +
      chosen_line(1, 8));
  EXPECT_NE(sentence_of(findings_of(log), "tactics.log.other_chip").find("(103a) than sm_120"),
            std::string::npos);
  EXPECT_EQ(find_finding(findings_of(log, kWide), "tactics.log.other_chip"), nullptr);
}

TEST(Conclusions, NothingFoundIsSaidWithWhatWasRead) {
  EXPECT_NE(sentence_of(findings_of(read_text("hello\nworld\n")), "tactics.log.empty")
                .find("server.log has 2 lines and none of an autotuner"),
            std::string::npos);
  EXPECT_NE(
      sentence_of(findings_of(read_text(R"({"_metadata": {}})", "c.json")), "tactics.log.empty")
          .find("holds no choice"),
      std::string::npos);
}

TEST(Conclusions, NothingSaved) {
  const TacticLog log = read_text(skipped_line(1, kTooLarge) +
                                  tuner_line("Saved 0 configs to c.json (0 new, 0 from"));
  EXPECT_NE(sentence_of(findings_of(log), "tactics.log.saved").find("saved no configuration"),
            std::string::npos);
}

TEST(Conclusions, IdsAreUnique) {
  const TacticLog log = read_text(
      skipped_line(1, kTooLarge) + skipped_line(2, "CUDA out of memory") +
      skipped_line(3, "requires 111616 bytes shared memory but device supports 101376") +
      skipped_line(4, "what is this") + chosen_line(1, 8, "TP0") + chosen_line(2, 8, "TP1"));
  std::vector<std::string> ids;
  for (const Finding& finding : findings_of(log)) ids.push_back(finding.id);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  EXPECT_GE(ids.size(), 5u);
}

TEST(Conclusions, RanksAreCountedBesideTactics) {
  std::string text;
  for (const char* rank : {"TP0", "TP1"}) {
    for (const int tactic : {1, 2, 3}) {
      text += tuner_line(fmt::format("Skipping tactic <a.MoERunner object at 0x1> {}, due to "
                                     "failure while profiling: {}",
                                     tactic, kTooLarge),
                         rank);
    }
  }
  const std::string sentence = sentence_of(findings_of(read_text(text)), "tactics.log.shared");
  EXPECT_TRUE(sentence.starts_with("3 tactics of MoERunner were skipped")) << sentence;
  EXPECT_TRUE(sentence.ends_with("; 2 ranks say so.")) << sentence;
}

TEST(Conclusions, CutlassFailedWhereNoTunerRan) {
  const std::vector<Finding> findings = findings_of(read_text(
      "INFO loading\n[MXFP8 SM120 gemm Runner] Failed to initialize cutlass MXFP8 gemm on "
      "sm120. Error: Error Internal\n"));
  EXPECT_TRUE(sentence_of(findings, "tactics.log.not_initialised")
                  .starts_with("MXFP8 SM120 gemm Runner failed in 1 line outside of an autotuner's "
                               "messages: CUTLASS did not set it up"));
  EXPECT_NE(sentence_of(findings, "tactics.log.empty").find("but failures of CUTLASS's kernels"),
            std::string::npos);
}

TEST(Conclusions, WhatKernelsPrintedExplainsTheCount) {
  const std::vector<Finding> findings =
      findings_of(read_text("[AutoTuner]: Tuning moe::gemm1: 0/21\n"
                            "Error: Failed to initialize the TMA descriptor 715\n"
                            "[Autotuner]: Skipped 20 unsupported tactic(s) for moe::gemm1\n"));
  const Finding* finding = find_finding(findings, "tactics.log.fault");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->confidence, Confidence::kLikely);
  EXPECT_TRUE(finding->sentence.starts_with(
      "20 tactics of moe::gemm1 were skipped by an illegal address or instruction, first in "
      "server.log:2; their kernels printed \"Failed to initialize the TMA descriptor 715\""))
      << finding->sentence;
  EXPECT_EQ(find_finding(findings, "tactics.log.skipped"), nullptr);
}

TEST(Conclusions, SentencesEndOnce) {
  const TacticLog log = read_text(skipped_line(1, "Got some error. See above for details."));
  EXPECT_TRUE(
      sentence_of(findings_of(log), "tactics.log.skipped").ends_with("See above for details."));
}

TEST(LogDocument, HoldsEntriesLimitsAndFindings) {
  const TacticLog log = read_text(skipped_line(15, kTooLarge));
  const std::vector<Finding> findings = findings_of(log);
  const Json document = log_document({&log, 1}, kSm120Limits, findings);
  EXPECT_EQ(document.find("schema")->as_string(), "nibble.tactics_log/1");
  EXPECT_EQ(document.find("limits")->find("shared_per_block_bytes")->as_integer(), 101376);
  const Json& entry = document.find("logs")->as_array()[0].find("entries")->as_array()[0];
  EXPECT_EQ(entry.find("status")->as_string(), "skipped");
  EXPECT_EQ(entry.find("reason")->find("class")->as_string(), "shared_memory");
  EXPECT_EQ(entry.find("reason")->find("wanted_bytes")->as_integer(), 102400);
  EXPECT_TRUE(entry.find("op")->is_null());
  EXPECT_EQ(document.find("findings")->as_array().size(), findings.size());
}

}  // namespace
}  // namespace nibble::logs
