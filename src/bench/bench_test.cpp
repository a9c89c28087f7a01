#include "bench/bench.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "base/text.h"
#include "bench/memory_need.h"

namespace nibble {
namespace {

BenchShape small_shape(BenchOp op, Format format, Format activations) {
  return {.op = op,
          .name = op == BenchOp::kMoe ? "moe" : "gemm",
          .format = format,
          .activations = activations,
          .experts = 6,
          .top_k = 2,
          .n = 40,
          .k = 96,
          .tokens = {1, 5}};
}

// Every path through weights, check, timing and accounting, on shapes that take no time.
TEST(RunBench, MeasuresPairsOfFormats) {
  BenchRequest request{.threads = 1, .cold = false, .row_seconds = 0.01};
  for (const BenchOp op : {BenchOp::kGemm, BenchOp::kMoe}) {
    request.shapes.push_back(small_shape(op, Format::kNvfp4, Format::kBf16));
    request.shapes.push_back(small_shape(op, Format::kNvfp4, Format::kInt8));
    request.shapes.push_back(small_shape(op, Format::kNvfp4, Format::kNvfp4));
    request.shapes.push_back(small_shape(op, Format::kMxfp4, Format::kInt8));
    request.shapes.push_back(small_shape(op, Format::kBf16, Format::kBf16));
  }
  double most = 0;
  const auto report = run_bench(request, [&](std::string_view what, double rows) {
    EXPECT_FALSE(what.empty());
    EXPECT_GE(rows, most);
    most = rows;
  });
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->rows.size(), 2 * request.shapes.size());
  EXPECT_FALSE(report->failed());
  for (const BenchRow& row : report->rows) {
    EXPECT_EQ(row.error, "") << row.kernel;
    EXPECT_GT(row.time_us.median, 0);
    const double products = row.shape.op == BenchOp::kMoe ? 3 : 1;
    EXPECT_EQ(row.flop, 2.0 * static_cast<double>(row.tokens) * 2 * 40 * 96 * products);
  }
}

TEST(RunBench, RefusesShapesThatNoKernelTakesBeforeItMeasures) {
  const auto refused = [](BenchShape shape) {
    const BenchRequest request{.shapes = {std::move(shape)}};
    const auto report = run_bench(request, [](std::string_view, double) { FAIL(); });
    return report.ok() ? std::string() : report.error().message;
  };
  BenchShape shape = small_shape(BenchOp::kGemm, Format::kNvfp4, Format::kBf16);
  shape.k = 95;
  EXPECT_NE(refused(shape).find("even"), std::string::npos);
  shape = small_shape(BenchOp::kGemm, Format::kNvfp4, Format::kBf16);
  shape.top_k = 7;
  EXPECT_NE(refused(shape).find("--top-k"), std::string::npos);
  shape = small_shape(BenchOp::kGemm, Format::kBf16, Format::kInt8);
  EXPECT_NE(refused(shape).find("bf16 weights"), std::string::npos);
  shape = small_shape(BenchOp::kGemm, Format::kNvfp4, Format::kBf16);
  shape.tokens = {0};
  EXPECT_NE(refused(shape).find("tokens"), std::string::npos);
  shape = small_shape(BenchOp::kGemm, Format::kNvfp4, Format::kBf16);
  shape.n = shape.k = 1'000'000;
  EXPECT_NE(refused(shape).find("[1000000, 1000000]"), std::string::npos);
}

// A product so small that millions of copies would be needed to leave the caches.
TEST(GemmRig, TinyMatricesHaveFewCopies) {
  ThreadPool pool(1);
  const BenchSetup setup{.pool = pool, .cold = true, .cache_bytes = 32e6, .available_bytes = 8e9};
  BenchShape shape{.experts = 1, .top_k = 1, .n = 1, .k = 2, .tokens = {1}};
  const auto rig = make_gemm_rig(shape, setup);
  ASSERT_TRUE(rig.ok());
  EXPECT_EQ((*rig)->ring().units, 1 << 14);
  EXPECT_NE((*rig)->ring().note, "");
  ASSERT_TRUE((*rig)->set_tokens(1).ok());
  EXPECT_TRUE((*rig)->check().ok());
}

// Cold with little memory: the ring is as long as half of it allows, and the rest is a note.
TEST(GemmRig, UsesTheUnitsThatWereLongestUntouched) {
  ThreadPool pool(1);
  const BenchSetup setup{.pool = pool,
                         .isa = best_isa(),
                         .cold = true,
                         .cache_bytes = 1e6,
                         .available_bytes = 100 * packed_bytes(Format::kNvfp4, 40, 96)};
  const auto rig = make_gemm_rig(small_shape(BenchOp::kGemm, Format::kNvfp4, Format::kInt8), setup);
  ASSERT_TRUE(rig.ok());
  EXPECT_EQ((*rig)->ring().units, 50);
  EXPECT_FALSE((*rig)->ring().cold);
  ASSERT_TRUE((*rig)->set_tokens(5).ok());
  EXPECT_TRUE((*rig)->check().ok());
  // 40 x 96 weights with scales: 2,160 B.
  EXPECT_EQ((*rig)->work().weight_bytes, (*rig)->work().distinct * 2160);
  EXPECT_EQ((*rig)->cold_memory(3 * 2160 - 1).size(), 3U);
  EXPECT_EQ((*rig)->cold_memory(1e12).size(), 50U);
}

TEST(ToCsv, HasOneLineARowAndAHeader) {
  BenchRow row{.shape = small_shape(BenchOp::kGemm, Format::kNvfp4, Format::kInt8), .tokens = 5};
  row.time_us.values = {12.5};
  row.time_us.median = 12.5;
  row.time_us.interval = Interval{11, 14};
  const std::vector<std::string> lines = split(to_csv({row, row}), '\n');
  ASSERT_EQ(lines.size(), 4U);  // the last is empty
  EXPECT_EQ(split(lines[0], ',').size(), split(lines[1], ',').size());
  EXPECT_TRUE(lines[0].starts_with("op,kind,format,"));
  EXPECT_TRUE(lines[1].starts_with("gemm,gemm,nvfp4,int8,6,2,"));
  EXPECT_NE(lines[1].find(",12.5,11,14,"), std::string::npos) << lines[1];
  EXPECT_NE(lines[0].find(",time_us,time_low_us,time_high_us,"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find(",roof_share_low,roof_share_high,"), std::string::npos) << lines[0];
}

TEST(RoofsCsv, HasALineForEachRoof) {
  BenchReport report;
  CpuRoofs roofs{.threads = 2};
  roofs.read = {.value = 30.5, .path = "4 streams, avx2"};
  roofs.rates[Precision::kInt8] = {.value = 0.5, .path = "vpdpbusd"};
  report.scaling = {roofs};
  EXPECT_EQ(roofs_csv(report),
            "threads,roof,value,unit,measured_with\n2,read,30.5,GB/s,\"4 streams, avx2\"\n"
            "2,int8,0.5,TFLOPS,\"vpdpbusd\"\n");
}

}  // namespace
}  // namespace nibble
