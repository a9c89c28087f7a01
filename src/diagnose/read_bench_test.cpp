#include <gtest/gtest.h>

#include "diagnose/read_evidence.h"
#include "diagnose/read_fixture.h"

namespace nibble::diagnose {
namespace {

// Steps of 1, 4 and 16 sequences: 2, 5 and 11 ms.
constexpr std::string_view kSteps = R"({"schema": "nibble.bench/1", "roofs": {"read_gb_s": 20},
  "rows": [{"op": "moe.gate_up", "kernel": "avx2", "format": "nvfp4", "m": 16, "n": 2048,
            "k": 6144, "tokens": 64, "time_us": 500, "floor_us": 5, "bytes": 1e6, "flop": 4e6,
            "error": null},
           {"op": "moe.down", "time_us": null, "error": "wrong numbers"}],
  "steps": [{"sequences": 16, "time_us": 11000, "error": ""},
            {"sequences": 1, "time_us": 2000, "error": ""},
            {"sequences": 4, "time_us": 5000, "error": ""},
            {"sequences": 8, "time_us": 1, "error": "above its roof"}]})";

Evidence levels_running(std::initializer_list<double> running) {
  Evidence evidence;
  for (const double sequences : running) {
    evidence.levels.emplace_back();
    evidence.levels.back()[Fact::kRunning] = recorded(sequences, "test");
  }
  return evidence;
}

TEST(ReadBenchTest, StepsAreALineBetweenWhatWasMeasured) {
  Evidence evidence = levels_running({1, 2, 10, 24, 25, 0.4});
  ASSERT_TRUE(read_bench(json_of(kSteps), {.name = "step.json"}, evidence).ok());
  EXPECT_DOUBLE_EQ(*evidence.levels[0].get(Fact::kKernels), 2);
  EXPECT_DOUBLE_EQ(*evidence.levels[1].get(Fact::kKernels), 3);   // 2 + (5 - 2) / 3
  EXPECT_DOUBLE_EQ(*evidence.levels[2].get(Fact::kKernels), 8);   // 5 + 6 x (11 - 5) / 12
  EXPECT_DOUBLE_EQ(*evidence.levels[3].get(Fact::kKernels), 15);  // 11 + 8 x 0.5: 1.5 x beyond
  EXPECT_FALSE(evidence.levels[4][Fact::kKernels].known());
  EXPECT_NE(evidence.levels[4][Fact::kKernels].reason.find("25 sequences"), std::string::npos);
  EXPECT_DOUBLE_EQ(*evidence.levels[5].get(Fact::kKernels), 2);  // no step has less than one
  // The slope of the largest two: 6 ms over 12 rows.
  EXPECT_DOUBLE_EQ(*evidence.levels[0].get(Fact::kPrefillPerToken), 0.5);
}

TEST(ReadBenchTest, KernelsAndRoofs) {
  Evidence evidence;
  ASSERT_TRUE(read_bench(json_of(kSteps), {.name = "step.json"}, evidence).ok());
  ASSERT_EQ(evidence.kernels.size(), 1U);
  const KernelEvidence& kernel = evidence.kernels[0];
  EXPECT_EQ(kernel.op, "moe.gate_up");
  EXPECT_EQ(kernel.shape, "nvfp4 16x2048x6144");
  EXPECT_DOUBLE_EQ(kernel.intensity, 4);   // 4e6 / 1e6
  EXPECT_DOUBLE_EQ(kernel.tflops, 0.008);  // 4e6 FLOP in 500 us
  EXPECT_EQ(kernel.source, "step.json: rows[0]");
  EXPECT_EQ(*evidence.roofs.find("read_gb_s"), Json(20));
}

TEST(ReadBenchTest, WhatIsNotKnownHasAReason) {
  Evidence evidence = levels_running({3});
  evidence.levels.emplace_back();
  evidence.levels[1][Fact::kRunning] = missing("the server's metrics page was not read");
  ASSERT_TRUE(read_bench(json_of(R"({"steps": [{"sequences": 2, "time_us": 10}]})"),
                         {.name = "one.json"}, evidence)
                  .ok());
  EXPECT_NE(
      evidence.levels[0][Fact::kKernels].reason.find("steps were measured of 2 sequences alone"),
      std::string::npos);
  EXPECT_NE(evidence.levels[0][Fact::kPrefillPerToken].reason, "");
  EXPECT_NE(evidence.levels[1][Fact::kKernels].reason.find("metrics page"), std::string::npos);
}

TEST(ReadBenchTest, AWrongKindNamesFileAndMember) {
  Evidence evidence;
  const Result<> read =
      read_bench(json_of(R"({"steps": [{"sequences": "two"}]})"), {.name = "step.json"}, evidence);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("step.json: steps[0]: \"sequences\""), std::string::npos);
}

}  // namespace
}  // namespace nibble::diagnose
