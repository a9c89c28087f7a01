#include "cli/analyze_kernels.h"

#include <gtest/gtest.h>

namespace nibble::cli {
namespace {

Op product(std::string name, double groups, double m, double n, double k) {
  Op op{.name = std::move(name), .format = "nvfp4 x int8", .flop = 1};
  op.shape = {.groups = groups, .m = m, .n = n, .k = k};
  return op;
}

BenchFileRow row(std::int64_t experts, std::int64_t top_k, std::int64_t tokens, double time_us,
                 bool cold = true) {
  return {.shape = {.format = Format::kNvfp4,
                    .activations = Format::kInt8,
                    .experts = experts,
                    .top_k = top_k,
                    .n = 64,
                    .k = 32,
                    .tokens = {tokens}},
          .cold = cold,
          .kernel = "ours",
          .time_us = time_us};
}

struct Scene {
  Deployment deployment;
  Step step;
  BenchFile file{.path = "bench.json", .machine = "A", .version = "1"};
  Scene() { deployment.model.moe = MoeSpec{.experts = 8, .top_k = 2}; }
  KernelCell cell(Op op) {
    step.ops = {std::move(op)};
    return kernel_cells(deployment, step, file).front();
  }
};

TEST(KernelCells, ADenseProductIsMatchedByShapeFormatsAndTokens) {
  Scene scene;
  scene.file.rows = {row(1, 1, 4, 10), row(1, 1, 8, 20)};
  const KernelCell cell = scene.cell(product("attn.out", 1, 8, 64, 32));
  EXPECT_EQ(cell.time_us, 20);
  EXPECT_EQ(cell.kernel, "ours");
  EXPECT_EQ(cell.reason, "");
}

// 5 distinct experts with 1.6 rows each are 8 slots: 4 tokens of 2 experts.
TEST(KernelCells, AGroupedProductIsMatchedByItsTokens) {
  Scene scene;
  scene.file.rows = {row(8, 2, 4, 30), row(1, 1, 4, 10)};
  EXPECT_EQ(scene.cell(product("moe.gate_up", 5, 1.6, 64, 32)).time_us, 30);
  EXPECT_EQ(scene.cell(product("moe.gate_up", 6, 1.6, 64, 32)).reason,
            "measured at 4 tokens, not at 4.8");
}

TEST(KernelCells, AColdTimeIsPreferred) {
  Scene scene;
  scene.file.rows = {row(1, 1, 8, 5, false), row(1, 1, 8, 20, true), row(1, 1, 8, 6, false)};
  EXPECT_EQ(scene.cell(product("attn.out", 1, 8, 64, 32)).time_us, 20);
  scene.file.rows.erase(scene.file.rows.begin() + 1);
  const KernelCell hot = scene.cell(product("attn.out", 1, 8, 64, 32));
  EXPECT_EQ(hot.time_us, 5);
  EXPECT_FALSE(hot.cold);
}

TEST(KernelCells, WhatWasNotMeasuredHasAReason) {
  Scene scene;
  scene.file.rows = {row(1, 1, 8, 20)};
  EXPECT_EQ(scene.cell(product("attn.out", 1, 8, 64, 48)).reason, "its shape was not measured");
  Op other = product("attn.out", 1, 8, 64, 32);
  other.format = "nvfp4 x bf16";
  EXPECT_EQ(scene.cell(other).reason, "its shape was not measured in nvfp4 x bf16");
  Op norm{.name = "attn.norm", .format = "bf16"};
  EXPECT_EQ(scene.cell(norm).reason, "nibble bench measures products only");
  scene.deployment.layout = {.tp = 2, .ep = 2};
  EXPECT_NE(scene.cell(product("moe.down", 5, 1.6, 64, 32)).reason.find("split"),
            std::string::npos);
}

TEST(KernelCells, AFailedRowIsNoTime) {
  Scene scene;
  scene.file.rows = {row(1, 1, 8, 20)};
  scene.file.rows.front().time_us.reset();
  scene.file.rows.front().error = "the kernel is wrong";
  const KernelCell cell = scene.cell(product("attn.out", 1, 8, 64, 32));
  EXPECT_FALSE(cell.time_us.has_value());
  EXPECT_EQ(cell.reason, "not timed: the kernel is wrong");
}

TEST(KernelsJson, HasOneCellForEachOperationOfEachLevel) {
  Scene scene;
  scene.file.rows = {row(1, 1, 8, 20)};
  scene.step.concurrency = 8;
  scene.step.ops = {product("attn.out", 1, 8, 64, 32), Op{.name = "attn.norm", .format = "bf16"}};
  const Json json = kernels_json(scene.deployment, {scene.step}, scene.file);
  const Json::Array& levels = json.find("levels")->as_array();
  ASSERT_EQ(levels.size(), 1U);
  const Json::Array& ops = levels.front().find("ops")->as_array();
  ASSERT_EQ(ops.size(), 2U);
  EXPECT_EQ(ops[0].find("kernel_us")->as_number(), 20);
  EXPECT_TRUE(ops[0].find("reason")->is_null());
  EXPECT_TRUE(ops[1].find("kernel_us")->is_null());
  EXPECT_TRUE(ops[1].find("reason")->is_string());
}

}  // namespace
}  // namespace nibble::cli
