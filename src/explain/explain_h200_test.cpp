// The second case, DeepSeek-R1 on eight H200: other numbers, other findings, worked by hand.
#include <gtest/gtest.h>

#include "explain/case_edit.h"
#include "explain/explain.h"

namespace nibble {
namespace {

const CaseAnalysis& analysis() {
  static const CaseAnalysis kAnalysis = explain_document(case_document("deepseek_r1_h200"));
  return kAnalysis;
}

void expect_value(std::string_view id, double expected) {
  EXPECT_NEAR(value_of(analysis(), id), expected, 0.01 * std::abs(expected)) << id;
}

void expect_missing(std::string_view id, std::string_view part) {
  const Finding* finding = find(analysis(), id);
  ASSERT_NE(finding, nullptr) << id;
  EXPECT_NE(finding->missing.find(part), std::string::npos) << finding->missing;
}

TEST(H200CaseTest, IsBuiltIn) {
  const std::vector<std::string> names = case_catalog();
  EXPECT_EQ(names, (std::vector<std::string>{"deepseek_r1_h200", "glm52_rtxpro6000_spin",
                                             "glm5_rtxpro6000"}));
  const Result<Case> found = load_case("deepseek_r1_h200");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_TRUE(found->source.starts_with("invented example"));
}

TEST(H200CaseTest, ComputeBoundKernels) {
  // 2*4096*4096*7168 = 240.5 GFLOP: 171.8 us at 1400, 121.5 us at 1978.9 TFLOPS: within 2 x.
  expect_value("kernel.time.fp8.4096x4096x7168", 171.8);
  expect_value("kernel.compute_floor.fp8.4096x4096x7168", 121.5);
  EXPECT_EQ(verdict_of(analysis(), "kernel.regime.fp8.4096x4096x7168"), "compute");
  EXPECT_EQ(verdict_of(analysis(), "kernel.regime.bf16.4096x4096x7168"), "compute");
  EXPECT_EQ(verdict_of(analysis(), "intensity.below_ridge.fp8.4096x4096x7168"), "compute roof");
  // 1978.9e12 and 989.4e12 over 4800e9.
  expect_value("ridge.fp8", 412.3);
  expect_value("ridge.bf16", 206.1);
  // 32 x 32 tiles on 132 SMs are 7.76 waves of 8: 1978.9 * 1024 / 1056.
  expect_value("tiles.coverage.fp8.4096x4096x7168", 1918.9);
  // fp8 against bf16: 2 x in rate and bytes, 1400 / 740 measured.
  expect_value("formats.peak.fp8.4096x4096x7168.bf16", 2);
  expect_value("formats.bytes.fp8.4096x4096x7168.bf16", 2);
  expect_value("formats.measured.fp8.4096x4096x7168.bf16", 1400.0 / 740);
}

TEST(H200CaseTest, MemoryBoundHotAndLatencyBoundKernels) {
  // 64x18432x7168: 132.1 + 0.46 + 2.36 MB at 4800 GB/s: 28.1 us of 34 us; 132 MB exceed the L2.
  EXPECT_EQ(verdict_of(analysis(), "kernel.regime.fp8.64x18432x7168"), "memory");
  expect_value("kernel.regime.fp8.64x18432x7168", 34 / 28.11);
  EXPECT_EQ(verdict_of(analysis(), "kernel.cache.fp8.64x18432x7168"), "larger than L2");
  // 16x4096x7168: 29.6 MB need 6.17 us; 5.2 us can only be a hot L2.
  EXPECT_EQ(verdict_of(analysis(), "kernel.regime.fp8.16x4096x7168"), "accounting error");
  // 32x512x7168: 3.93 MB need 0.82 us; 9 us is 11 x.
  EXPECT_EQ(verdict_of(analysis(), "kernel.regime.fp8.32x512x7168"), "launch or latency");
  EXPECT_EQ(verdict_of(analysis(), "kernel.cache.fp8.32x512x7168"), "fits L2, cold: hot");
}

TEST(H200CaseTest, ShapesAndRouting) {
  // 2048 / 8: [m, 512, 7168], which was timed, and [m, 7168, 256], which was not.
  EXPECT_EQ(verdict_of(analysis(), "shapes.gate_up"), "was timed");
  EXPECT_EQ(verdict_of(analysis(), "shapes.down"), "was not timed");
  expect_value("routing.distinct.128", 251.6);  // 256 * (1 - (31/32)^128)
  expect_value("routing.rows.128", 4.07);       // 1024 / 251.6
}

TEST(H200CaseTest, StepAndLittlesLaw) {
  EXPECT_EQ(analysis().headline, 1U);
  // 128 / 3100 = 41.29 ms; 128 / 40 ms = 3200 tok/s: 3 % apart, a steady test.
  expect_value("little.128.step", 41.29);
  expect_value("little.128.implied_rate", 3200);
  EXPECT_EQ(verdict_of(analysis(), "little.128.ratio"), "steady");
  // An expert has 3*7168*2048 fp8 weights and a 4 B scale per 128x128: 44,050,944 B, / 8 GPUs;
  // 251.6 of them in 58 layers at 4800 GB/s.
  expect_value("step.128.expert_weights", 44050944.0 / 8 * 251.6 * 58 / 4800e3);
  // 128 sequences * 1536 tokens * 61 layers * 1152 B.
  expect_value("step.128.kv", 128.0 * 1537 * 61 * 1152 / 4800e3);
  expect_value("kv.per_token", 61 * 1152);
  // 122 all-reduces of 128*7168*2 B = 1.835 MB: 1.75 * 1.835 MB / 450 GB/s = 7.136 us each.
  expect_value("collectives.ring.given", 122 * 7.136);
  // The link is given, so no other is tried: at most 4.3 ms by ring, hops included.
  EXPECT_EQ(find(analysis(), "collectives.ring.pcie5-x16"), nullptr);
  EXPECT_EQ(verdict_of(analysis(), "collectives.verdict"), "unexplained stays larger");
}

TEST(H200CaseTest, NoPlateauAndNoSignalsMissing) {
  expect_value("plateau", std::log(4900.0 / 3100) / std::log(2.0));
  EXPECT_EQ(verdict_of(analysis(), "plateau"), "no plateau");
  EXPECT_EQ(find(analysis(), "plateau.missing_signals"), nullptr);
  // 0.9 * 141 GB less about 85 GB of weights hold 256 sequences of 2,048 tokens (36.8 GB).
  EXPECT_EQ(verdict_of(analysis(), "kv.fit.full"), "fits");
  EXPECT_EQ(find(analysis(), "proposal.max_running_requests"), nullptr);
}

TEST(H200CaseTest, PowerTilesPeakAndClaim) {
  expect_value("power.share.128", 80);
  expect_missing("power.position.128", "not known");
  expect_missing("tile.limit", "no FP4 matrix unit");
  expect_missing("peak.used", "quotes no FP4 peak");
  expect_value("claim.parameters", 1);
  EXPECT_EQ(verdict_of(analysis(), "claim.parameters"), "agrees");
  EXPECT_TRUE(analysis().tiles.empty());
}

TEST(H200CaseTest, Layouts) {
  expect_value("layouts.measured.tp4pp2.128", 1750.0 / 3100);
  // 64 tokens of a microbatch touch 222.4 experts: less than twice the traffic of 251.6 at once.
  const double predicted = value_of(analysis(), "layouts.predicted.tp4pp2.128");
  EXPECT_GT(predicted, 0.55);
  EXPECT_LT(predicted, 0.65);
  EXPECT_EQ(verdict_of(analysis(), "layouts.verdict.tp4pp2.128"), "as bandwidth predicts");
}

}  // namespace
}  // namespace nibble
