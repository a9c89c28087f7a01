#include "diagnose/read_cover.h"

#include <gtest/gtest.h>

#include "diagnose/read_floor.h"
#include "ledger/test_deployments.h"

namespace nibble::diagnose {
namespace {

constexpr double kReadGbS = 4000;
constexpr double kGapUs = 1.5;

// 64 users of 1,000 prompt and 400 output tokens; GLM-5's layer of experts at TP8, and no more.
Evidence glm5_at_64() {
  Evidence evidence;
  LevelEvidence level;
  level[Fact::kUsers] = recorded(64, "t");
  level[Fact::kInFlight] = recorded(64, "t");
  level[Fact::kOutputRate] = recorded(2000, "t");
  level[Fact::kPromptTokens] = recorded(1000, "t");
  level[Fact::kOutputTokens] = recorded(400, "t");
  evidence.levels = {level};
  GpuEvidence gpu{.on = "cuda:0", .source = "b.json"};
  gpu.roofs.title = "NVIDIA H200";
  gpu.roofs.roofs["read_gb_s"] = {.value = kReadGbS};
  gpu.roofs.roofs["graph_gap_us"] = {.value = kGapUs};
  gpu.catalog = find_in_catalog("NVIDIA H200");
  gpu.rows = {{.part = "layer",
               .format = "nvfp4",
               .experts = 256,
               .top_k = 8,
               .n = 256,
               .k = 6144,
               .tokens = 64,
               .time_us = 200,
               .kernel = "nibble"}};
  evidence.gpu = gpu;
  return evidence;
}

GpuBeside glm5_on(std::string_view machine, std::string served_on) {
  return {deployment_of("glm-5-nvfp4", machine, {.tp = 8}), std::move(served_on)};
}

Step step_with_measured_roofs() {
  Deployment deployment = deployment_of("glm-5-nvfp4", "h200", {.tp = 8});
  deployment.machine.bandwidth_gb_s.value = kReadGbS;
  deployment.launch_gap_us = kGapUs;
  deployment.context = 1200;  // 1000 + 400 / 2
  return decode_step(deployment, 64).value();
}

TEST(ReadCoverTest, RoofsAsMeasuredMakeTheFloorWhereTheGpuIsTheOneThatServed) {
  Evidence evidence = glm5_at_64();
  fill_gpu(glm5_on("h200", "NVIDIA H200"), evidence);
  EXPECT_EQ(evidence.gpu->served_elsewhere, "");
  const LevelEvidence& level = evidence.levels[0];
  ASSERT_TRUE(level.floor) << level.floor_reason;
  const Step step = step_with_measured_roofs();
  EXPECT_NEAR(level.floor->total(), step.step_us * 1e-3, 1e-9 * step.step_us);
  ASSERT_TRUE(level.cover);
  EXPECT_EQ(level.cover->covered(), 1U);
  EXPECT_DOUBLE_EQ(level.cover->ms(), 15);  // 75 layers x 200 us
  EXPECT_NEAR(level.cover->floor_ms(),
              75e-3 * (find_op(step, "moe.gate_up").floor_us + find_op(step, "moe.down").floor_us),
              1e-9);
  // Of what is no whole step no clue may take a share.
  EXPECT_FALSE(level[Fact::kKernels].known());
  EXPECT_NE(level[Fact::kKernels].reason.find("no whole step"), std::string::npos);
}

TEST(ReadCoverTest, AnotherGpuExplainsNothing) {
  Evidence evidence = glm5_at_64();
  fill_gpu(glm5_on("rtx-pro-6000-server", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
           evidence);
  const std::string& sentence = evidence.gpu->served_elsewhere;
  EXPECT_NE(sentence.find("served by NVIDIA RTX PRO 6000"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("timed on NVIDIA H200"), std::string::npos) << sentence;
  EXPECT_FALSE(evidence.levels[0].cover);
  EXPECT_FALSE(evidence.levels[0].floor);  // a floor of its own machine is another's to fill
  ASSERT_EQ(evidence.gpu->steps.size(), 1U);
  EXPECT_DOUBLE_EQ(evidence.gpu->steps[0].cover.ms(), 15);
  EXPECT_NEAR(evidence.gpu->steps[0].floor_ms, step_with_measured_roofs().step_us * 1e-3, 1e-6);
}

TEST(ReadCoverTest, ALoadOfACpuIsOfNoGpu) {
  Evidence evidence = glm5_at_64();
  evidence.setting.is_cpu = true;
  fill_gpu(glm5_on("h200", ""), evidence);
  EXPECT_NE(evidence.gpu->served_elsewhere.find("served by a CPU"), std::string::npos);
  EXPECT_FALSE(evidence.levels[0].cover);
}

TEST(ReadCoverTest, WhereNobodyTellsTheGpuIsTakenForItAndANoteSaysSo) {
  Evidence evidence = glm5_at_64();
  fill_gpu(glm5_on("h200", ""), evidence);
  EXPECT_TRUE(evidence.levels[0].cover);
  ASSERT_EQ(evidence.setting.notes.size(), 1U);
  EXPECT_NE(evidence.setting.notes[0].find("NVIDIA H200 is taken for it"), std::string::npos);
}

TEST(ReadCoverTest, WithoutALoadStepsAreThoseThatWereTimed) {
  Evidence evidence = glm5_at_64();
  evidence.levels.clear();
  evidence.gpu->rows.push_back(evidence.gpu->rows[0]);
  evidence.gpu->rows[1].tokens = 1;
  fill_gpu(glm5_on("h200", ""), evidence);
  ASSERT_EQ(evidence.gpu->steps.size(), 2U);
  EXPECT_EQ(evidence.gpu->steps[0].sequences, 1);
  EXPECT_EQ(evidence.gpu->steps[1].sequences, 64);
}

TEST(ReadCoverTest, AGpuThatNoCatalogKnowsNeedsItsMemoryMeasured) {
  Evidence evidence = glm5_at_64();
  evidence.gpu->roofs.title = "NVIDIA Z999";
  evidence.gpu->catalog.reset();
  fill_gpu(glm5_on("h200", ""), evidence);
  EXPECT_TRUE(evidence.gpu->steps.empty());
  EXPECT_NE(evidence.gpu->steps_reason.find("NVIDIA Z999"), std::string::npos);
  evidence.gpu->roofs.roofs["bf16_tflops"] = {.value = 700};
  const Result<MachineSpec> machine = measured_machine(*evidence.gpu);
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->bandwidth_gb_s.value, kReadGbS);
  EXPECT_EQ(machine->peak(Precision::kBf16)->dense_tflops.value, 700);
}

TEST(ReadCoverTest, OneGpuHasMoreNamesThanOne) {
  EXPECT_TRUE(is_same_gpu("h200", "NVIDIA H200"));
  EXPECT_TRUE(is_same_gpu("NVIDIA Z999", "nvidia z999"));
  EXPECT_FALSE(is_same_gpu("h200", "h100"));
  EXPECT_FALSE(is_same_gpu("h200", "NVIDIA Z999"));
}

TEST(ReadCoverTest, WhatIsTimedIsEveryProductOnceAtTheLevelsTokens) {
  Evidence evidence = glm5_at_64();
  evidence.levels.push_back(evidence.levels[0]);
  evidence.levels[0][Fact::kRunning] = recorded(7.6, "t");
  const auto products =
      products_to_time(deployment_of("glm-5-nvfp4", "h200", {.tp = 8}), evidence, {999});
  ASSERT_TRUE(products.ok());
  // By the ledger's table of this deployment: twelve matrices, the layer of experts as one.
  ASSERT_EQ(products->size(), 13U);
  for (const ProductToTime& product : *products) {
    EXPECT_EQ(product.tokens, (std::vector<std::int64_t>{8, 64})) << product.name;
  }
  const auto layer = std::find_if(products->begin(), products->end(),
                                  [](const ProductToTime& one) { return one.name == "moe"; });
  ASSERT_NE(layer, products->end());
  EXPECT_EQ(layer->product.n, 256);
  EXPECT_EQ(layer->product.k, 6144);
  EXPECT_EQ(layer->product.experts, 256);
}

TEST(ReadCoverTest, ManyLevelsAreThinnedToEightWithBothEnds) {
  std::vector<double> sequences;
  for (int at = 1; at <= 40; ++at) sequences.push_back(at);
  const auto products =
      products_to_time(deployment_of("glm-5-nvfp4", "h200", {.tp = 8}), Evidence{}, sequences);
  ASSERT_TRUE(products.ok());
  EXPECT_EQ(products->front().tokens.size(), 8U);
  EXPECT_EQ(products->front().tokens.front(), 1);
  EXPECT_EQ(products->front().tokens.back(), 40);
}

}  // namespace
}  // namespace nibble::diagnose
