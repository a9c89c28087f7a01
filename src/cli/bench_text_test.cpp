#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/bench.h"

namespace nibble::cli {
namespace {

BenchReport report_of_test() {
  BenchReport report;
  report.cpu.title = "A processor";
  CpuRoofs& roofs = report.roofs.roofs;
  roofs.threads = 2;
  roofs.read = {.value = 30, .path = "4 streams"};
  roofs.rates[Precision::kFp32] = {.value = 0.2, .path = "fma"};
  roofs.rates[Precision::kBf16] = {.value = 0.3, .path = "maddwd"};
  roofs.rates[Precision::kInt8] = {.value = 0.6, .path = "maddubsw"};
  BenchRow row{.shape = {.experts = 8, .top_k = 2, .n = 64, .k = 32}, .tokens = 4};
  row.bytes = 30e3;
  row.flop = 1e6;
  row.time_us = {.values = {2}, .median = 2, .interval = Interval{1.9, 2.1}};
  row.share = {.values = {0.5}, .median = 0.5};
  row.memory_us = 1;
  row.compute_us = 0.5;
  row.floor_us = 1;
  row.predicted_us = 1.8;
  row.roof_gb_s = 30;
  row.roof_tops = 0.3;
  report.rows.push_back(row);
  return report;
}

TEST(BenchText, SaysWhatARowReachedAndWhatBindsIt) {
  const std::string text = bench_text(report_of_test(), Style::plain());
  EXPECT_NE(text.find("What 2 threads of this machine (A processor) can do"), std::string::npos);
  for (const char* part : {"30.00 GB/s", "600.0 Gop/s", "8x[64,32] top 2", "nvfp4 x bf16",
                           "15.0 GB/s",  // 30 kB in 2 us
                           "2.00 x", "memory 30.0 GB/s", "5.0 %", "Weights are cold"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("Notes"), std::string::npos);
}

TEST(BenchText, AComputeBoundRowIsInOperations) {
  BenchReport report = report_of_test();
  report.rows.front().compute_us = 1.5;
  const std::string text = bench_text(report, Style::plain());
  EXPECT_NE(text.find("500 Gop/s"), std::string::npos) << text;  // 1e6 in 2 us
  EXPECT_NE(text.find("multiply 300 Gop/s"), std::string::npos) << text;
}

TEST(BenchText, ErrorsAndFlagsStandBelow) {
  BenchReport report = report_of_test();
  report.rows.front().error = "the kernel is wrong";
  report.rows.front().time_us = {};
  report.rows.front().flags = {"not cold"};
  report.notes = {"a neighbour"};
  const std::string text = bench_text(report, Style::plain());
  EXPECT_NE(text.find("not timed"), std::string::npos);
  EXPECT_NE(text.find("ERROR gemm, nvfp4 x bf16, 4 tokens: the kernel is wrong"),
            std::string::npos);
  EXPECT_NE(text.find("not cold"), std::string::npos);
  EXPECT_NE(text.find("a neighbour"), std::string::npos);
}

TEST(BenchText, DoubtfulRowsAreMarked) {
  BenchReport report = report_of_test();
  report.rows.front().disturbed = true;
  report.rows.front().cold = false;
  report.rows.front().as_called = false;
  std::string text = bench_text(report, Style::plain());
  EXPECT_NE(text.find("2.00 x ?"), std::string::npos) << text;
  EXPECT_NE(text.find("not to be trusted"), std::string::npos) << text;
  EXPECT_NE(text.find("  not hot  "), std::string::npos) << text;
  report.rows.front().disturbed = false;
  report.rows.front().share.median = 1.25;
  text = bench_text(report, Style::plain());
  EXPECT_NE(text.find("0.80 x ?"), std::string::npos) << text;
}

TEST(BenchText, EightyColumnsKeepShapeReachedAndRatio) {
  BenchReport report = report_of_test();
  report.rows.front().shape = {.experts = 64, .top_k = 8, .n = 1024, .k = 2048};
  report.rows.front().time_us.median = 1234;
  report.rows.front().disturbed = true;
  const std::string text = bench_text(report, {.width = 80});
  for (const char* part : {"64x[1024,2048] top 8", "24.3 MB/s", "1.234 ms", "2.00 x ?"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  for (const std::string& line : split(text, '\n')) EXPECT_LE(line.size(), 80U) << line;
}

TEST(BenchText, RoofsAloneHaveNoTableOfRows) {
  BenchReport report = report_of_test();
  report.rows.clear();
  report.scaling = {report.roofs.roofs};
  const std::string text = bench_text(report, Style::plain());
  EXPECT_NE(text.find("threads"), std::string::npos);
  EXPECT_EQ(text.find("time / floor"), std::string::npos);
}

}  // namespace
}  // namespace nibble::cli
