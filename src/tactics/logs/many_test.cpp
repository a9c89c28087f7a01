// Logs with as much in them as is kept. What is said of each group must not walk all entries: these
// tests would then outlast their limit by far.
#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "tactics/logs/conclusions.h"

namespace nibble::logs {
namespace {

constexpr std::int64_t kMany = kMostEntries;

std::vector<Finding> findings_for_sm120(const TacticLog& log) {
  return conclusions({&log, 1}, kSm120Limits);
}

std::int64_t count_of(const std::vector<Finding>& findings, std::string_view start) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.id.starts_with(start); });
}

std::string sentence_with_id(const std::vector<Finding>& findings, std::string_view id) {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&](const Finding& finding) { return finding.id == id; });
  return found == findings.end() ? "" : found->sentence;
}

Entry failed_on_tp0(std::string op, ReasonClass kind, std::int64_t line) {
  Entry entry;
  entry.op = std::move(op);
  entry.runner = "MoERunner";
  entry.tactic = "7";
  entry.rank = "TP0";
  entry.status = Status::kSkipped;
  entry.reason.kind = kind;
  entry.line = line;
  return entry;
}

TEST(ManyEntries, EachAsksForItsOwnBytes) {
  TacticLog log;
  log.name = "server.log";
  log.format = "log";
  log.shows_tried = true;
  for (std::int64_t index = 0; index < kMany; ++index) {
    log.entries.push_back(failed_on_tp0("gemm1", ReasonClass::kSharedMemory, index + 1));
    log.entries.back().tactic = fmt::format("{}", index);
    log.entries.back().reason.wanted_bytes = 200'000 + index;
    log.entries.back().reason.limit_bytes = 101'376;
  }
  const std::vector<Finding> findings = findings_for_sm120(log);
  EXPECT_EQ(count_of(findings, "tactics.log.shared.gemm1."), kMany);
  EXPECT_EQ(sentence_with_id(findings, "tactics.log.shared.gemm1.299999"),
            "1 of 100,000 tactics of gemm1 was skipped: it asks for 299,999 B of shared memory, "
            "and a block of sm_120 has 101,376 B.");
}

TEST(ManyEntries, EachIsAFaultOfItsOwnOperation) {
  TacticLog log;
  log.name = "server.log";
  log.format = "log";
  for (std::int64_t index = 0; index < kMany; ++index) {
    log.entries.push_back(
        failed_on_tp0(fmt::format("op {}", index), ReasonClass::kFault, index + 1));
  }
  log.entries.back().rank = "TP1";
  const std::vector<Finding> findings = findings_for_sm120(log);
  EXPECT_EQ(count_of(findings, "tactics.log.fault."), kMany);
  // Those of TP0 in later lines: all but itself, and but TP1's.
  EXPECT_NE(sentence_with_id(findings, "tactics.log.fault.op_0").find("; 99,998 failures of the"),
            std::string::npos);
  EXPECT_NE(sentence_with_id(findings, "tactics.log.fault.op_99997").find("; 1 failure of the"),
            std::string::npos);
  EXPECT_EQ(sentence_with_id(findings, "tactics.log.fault.op_99998").find("behind it"),
            std::string::npos);
}

TEST(ManyEntries, EachIsAMissingConfiguration) {
  TacticLog log;
  log.name = "server.log";
  log.format = "log";
  for (std::int64_t index = 1; index < kMany; ++index) {
    Entry entry;
    entry.op = "fused_moe_triton";
    entry.runner = "Triton";
    entry.shape = fmt::format("E={},N=256,dtype=fp8_w8a8", index);
    entry.status = Status::kDefault;
    entry.reason.kind = ReasonClass::kUntuned;
    entry.line = index;
    log.entries.push_back(std::move(entry));
  }
  Entry failure = failed_on_tp0("", ReasonClass::kSharedMemory, kMany);
  failure.runner = "Triton";
  failure.tactic = "";
  failure.status = Status::kFailed;
  failure.reason.wanted_bytes = 147'456;
  failure.reason.limit_bytes = 101'376;
  log.entries.push_back(std::move(failure));
  const std::vector<Finding> findings = findings_for_sm120(log);
  EXPECT_EQ(count_of(findings, "tactics.log.untuned."), kMany - 1);
  // (4 - 1) x (128 + 256) x 128 B; three stages keep two buffers.
  EXPECT_NE(sentence_with_id(findings,
                             "tactics.log.untuned.fused_moe_triton_e_99999_n_256_dtype_fp8_w8a8")
                .find("= 147,456 B, as the log's failure asks for, are more than the 101,376 B of "
                      "a block of sm_120; 3 stages take 98,304 B."),
            std::string::npos);
}

TEST(ManyRanks, ThoseBeyondTheBoundAreCountedAndNotGivenToAnother) {
  std::string text;
  for (std::size_t rank = 0; rank < kMostRanks + 3; ++rank) {
    text += fmt::format(
        "(Worker_TP{} pid=7) 2026-01-01 00:00:00,000 - WARNING - autotuner.py:485 - "
        "flashinfer.jit: [Autotuner]: Skipping tactic <a.MoERunner object at 0x1> 7, due to "
        "failure while profiling: requires 102400 bytes shared memory but device supports "
        "101376\n",
        rank);
  }
  // A failure outside of the tuner, on the last rank; and one more line of the first.
  text +=
      "(Worker_TP4098 pid=7) [MXFP8 SM120 gemm Runner] Failed to initialize cutlass MXFP8 gemm on "
      "sm120. Error: Error Internal\n"
      "(Worker_TP0 pid=7) [Autotuner]: Skipping tactic <a.MoERunner object at 0x1> 8, due to "
      "failure while profiling: timed out\n";
  const Result<TacticLog> log = read_tactic_text(text, "server.log");
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->dropped, 4);
  ASSERT_EQ(log->entries.size(), kMostRanks + 1);
  const auto of_first = std::count_if(log->entries.begin(), log->entries.end(),
                                      [](const Entry& entry) { return entry.rank == "TP0"; });
  EXPECT_EQ(of_first, 2);
  EXPECT_EQ(sentence_with_id(findings_for_sm120(*log), "tactics.log.dropped.server_log"),
            "server.log holds more than 4,096 ranks; 4 lines of later ones are not in these "
            "numbers.");
}

TEST(BytesText, IsExactUntilItNeedsAPrefix) {
  EXPECT_EQ(bytes_text(101'376), "101,376 B");
  EXPECT_EQ(bytes_text(999'999), "999,999 B");
  EXPECT_EQ(bytes_text(1'048'576), "1.049 MB");
  EXPECT_EQ(bytes_text(9'223'372'036'854'775'807), "9,223 PB");
}

}  // namespace
}  // namespace nibble::logs
