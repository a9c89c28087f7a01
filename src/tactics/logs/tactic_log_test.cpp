#include "tactics/logs/tactic_log.h"

#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/testing.h"

namespace nibble::logs {
namespace {

TacticLog log_of(std::string_view text, std::string_view name = "server.log") {
  Result<TacticLog> log = read_tactic_text(text, name);
  EXPECT_TRUE(log.ok()) << (log.ok() ? "" : log.error().message);
  return log.ok() ? *log : TacticLog{};
}

std::string refusal_of(std::string_view text, std::string_view name = "x.json") {
  const Result<TacticLog> log = read_tactic_text(text, name);
  EXPECT_FALSE(log.ok());
  if (log.ok()) return "";
  EXPECT_EQ(log.error().kind, ErrorKind::kInput);
  EXPECT_EQ(log.error().message.find('\n'), std::string::npos);
  return log.error().message;
}

// flashinfer-ai/flashinfer issue 2077: vLLM with FlashInfer 0.5.2 on an SM120.
constexpr std::string_view kIssue2077 =
    "(Worker_PP0 pid=38385) 2025-11-11 06:41:27,319 - WARNING - autotuner.py:485 - flashinfer.jit: "
    "[Autotuner]: Skipping tactic <flashinfer.fused_moe.core.get_cutlass_fused_moe_module.<locals>."
    "MoERunner object at 0x7c70ccce8350> 15, due to failure while profiling: "
    "[TensorRT-LLM][ERROR] Assertion failed: Failed to initialize cutlass TMA WS grouped gemm. "
    "Error: Error Internal (/workspace/flashinfer/csrc/nv_internal/tensorrt_llm/"
    "cutlass_instantiations/120/gemm_grouped/120/"
    "cutlass_kernel_file_gemm_grouped_sm120_M256_BS_group0.generated.cu:60)\n"
    "(Worker_PP0 pid=38385) 1       0x7c6dd0a58b16 tensorrt_llm::common::throwRuntimeError(char "
    "const*, int) + 97\n"
    "(Worker_PP0 pid=38385) 2       0x7c6dd11ca0ad /home/w/.cache/flashinfer/0.5.2/120a/cached_ops/"
    "fused_moe_120/fused_moe_120.so(+0x9080ad) [0x7c6dd11ca0ad]\n";

TEST(TacticLog, ASkippedTacticOfFlashInfer) {
  const TacticLog log = log_of(kIssue2077);
  EXPECT_EQ(log.format, "log");
  EXPECT_EQ(log.lines, 3);
  EXPECT_EQ(log.unread, 0);
  ASSERT_EQ(log.entries.size(), 1u);
  const Entry& entry = log.entries[0];
  EXPECT_EQ(entry.status, Status::kSkipped);
  EXPECT_EQ(entry.runner, "MoERunner");
  EXPECT_EQ(entry.tactic, "15");
  EXPECT_EQ(entry.rank, "PP0");
  EXPECT_EQ(entry.line, 1);
  EXPECT_EQ(entry.reason.kind, ReasonClass::kNotInitialised);
  EXPECT_TRUE(entry.reason.fp4);
  EXPECT_EQ(log.versions.at("FlashInfer"), "0.5.2");
  EXPECT_EQ(log.versions.at("architecture"), "120a");
  EXPECT_EQ(log.programs, (std::vector<std::string>{"FlashInfer", "vLLM"}));
}

TEST(TacticLog, AReasonGoesOnInTheLinesBehind) {
  // The form of flashinfer issue 3134: the error's fields follow, one a line.
  const TacticLog log = log_of(
      "(Worker_TP1 pid=2) [Autotuner]: Skipping tactic <MoERunner> 14, due to failure:\n"
      "(Worker_TP0 pid=1) INFO another rank\n"
      "(Worker_TP1 pid=2) Unsupported tile (64, 64, 64) and cluster (1, 2, 1) shape combination "
      "for arch 100.\n"
      "(Worker_TP1 pid=2) \t tile shape ID: 64x64x128\n");
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].reason.kind, ReasonClass::kNoKernel);
  EXPECT_EQ(log.entries[0].reason.tile, (Tile{.m = 64, .n = 64, .k = 128, .k_in_bytes = true}));
}

TEST(TacticLog, CountedTacticsAndTheirProgressBar) {
  // vLLM with FlashInfer of May 2026 on an SM120, where bar and message share a line.
  constexpr std::string_view kMessage =
      "2026-05-21 21:10:18,688 - INFO - autotuner.py:833 - flashinfer.jit: [Autotuner]: Skipped 4 "
      "unsupported tactic(s) for trtllm::fused_moe::gemm1 (enable debug logs to see details)\n";
  const TacticLog log = log_of(fmt::format(
      "(Worker_TP1 pid=9) \n[AutoTuner]: Tuning trtllm::fused_moe::gemm1:   0%|          | 0/7 "
      "[00:00<?, ?profile/s]{}(Worker_TP1 pid=9) {}",
      kMessage, kMessage));
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].op, "trtllm::fused_moe::gemm1");
  EXPECT_EQ(log.entries[0].tactics, 4);
  EXPECT_EQ(log.entries[0].count, 2);
  EXPECT_EQ(log.entries[0].rank, "TP1");
  EXPECT_EQ(log.profiles.at("trtllm::fused_moe::gemm1"), 7);
  EXPECT_EQ(log.unread, 0);
}

// The messages of FlashInfer's debug level, in the order of AutoTuner.choose_one.
std::string debug_line(std::string_view message) {
  return fmt::format(
      "(Worker_TP0 pid=1) 2026-01-01 00:00:00,000 - DEBUG - autotuner.py:900 - "
      "flashinfer.jit: [Autotuner]: {}\n",
      message);
}

TEST(TacticLog, ASearchNamesItsOperationAtItsEnd) {
  const TacticLog log = log_of(
      debug_line("profiling <a.MoERunner object at 0x1> 3, shapes=[torch.Size([64, 1024]), "
                 "torch.Size([0])], avg_time 0.0512") +
      debug_line("Skipping tactic <a.MoERunner object at 0x1> 4, due to failure while profiling: "
                 "CUDA error: an illegal instruction was encountered") +
      debug_line("Failed when profiling <a.MoERunner object at 0x1> 4, shapes=[torch.Size([64, "
                 "1024]), torch.Size([0])]. Error occurred: CUDA error: an illegal instruction") +
      debug_line("Skipped 1 unsupported tactic(s) for trtllm::fused_moe::gemm1 (enable debug logs "
                 "to see details)") +
      debug_line("profiling chosen runner: <a.MoERunner object at 0x1> 3 for "
                 "('trtllm::fused_moe::gemm1', 'MoERunner', 123, ((64, 1024), (0,)), ())"));
  ASSERT_EQ(log.entries.size(), 3u);  // the count says what the line before has said
  for (const Entry& entry : log.entries) {
    EXPECT_EQ(entry.op, "trtllm::fused_moe::gemm1");
    EXPECT_EQ(entry.bucket, 64);
  }
  EXPECT_EQ(log.entries[0].status, Status::kTried);
  EXPECT_EQ(log.entries[0].time_ms, 0.0512);
  EXPECT_EQ(log.entries[1].status, Status::kSkipped);
  EXPECT_EQ(log.entries[1].tactic, "4");
  EXPECT_EQ(log.entries[1].reason.kind, ReasonClass::kFault);
  EXPECT_EQ(log.entries[2].status, Status::kChosen);
  EXPECT_EQ(log.entries[2].tactic, "3");
  EXPECT_TRUE(log.shows_tried);
}

TEST(TacticLog, ALookupAtRunTimeNamesNoSearch) {
  const TacticLog log =
      log_of(debug_line("Skipping tactic <a.MoERunner object at 0x1> 4, due to failure while "
                        "profiling: CUDA out of memory") +
             debug_line("No tuned config covers fp4_gemm input_shapes=(torch.Size([4000, 2304]),); "
                        "falling back to runner=CutlassFp4GemmRunner tactic=-1."));
  ASSERT_EQ(log.entries.size(), 2u);
  EXPECT_EQ(log.entries[0].op, "");
  EXPECT_EQ(log.entries[1].op, "fp4_gemm");
}

TEST(TacticLog, OtherMessagesOfFlashInfer) {
  const TacticLog log = log_of(
      debug_line("No tuned config covers fp4_gemm input_shapes=(torch.Size([4000, 2304]), "
                 "torch.Size([2304, 7168])); falling back to runner=CutlassFp4GemmRunner "
                 "tactic=-1.  This shape is outside the tuning bucket range -- expand") +
      debug_line("OOM detected, falling back to default tactic") +
      debug_line("Config cache hit for fp4_gemm (runner=TrtllmFp4GemmRunner, source=config file)") +
      debug_line("Cache file /c.json was created in a different environment (gpu: saved=NVIDIA "
                 "B200 vs current=NVIDIA GB10). Ignoring cached configs. Results") +
      debug_line("Saved 11 configs to autotune_cache.json (0 new, 11 from previous config)") +
      debug_line("Autotuning process ends") + debug_line("a message of tomorrow"));
  ASSERT_EQ(log.entries.size(), 3u);
  EXPECT_EQ(log.entries[0].status, Status::kDefault);
  EXPECT_EQ(log.entries[0].op, "fp4_gemm");
  EXPECT_EQ(log.entries[0].bucket, 4000);
  EXPECT_EQ(log.entries[0].runner, "CutlassFp4GemmRunner");
  EXPECT_EQ(log.entries[0].reason.kind, ReasonClass::kUntuned);
  EXPECT_EQ(log.entries[1].reason.kind, ReasonClass::kMemory);
  EXPECT_EQ(log.entries[2].status, Status::kChosen);
  EXPECT_EQ(log.entries[2].runner, "TrtllmFp4GemmRunner");
  EXPECT_EQ(log.saved, 11);
  ASSERT_EQ(log.notes.size(), 1u);
  EXPECT_NE(log.notes[0].find("saved=NVIDIA B200"), std::string::npos);
  EXPECT_EQ(log.unread, 1);
  EXPECT_EQ(log.first_unread, "a message of tomorrow");
}

TEST(TacticLog, MessagesOfTensorRtLlm) {
  const std::string prefix = "[01/16/2026-06:20:17] [TRT-LLM] [RANK 3] [W] ";
  const TacticLog log = log_of(
      prefix +
      "[Autotuner] Failed when profiling runner=<tensorrt_llm._torch.custom_ops.torch_custom_ops."
      "MoERunner object at 0x7f>, tactic=12, shapes=[torch.Size([1, 2048]), torch.Size([0])]. "
      "Error: Assertion failed: Unsupported tile (128, 128, 64) and cluster (1, 1, 1) shape\n" +
      prefix +
      "[Autotuner] No valid runner/tactic was found for custom_op=trtllm::fused_moe::gemm1, "
      "input_shapes=((1, 2048), (0,)). At least one valid pair is required.\n" +
      prefix +
      "[Autotuner] Profiled runner=<a.MoERunner object at 0x7f>, tactic=(128, 2), "
      "shapes=[torch.Size([8, 2048])]: 0.250000ms.\n" +
      prefix +
      "[Autotuner] Profiling runner=<a.MoERunner object at 0x7f>, tactic=(128, 2) for "
      "cache_key=('trtllm::fused_moe::gemm2', 'MoERunner', '(1,)', ((8, 2048),)).\n" +
      prefix +
      "[AutoTuner] trtllm::fused_moe::gemm1 using the fallback tactic, due to cache miss on input "
      "shapes=(torch.Size([4000, 2048]),)\n");
  EXPECT_EQ(log.programs, std::vector<std::string>{"TensorRT-LLM"});
  EXPECT_EQ(log.unread, 0);
  ASSERT_EQ(log.entries.size(), 5u);
  EXPECT_EQ(log.entries[0].op, "trtllm::fused_moe::gemm1");
  EXPECT_EQ(log.entries[0].tactic, "12");
  EXPECT_EQ(log.entries[0].rank, "rank 3");
  EXPECT_EQ(log.entries[0].bucket, 1);
  EXPECT_EQ(log.entries[0].reason.kind, ReasonClass::kNoKernel);
  EXPECT_EQ(log.entries[1].status, Status::kDefault);
  EXPECT_EQ(log.entries[2].status, Status::kTried);
  EXPECT_EQ(log.entries[2].op, "trtllm::fused_moe::gemm2");
  EXPECT_EQ(log.entries[2].time_ms, 0.25);
  EXPECT_EQ(log.entries[3].status, Status::kChosen);
  EXPECT_EQ(log.entries[3].tactic, "(128, 2)");
  EXPECT_EQ(log.entries[4].reason.kind, ReasonClass::kUntuned);
  EXPECT_EQ(log.entries[4].bucket, 4000);
}

TEST(TacticLog, MoeConfigurationsOfSglangAndVllm) {
  const TacticLog log = log_of(
      // MiniMax-AI/MiniMax-M2 issue 50
      "[2025-11-23 06:47:42 TP1] Using default MoE kernel config. Performance might be "
      "sub-optimal! "
      "Config file not found at "
      "/sgl-workspace/sglang/python/sglang/srt/layers/moe/fused_moe_triton/"
      "configs/triton_3_4_0/"
      "E=256,N=768,device_name=NVIDIA_H200_NVL,dtype=fp8_w8a8,block_shape=[128, "
      "128]_down.json, you can create them with https://github.com/sgl-project/sglang\n"
      // sgl-project/sglang PR 19003
      "[2026-02-21 10:48:18 TP2] Config file not found at /a/triton_3_5_1/E=128,N=192,device_name="
      "NVIDIA_H200.json. Fallback to triton version 3.2.0 and use MoE kernel config from "
      "/a/triton_3_2_0/E=128,N=192,device_name=NVIDIA_H200.json. Performance might be "
      "sub-optimal!\n"
      // vLLM of November 2025
      "(EngineCore_DP0 pid=809) WARNING 11-14 21:03:24 [fused_moe.py:887] Using default MoE "
      "config. "
      "Performance might be sub-optimal! Config file not found at ['/usr/local/lib/vllm/E=72,N=768,"
      "device_name=NVIDIA_GB10.json']\n"
      "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, "
      "Hardware limit: 101376. Reducing block sizes or `num_stages` may help.\n");
  ASSERT_EQ(log.entries.size(), 4u);
  EXPECT_EQ(log.entries[0].op, "fused_moe_triton_down");
  EXPECT_EQ(log.entries[0].shape, "E=256,N=768,dtype=fp8_w8a8,block_shape");
  EXPECT_EQ(log.entries[0].device, "NVIDIA H200 NVL");
  EXPECT_EQ(log.entries[0].status, Status::kDefault);
  EXPECT_EQ(log.entries[0].rank, "TP1");
  EXPECT_EQ(log.entries[1].status, Status::kChosen);
  EXPECT_EQ(log.entries[1].tactic, "tuned with Triton 3.2.0");
  EXPECT_EQ(log.entries[2].shape, "E=72,N=768");
  EXPECT_EQ(log.entries[2].rank, "DP0");
  EXPECT_EQ(log.entries[3].status, Status::kFailed);
  EXPECT_EQ(log.entries[3].reason.wanted_bytes, 147456);
}

// The example of flashinfer-ai/flashinfer's pull request that added the file.
constexpr std::string_view kFlashInferCache = R"json({
 "_metadata": {"flashinfer_version": "0.6.3", "cuda_version": "13.0", "gpu": "NVIDIA B200"},
 "_last_updated_by": {"flashinfer_version": "0.6.3", "gpu": "NVIDIA B200"},
 "('fp4_gemm', 'TrtllmFp4GemmRunner', ((1024, 2304), (2304, 7168), (-1, 288), (), (0,)))": [
    "TrtllmFp4GemmRunner", 23],
 "('fused_moe', 'CuteDslFusedMoENvfp4Runner', ((8, 4),))": [
    "CuteDslFusedMoENvfp4Runner", [128, [2, 1]]]
})json";

TEST(TacticLog, CacheOfFlashInfer) {
  const TacticLog log = log_of(kFlashInferCache, "rank_tp3_pp0_dp0.json");
  EXPECT_EQ(log.format, "FlashInfer cache");
  EXPECT_EQ(log.devices, std::vector<std::string>{"NVIDIA B200"});
  EXPECT_EQ(log.versions.at("FlashInfer"), "0.6.3");
  ASSERT_EQ(log.entries.size(), 2u);
  EXPECT_EQ(log.entries[0].op, "fp4_gemm");
  EXPECT_EQ(log.entries[0].tactic, "23");
  EXPECT_EQ(log.entries[0].bucket, 1024);
  EXPECT_EQ(log.entries[0].rank, "TP3 PP0 DP0");
  EXPECT_EQ(log.entries[0].status, Status::kChosen);
  EXPECT_EQ(log.entries[1].tactic, "[128,[2,1]]");
}

TEST(TacticLog, AnEmptyCacheIsOne) {
  const TacticLog log = log_of(R"({"_metadata": {}})", "c.json");
  EXPECT_EQ(log.format, "FlashInfer cache");
  EXPECT_TRUE(log.entries.empty());
}

TEST(TacticLog, EntryAndManifestOfTheManagedStore) {
  const TacticLog entry = log_of(
      R"json({"key": "('op', 'Runner', ((8, 16),), ())", "runner": "Runner", "tactic": 1})json",
      "e.json");
  ASSERT_EQ(entry.entries.size(), 1u);
  EXPECT_EQ(entry.entries[0].op, "op");
  EXPECT_EQ(entry.entries[0].tactic, "1");
  const TacticLog manifest =
      log_of(R"({"cache_schema": "v2", "flashinfer_version": "0.7.0"})", "manifest.json");
  EXPECT_EQ(manifest.format, "FlashInfer cache manifest");
  EXPECT_EQ(manifest.versions.at("FlashInfer"), "0.7.0");
}

TEST(TacticLog, CacheOfTensorRtLlm) {
  const TacticLog log = log_of(
      R"json({"metadata": {"lib_version": "1.2.0", "creation_timestamp": 1.5,
                           "device_name": "NVIDIA GB10", "device_capability": [12, 1]},
          "rank_0": {"('trtllm::fused_moe::gemm1', 'MoERunner', '(1, 2)', ((64, 2048), (0,)))":
                     {"runner_id": 0, "tactic": "3", "min_time": 0.125}},
          "rank_1": {"no key": {"runner_id": 0}}})json",
      "cache.json");
  EXPECT_EQ(log.format, "TensorRT-LLM cache");
  EXPECT_EQ(log.versions.at("architecture"), "sm_121");
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].rank, "rank 0");
  EXPECT_EQ(log.entries[0].bucket, 64);
  EXPECT_EQ(log.entries[0].time_ms, 0.125);
  EXPECT_EQ(log.unread, 1);
}

TEST(TacticLog, TritonConfigurations) {
  const TacticLog log = log_of(
      R"({"triton_version": "3.4.0",
          "1": {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1,
                "num_warps": 8, "num_stages": 3},
          "24": {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64}})",
      "/a/"
      "E=128,N=352,device_name=NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition,dtype=fp8_w8a8.json");
  EXPECT_EQ(log.format, "Triton configurations");
  EXPECT_EQ(log.dtype, "fp8_w8a8");
  EXPECT_EQ(log.devices, std::vector<std::string>{"NVIDIA RTX PRO 6000 Blackwell Server Edition"});
  EXPECT_EQ(log.versions.at("Triton"), "3.4.0");
  ASSERT_EQ(log.configs.size(), 2u);
  EXPECT_EQ(log.configs[0].stages, 3);
  EXPECT_EQ(log.configs[1].stages, 0);
  EXPECT_EQ(log.entries[0].tactic, "16x128x128, 3 stages");
  EXPECT_EQ(log.entries[1].bucket, 24);
}

TEST(TacticLog, WhatIsNoLogAndNoCacheIsRefusedWithOneSentence) {
  EXPECT_NE(refusal_of("").find("x.json is empty"), std::string::npos);
  EXPECT_NE(refusal_of("{}").find("no cache"), std::string::npos);
  EXPECT_NE(refusal_of("[]").find("no cache"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"a": 1)").find("unexpected end"), std::string::npos);
  EXPECT_NE(refusal_of(std::string_view("a\0b\0\0\0\0\0", 8)).find("binary"), std::string::npos);
  EXPECT_NE(refusal_of(std::string_view("\xff\xfeh\0i\0", 6)).find("UTF-16"), std::string::npos);
  EXPECT_NE(refusal_of(std::string_view("h\0e\0l\0l\0o\0", 10)).find("UTF-16"), std::string::npos);
  EXPECT_NE(refusal_of("\x1f\x8b\x08").find("gzip -d"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"1": {"BLOCK_SIZE_M": "x"}})").find("BLOCK_SIZE_M"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"metadata": {"lib_version": "1"}, "rank_0": 3})").find("rank_0"),
            std::string::npos);
}

TEST(TacticLog, LinesOfJsonAreALog) {
  const TacticLog log = log_of(
      "{\"msg\": \"x\"}\n{\"msg\": \"[Autotuner]: Skipped 3 unsupported tactic(s) for op (e\"}\n");
  EXPECT_EQ(log.format, "log");
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].tactics, 3);
  EXPECT_EQ(log.entries[0].line, 2);
}

TEST(TacticLog, FilesAreReadAsBytesAre) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.path() / "server.log", kIssue2077).ok());
  const Result<TacticLog> log = read_tactic_log(folder.path() / "server.log");
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->entries.size(), 1u);
  EXPECT_NE(read_tactic_log(folder.path()).error().message.find("is a folder"), std::string::npos);
  EXPECT_NE(read_tactic_log(folder.path() / "none").error().message.find("cannot read"),
            std::string::npos);
}

TEST(TacticLog, MemoryDoesNotGrowWithWhatIsAlike) {
  std::string text;
  for (int index = 0; index < 5000; ++index)
    text += kIssue2077.substr(0, kIssue2077.find('\n') + 1);
  const TacticLog log = log_of(text);
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].count, 5000);
}

}  // namespace
}  // namespace nibble::logs
