#include "tactics/logs/log_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "tactics/logs/tactic_count.h"

namespace nibble::logs {
namespace {

TacticLog read_lines_of(std::string_view text) {
  Result<TacticLog> log = read_tactic_text(text, "server.log");
  NIBBLE_CHECK(log.ok());
  return *log;
}

// flashinfer-ai/flashinfer issue 2077.
constexpr std::string_view kSkippedOnce =
    "(Worker_TP0 pid=7) 2025-11-11 06:41:27,319 - WARNING - autotuner.py:485 - flashinfer.jit: "
    "[Autotuner]: Skipping tactic <a.MoERunner object at 0x7c> 15, due to failure while "
    "profiling: [TensorRT-LLM][ERROR] Assertion failed: Failed to initialize cutlass TMA WS "
    "grouped gemm. Error: Error Internal (x_sm120_M256.cu:60)\n";

TEST(LogReader, LaterMessagesAreNoReason) {
  for (const char* later :
       {"(Worker_TP0 pid=7) INFO 11-11 06:41:29 [x.py:3] feature is not supported, timed out\n",
        "(Worker_TP0 pid=7) ERROR 11-11 06:41:29 [x.py:3] CUDA out of memory. Tried to allocate\n",
        "(Worker_TP0 pid=7) 2025-11-11 06:41:29,000 - INFO - x.py:3 - K must be divisible by 64\n",
        "(Worker_TP0 pid=7) [TRT-LLM] [I] Overlap scheduler is not supported with this config\n"}) {
    const TacticLog log = read_lines_of(std::string(kSkippedOnce) + later);
    ASSERT_EQ(log.entries.size(), 1u) << later;
    EXPECT_EQ(log.entries[0].reason.kind, ReasonClass::kNotInitialised) << later;
    EXPECT_NE(log.entries[0].reason.text.find("Failed to initialize"), std::string::npos) << later;
  }
}

TEST(LogReader, AMessageEndsTheReasonForGood) {
  // What follows another message belongs to that one.
  const TacticLog log = read_lines_of(std::string(kSkippedOnce) +
                                      "(Worker_TP0 pid=7) INFO 11-11 06:41:29 [x.py:3] a list:\n"
                                      "(Worker_TP0 pid=7) \t not supported\n");
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].reason.kind, ReasonClass::kNotInitialised);
}

TEST(LogReader, TensorRtLlmsLaterMessagesAreNoReason) {
  const TacticLog log = read_lines_of(
      "[11/11/2025-06:41:28] [TRT-LLM] [RANK 0] [W] [Autotuner] Failed when profiling "
      "runner=<a.FP4GemmRunner object at 0x7f>, tactic=3, shapes=[torch.Size([8192, 3072])]. "
      "Error: Failed to initialize cutlass FP4 gemm. Error: Error Internal\n"
      "[11/11/2025-06:41:29] [TRT-LLM] [RANK 0] [I] Overlap scheduler is not supported with this "
      "config, disabled\n");
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].reason.kind, ReasonClass::kNotInitialised);
}

TEST(LogReader, AThrownTextIsTheReasonWhereNoneStoodBefore) {
  const TacticLog log = read_lines_of(
      "(Worker_TP0 pid=7) [Autotuner]: Skipping tactic <a.MoERunner object at 0x7c> 15, due to "
      "failure while profiling:\n"
      "(Worker_TP0 pid=7) [TensorRT-LLM][ERROR] Assertion failed: requires 102400 bytes shared "
      "memory but device supports 101376\n");
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].reason.wanted_bytes, 102400);
}

TEST(LogReader, TimesOfDockerDoNotEndAReason) {
  const TacticLog log = read_lines_of(
      "2025-11-11T06:41:27.1Z (Worker_TP1 pid=2) [Autotuner]: Skipping tactic <MoERunner> 14, due "
      "to failure:\n"
      "2025-11-11T06:41:27.1Z (Worker_TP1 pid=2) Unsupported tile (64, 64, 64) and cluster\n");
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].reason.kind, ReasonClass::kNoKernel);
}

struct Outside {
  const char* line;
  const char* runner;
  ReasonClass kind;
};

TEST(LogReader, FailuresOfCutlassOutsideOfATuner) {
  for (const Outside& one : {
           // flashinfer-ai/flashinfer pull request 3568
           Outside{"[MXFP8 SM120 gemm Runner] Failed to initialize cutlass MXFP8 gemm on sm120. "
                   "Error: Error Internal",
                   "MXFP8 SM120 gemm Runner", ReasonClass::kNotInitialised},
           // vllm-project/vllm issue 24377
           Outside{"(EngineCore_0 pid=16272) ERROR 09-07 00:59:17 [core.py:712] RuntimeError: "
                   "[FP4 gemm Runner] Failed to initialize cutlass FP4 gemm. Error: Error Internal",
                   "FP4 gemm Runner", ReasonClass::kNotInitialised},
           Outside{"Error: Failed to initialize the TMA descriptor 715", "CUTLASS",
                   ReasonClass::kFault},
           Outside{"RuntimeError: MoE grouped GEMM requires 102400 bytes shared memory but device "
                   "supports 101376",
                   "CUTLASS", ReasonClass::kSharedMemory},
           Outside{"[RANK 0] [E] RuntimeError: Unsupported tile (128, 256, 128) and cluster",
                   "CUTLASS", ReasonClass::kNoKernel},
       }) {
    const TacticLog log = read_lines_of(fmt::format("INFO loading\n{0}\n{0}\n", one.line));
    ASSERT_EQ(log.entries.size(), 1u) << one.line;
    EXPECT_EQ(log.entries[0].status, Status::kFailed);
    EXPECT_EQ(log.entries[0].runner, one.runner);
    EXPECT_EQ(log.entries[0].reason.kind, one.kind) << one.line;
    EXPECT_EQ(log.entries[0].count, 2);
    EXPECT_EQ(log.entries[0].line, 2);
  }
  EXPECT_TRUE(
      read_lines_of("INFO failed to initialize NCCL\nINFO using cutlass\n").entries.empty());
}

// flashinfer-ai/flashinfer issue 4049.
constexpr std::string_view kDescriptors =
    "[AutoTuner]: Tuning sparse_mla_sm120_decode_dsv4: 6/6\n"
    "[AutoTuner]: Tuning trtllm::fused_moe::gemm1: 0/21\n"
    "Error: Failed to initialize the TMA descriptor 715\n"
    "[Autotuner]: Skipped 20 unsupported tactic(s) for trtllm::fused_moe::gemm1\n";

TEST(LogReader, WhatKernelsPrintIsWhyTacticsWereCounted) {
  const TacticLog log = read_lines_of(kDescriptors);
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].op, "trtllm::fused_moe::gemm1");
  EXPECT_EQ(log.entries[0].tactics, 20);
  EXPECT_EQ(log.entries[0].status, Status::kSkipped);
  EXPECT_EQ(log.entries[0].reason.kind, ReasonClass::kFault);
  EXPECT_EQ(log.entries[0].line, 3);
}

TEST(LogReader, LinesOfKernelsHaveNoRank) {
  const std::string prefix = "(Worker_TP0 pid=1) ";
  const std::string other = "(Worker_TP1 pid=2) ";
  constexpr std::string_view kCounted =
      "[Autotuner]: Skipped 20 unsupported tactic(s) for moe::gemm1 (enable debug logs)\n";
  const TacticLog log = read_lines_of(
      fmt::format("Error: Failed to initialize the TMA descriptor 715\n{0}{2}{1}{2}{0}{2}", prefix,
                  other, kCounted));
  ASSERT_EQ(log.entries.size(), 3u);
  EXPECT_EQ(log.entries[0].reason.kind, ReasonClass::kFault);
  EXPECT_EQ(log.entries[1].rank, "TP1");
  EXPECT_EQ(log.entries[1].reason.kind, ReasonClass::kFault);
  // A line before the last search explains no later one.
  EXPECT_EQ(log.entries[2].reason.kind, ReasonClass::kUnknown);
}

TEST(LogReader, KernelsOfTwoReasonsExplainNoCount) {
  const TacticLog log = read_lines_of(
      "[AutoTuner]: Tuning moe::gemm1: 0/21\n"
      "Error: Failed to initialize the TMA descriptor 715\n"
      "Unsupported tile (128, 256, 128) and cluster\n"
      "[Autotuner]: Skipped 20 unsupported tactic(s) for moe::gemm1\n");
  ASSERT_EQ(log.entries.size(), 3u);
  EXPECT_EQ(log.entries[0].op, "moe::gemm1");
  EXPECT_EQ(log.entries[0].status, Status::kFailed);
  EXPECT_EQ(log.entries[2].reason.kind, ReasonClass::kUnknown);
}

TEST(LogReader, AFailureBehindTheTuningHasNoOperation) {
  const TacticLog log = read_lines_of(
      "[AutoTuner]: Tuning moe::gemm1: 21/21\n[Autotuner]: Autotuning process ends\n"
      "Error: Failed to initialize the TMA descriptor 715\n");
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].op, "");
}

TEST(LogReader, AChoiceHasTheTimeOfItsTactic) {
  const std::string head =
      "2026-07-26 05:16:02,38 - DEBUG - autotuner.py:1913 - flashinfer.jit: [Autotuner]: ";
  const TacticLog log = read_lines_of(
      head +
      "profiling <a.R object at 0x7f> 8, shapes=((512, 3072), (3072, 6144)), avg_time 0.08\n" +
      head +
      "profiling <a.R object at 0x7f> 19, shapes=((512, 3072), (3072, 6144)), avg_time 0.019\n" +
      head +
      "profiling chosen runner: <a.R object at 0x7f> 8 for ('fp4_gemm', 'R', ((512, 3072), "
      "(3072, 6144)))\n" +
      head +
      "profiling chosen runner: <a.R object at 0x7f> 8 for ('fp4_gemm', 'R', ((64, 3072), "
      "(3072, 6144)))\n");
  ASSERT_EQ(log.entries.size(), 4u);
  EXPECT_EQ(log.entries[2].status, Status::kChosen);
  EXPECT_EQ(log.entries[2].time_ms, 0.08);
  EXPECT_FALSE(log.entries[3].time_ms.has_value());  // of another shape
}

TEST(LogReader, AnInfiniteTimeIsNoTime) {
  const std::string line =
      "(Worker_TP0 pid=7) [Autotuner]: profiling <a.MoERunner object at 0x7c> 15, shapes=((4, "
      "64),), "
      "avg_time inf\n";
  const TacticLog alone = read_lines_of(line);
  ASSERT_EQ(alone.entries.size(), 1u);
  EXPECT_EQ(alone.entries[0].status, Status::kSkipped);
  EXPECT_EQ(alone.entries[0].time_ms, std::nullopt);
  EXPECT_EQ(alone.entries[0].bucket, 4);
  // Behind the reason it adds the shape.
  const TacticLog behind = read_lines_of(std::string(kSkippedOnce) + line);
  ASSERT_EQ(behind.entries.size(), 1u);
  EXPECT_EQ(behind.entries[0].reason.kind, ReasonClass::kNotInitialised);
  EXPECT_EQ(behind.entries[0].bucket, 4);
}

TEST(LogReader, ConfigurationsOfTwoBatchesAreTwo) {
  constexpr std::string_view kConfig =
      R"({"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "num_stages": 3})";
  const TacticLog log = read_lines_of(fmt::format(R"({{"1": {0}, "64": {0}}})", kConfig));
  ASSERT_EQ(log.entries.size(), 2u);
  EXPECT_EQ(log.entries[0].bucket, 1);
  EXPECT_EQ(log.entries[1].bucket, 64);
}

TEST(LogReader, AnyJsonThatIsNoCacheIsRefused) {
  for (const char* text : {"[1, 2]", "[1, 2]\n", "3", "\"text\"", "null", "[true]"}) {
    const Result<TacticLog> log = read_tactic_text(text, "list.json");
    ASSERT_FALSE(log.ok()) << text;
    EXPECT_NE(log.error().message.find("\"rank_0\" (TensorRT-LLM)"), std::string::npos);
    EXPECT_NE(log.error().message.find("BLOCK_SIZE_M (Triton)"), std::string::npos);
  }
  EXPECT_EQ(read_lines_of("[1/7] compiling\n").format, "log");
}

TEST(TacticCount, ATacticOnTwoRanksIsOne) {
  TacticCount count;
  for (const char* rank : {"TP0", "TP1"}) {
    for (const char* tactic : {"1", "2", "3"}) {
      count.add({.runner = "R", .tactic = tactic, .rank = rank, .count = 2});
    }
  }
  EXPECT_EQ(count.tactics(), 3);
  EXPECT_EQ(count.ranks.size(), 2u);
  EXPECT_EQ(count.lines, 12);
  count.add({.runner = "R", .rank = "TP0", .tactics = 20});
  EXPECT_EQ(count.tactics(), 20);
}

}  // namespace
}  // namespace nibble::logs
