#include "cli/bench_cuda.h"

#include <gtest/gtest.h>

#include "bench/import_csv.h"

namespace nibble::cli {
namespace {

CudaRow row_of(double us, double share, double predicted) {
  CudaRow row{.on = "cuda:0", .part = "layer", .routing = "random", .launches = 4};
  row.row.shape = {
      .op = BenchOp::kMoe, .name = "moe", .experts = 256, .top_k = 8, .n = 2048, .k = 6144};
  row.row.tokens = 32;
  row.row.kernel = "w4a16 wgmma";
  row.row.time_us.values = {us};
  row.row.time_us.median = us;
  row.row.share.values = {share};
  row.row.share.median = share;
  row.row.floor_us = us * share;
  row.row.memory_us = us * share;
  row.row.bytes = 5.4e9;
  row.row.predicted.values = {predicted};
  row.row.predicted.median = predicted;
  row.row.predicted_us = us * predicted;
  row.launch_floor_us = 6.5;
  return row;
}

CudaBenchReport gpu_report_of_test() {
  CudaBenchReport report;
  report.roofs = {.title = "NVIDIA H200", .arch = "sm_90a", .sms = 132};
  report.roofs.roofs["read_gb_s"] = {
      .value = 4700,
      .path = "bulk copies",
      .conditions = {
          .clock_mhz = 1755, .power_w = 512, .temperature_c = 47, .throttled = {"power cap"}}};
  report.roofs.roofs["fp8_tflops"] = {.reason = "cuBLASLt is not there"};
  report.rows = {row_of(1280, 0.9, 1.02), row_of(1400, 0.8, 0.7)};
  return report;
}

TEST(BenchCudaText, RoofsHaveTheirConditionsOrReasons) {
  const std::string text = cuda_text(gpu_report_of_test(), Style{});
  EXPECT_NE(text.find("4.700 TB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("1755 MHz, 512 W, 47 C, power cap"), std::string::npos) << text;
  EXPECT_NE(text.find("cuBLASLt is not there"), std::string::npos) << text;
}

TEST(BenchCudaText, RowsShowTimeFloorAndRatio) {
  const std::string text = cuda_text(gpu_report_of_test(), Style{});
  EXPECT_NE(text.find("256x6144 -> 2 x 2048 top 8"), std::string::npos) << text;
  EXPECT_NE(text.find("1.11 x"), std::string::npos) << text;  // 1 / 0.9
  EXPECT_NE(text.find("1.25 x"), std::string::npos) << text;
  EXPECT_NE(text.find("4: 6.500 us"), std::string::npos) << text;
  EXPECT_NE(text.find("4.22 TB/s"), std::string::npos) << text;  // 5.4 GB / 1280 us
}

TEST(BenchCudaText, PredictionsAreCounted) {
  EXPECT_EQ(predictions_sentence(gpu_report_of_test().rows),
            "1 of 2 predictions lie within 15 % of the time; the worst is off by -30 %.");
  EXPECT_EQ(predictions_sentence({}), "");
}

TEST(BenchCudaText, ARowThatFailedSaysWhyAndIsTheOnlyOne) {
  CudaBenchReport report = gpu_report_of_test();
  CudaRow failed{.on = "cuda:0"};
  failed.row.shape.name = "moe";
  failed.row.error = "the weights take 9 TB";
  report.rows.push_back(failed);
  EXPECT_TRUE(report.failed());
  const std::string text = cuda_text(report, Style{});
  EXPECT_NE(text.find("not timed"), std::string::npos);
  EXPECT_NE(text.find("the weights take 9 TB"), std::string::npos);
}

}  // namespace
}  // namespace nibble::cli
