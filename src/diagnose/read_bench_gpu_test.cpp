#include "diagnose/read_bench_gpu.h"

#include <gtest/gtest.h>

#include "diagnose/read_fixture.h"

namespace nibble::diagnose {
namespace {

constexpr std::string_view kGpuBench = R"({"schema": "nibble.bench/1", "on": "cuda:0",
  "gpu_roofs": {"title": "NVIDIA H200", "arch": "sm_90a", "uuid": "", "driver": "", "sms": 132,
    "memory_bytes": 1.5e11, "l2_bytes": 6e7, "taken_unix_s": 1.7e9,
    "roofs": {"read_gb_s": {"value": 4000, "path": "by hand", "passes": [4000], "reason": null,
                "conditions": {"clock_mhz": 1755, "power_w": 450, "temperature_c": 48,
                               "throttled": ["power cap"], "samples": 9, "reason": null}},
              "fp8_tflops": {"value": null, "path": "", "passes": [], "reason": "no cuBLASLt"}}},
  "rows": [
    {"op": "moe", "kind": "moe", "part": "layer", "on": "cuda:0", "format": "nvfp4",
     "experts": 256, "top_k": 8, "n": 256, "k": 6144, "tokens": 64, "time_us": 200,
     "floor_us": 150, "kernel": "w4a16", "error": null,
     "conditions": {"clock_mhz": 1700, "power_w": 500, "temperature_c": 50, "throttled": [],
                    "samples": 4, "reason": null}},
    {"op": "attn.q", "kind": "gemm", "part": "dense", "on": "cuda:0", "format": "bf16",
     "experts": 1, "top_k": 1, "n": 2048, "k": 2048, "tokens": 64, "time_us": 1,
     "kernel": "cuBLASLt bf16", "error": "above the roof",
     "conditions": {"clock_mhz": 1900, "power_w": 300, "temperature_c": 55,
                    "throttled": ["power cap"], "samples": 2, "reason": null}},
    {"op": "gemm", "kind": "gemm", "part": null, "on": null, "format": "nvfp4", "experts": 1,
     "top_k": 1, "n": 4, "k": 4, "tokens": 1, "time_us": 5, "kernel": "flashinfer"}]})";

TEST(ReadBenchGpuTest, RowsOfTheGpuWithWhatItsBoardDid) {
  Evidence evidence;
  const Result<> read = read_bench_gpu(json_of(kGpuBench), {.name = "b.json"}, evidence);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_TRUE(evidence.gpu);
  const GpuEvidence& gpu = *evidence.gpu;
  EXPECT_EQ(gpu.on, "cuda:0");
  EXPECT_EQ(gpu.roofs.value("read_gb_s"), 4000);
  EXPECT_FALSE(gpu.roofs.value("fp8_tflops"));
  ASSERT_TRUE(gpu.catalog);
  EXPECT_EQ(gpu.catalog->name, "h200");
  ASSERT_EQ(gpu.rows.size(), 2U);  // what was imported is of no GPU
  EXPECT_EQ(gpu.rows[0].part, "layer");
  EXPECT_EQ(*gpu.rows[0].time_us, 200);
  EXPECT_FALSE(gpu.rows[1].time_us);  // a time that cannot be right is none
  EXPECT_EQ(gpu.rows[1].error, "above the roof");
  const GpuConditions board = conditions_over(gpu.rows);
  EXPECT_DOUBLE_EQ(*board.clock_mhz, 1800);  // the middle of 1700 and 1900
  EXPECT_DOUBLE_EQ(*board.power_w, 400);
  EXPECT_DOUBLE_EQ(*board.temperature_c, 55);
  EXPECT_EQ(board.throttled, std::vector<std::string>{"power cap"});
}

TEST(ReadBenchGpuTest, ADocumentOfAProcessorIsOfNoGpu) {
  Evidence evidence;
  ASSERT_TRUE(read_bench_gpu(json_of(R"({"rows": []})"), {.name = "cpu.json"}, evidence).ok());
  EXPECT_FALSE(evidence.gpu);
}

TEST(ReadBenchGpuTest, TwoGpusDoNotMix) {
  Evidence evidence;
  ASSERT_TRUE(read_bench_gpu(json_of(kGpuBench), {.name = "a.json"}, evidence).ok());
  std::string other(kGpuBench);
  other.replace(other.find("NVIDIA H200"), 11, "NVIDIA H100");
  const Result<> read = read_bench_gpu(json_of(other), {.name = "b.json"}, evidence);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("b.json"), std::string::npos);
  EXPECT_NE(read.error().message.find("a.json"), std::string::npos);
}

TEST(ReadBenchGpuTest, AWrongKindNamesItsPlace) {
  Evidence evidence;
  std::string wrong(kGpuBench);
  wrong.replace(wrong.find("\"tokens\": 64"), 12, "\"tokens\": \"6\"");
  const Result<> read = read_bench_gpu(json_of(wrong), {.name = "b.json"}, evidence);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("b.json: rows[0]: \"tokens\""), std::string::npos);
}

}  // namespace
}  // namespace nibble::diagnose
