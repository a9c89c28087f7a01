#include "diagnose/cover.h"

#include <gtest/gtest.h>

namespace nibble::diagnose {
namespace {

Op op_of(std::string name, double count, double floor_us) {
  return {.name = std::move(name), .count = count, .floor_us = floor_us};
}

Op product_of(std::string name, OpShape shape, std::string format, double floor_us) {
  Op op = op_of(std::move(name), 2, floor_us);
  op.shape = std::move(shape);
  op.format = std::move(format);
  op.flop = 1;
  return op;
}

// Two layers: four tokens, of which each meets two of eight experts; intermediate 8, hidden 64.
Step step_by_hand() {
  Step step;
  step.ops.push_back(op_of("attn.norm", 2, 1));
  step.ops.push_back(
      product_of("attn.q", {.groups = 1, .m = 4, .n = 32, .k = 64}, "bf16 x bf16", 3));
  Op core = op_of("attn.core", 2, 5);
  core.bytes.kv_bytes = 100;
  core.flop = 1;
  step.ops.push_back(core);
  Op reduce = op_of("attn.all_reduce", 2, 8);
  reduce.bytes.link_bytes = 100;
  step.ops.push_back(reduce);
  step.ops.push_back(
      product_of("moe.gate_up", {.groups = 4, .m = 2, .n = 16, .k = 64}, "nvfp4 x bf16", 7));
  step.ops.push_back(
      product_of("moe.down", {.groups = 4, .m = 2, .n = 64, .k = 8}, "nvfp4 x bf16", 4));
  step.ops.push_back(
      product_of("lm_head", {.groups = 1, .m = 4, .n = 99, .k = 64}, "int8 x int8", 6));
  return step;
}

Deployment eight_experts() {
  Deployment deployment;
  deployment.model.moe = MoeSpec{.experts = 8, .top_k = 2};
  return deployment;
}

GpuRow dense_row(double tokens, double time_us) {
  return {.part = "dense",
          .format = "bf16",
          .n = 32,
          .k = 64,
          .tokens = tokens,
          .time_us = time_us,
          .kernel = "cuBLASLt bf16"};
}

GpuRow layer_row(double tokens, double time_us) {
  return {.part = "layer",
          .format = "nvfp4",
          .experts = 8,
          .top_k = 2,
          .n = 8,
          .k = 64,
          .tokens = tokens,
          .time_us = time_us,
          .kernel = "nibble"};
}

const CoveredOp& op_named(const KernelCover& cover, std::string_view name) {
  for (const CoveredOp& op : cover.ops) {
    if (op.op == name) return op;
  }
  static const CoveredOp kNone;
  ADD_FAILURE() << "no operation " << name;
  return kNone;
}

TEST(CoverTest, TheSumIsOfWhatWasTimedAndTheRestHasItsFloorAndAReason) {
  const KernelCover cover = cover_of(step_by_hand(), eight_experts(),
                                     {dense_row(4, 6), layer_row(2, 10), layer_row(8, 22)});
  ASSERT_EQ(cover.ops.size(), 6U);  // gate_up and down are one
  EXPECT_EQ(cover.covered(), 2U);
  const CoveredOp& layer = op_named(cover, "moe.gate_up + moe.down");
  EXPECT_DOUBLE_EQ(layer.tokens, 4);               // 4 experts x 2 rows / 2 choices
  EXPECT_DOUBLE_EQ(*layer.time_us, 14);            // 10 + 2 x 12 / 6
  EXPECT_DOUBLE_EQ(layer.floor_us, 11);            // 7 + 4
  EXPECT_DOUBLE_EQ(cover.ms(), 0.040);             // 2 x 6 + 2 x 14 us
  EXPECT_DOUBLE_EQ(cover.floor_ms(), 0.028);       // 2 x 3 + 2 x 11
  EXPECT_DOUBLE_EQ(cover.open_floor_ms(), 0.040);  // 2 x (1 + 5 + 8 + 6)
  EXPECT_NE(op_named(cover, "attn.core").reason.find("attention"), std::string::npos);
  EXPECT_NE(op_named(cover, "attn.norm").reason.find("norms"), std::string::npos);
  EXPECT_NE(op_named(cover, "attn.all_reduce").reason.find("bench link"), std::string::npos);
  EXPECT_NE(op_named(cover, "lm_head").reason.find("int8 weights"), std::string::npos);
}

TEST(CoverTest, ARowOfAnotherShapeCoversNothing) {
  GpuRow wider = layer_row(4, 1);
  wider.n = 16;
  GpuRow fewer = layer_row(4, 1);
  fewer.experts = 4;
  GpuRow other = layer_row(4, 1);
  other.format = "mxfp4";
  GpuRow products = layer_row(4, 1);
  products.part = "products";
  const KernelCover cover =
      cover_of(step_by_hand(), eight_experts(), {wider, fewer, other, products});
  EXPECT_EQ(cover.covered(), 0U);
  EXPECT_EQ(cover.ms(), 0);
  EXPECT_EQ(op_named(cover, "attn.q").reason, "it was not timed");
}

TEST(CoverTest, ARowThatFailedSaysWhy) {
  GpuRow failed = dense_row(4, 1);
  failed.time_us.reset();
  failed.error = "out of memory";
  const KernelCover cover = cover_of(step_by_hand(), eight_experts(), {failed});
  EXPECT_EQ(op_named(cover, "attn.q").reason, "it was not timed: out of memory");
}

TEST(CoverTest, FarFromWhatWasTimedNothingIsKnown) {
  const KernelCover cover =
      cover_of(step_by_hand(), eight_experts(), {dense_row(16, 9), dense_row(32, 10)});
  EXPECT_FALSE(op_named(cover, "attn.q").time_us);
  EXPECT_NE(op_named(cover, "attn.q").reason.find("ran 4 tokens"), std::string::npos);
}

TEST(CoverTest, ExpertsOfOtherRanksAndWideOnesHaveNoKernel) {
  Deployment spread = eight_experts();
  spread.layout = {.tp = 2, .ep = 2};
  const auto reason_in = [](const Step& step, const Deployment& deployment) {
    return op_named(cover_of(step, deployment, {layer_row(4, 10)}), "moe.gate_up + moe.down")
        .reason;
  };
  EXPECT_NE(reason_in(step_by_hand(), spread).find("expert parallelism"), std::string::npos);
  Step wide = step_by_hand();
  wide.ops[4].format = wide.ops[5].format = "fp8 x fp8";
  EXPECT_NE(reason_in(wide, eight_experts()).find("fp8 weights"), std::string::npos);
  Step ragged = step_by_hand();
  ragged.ops[5].shape.k = 9;
  EXPECT_NE(reason_in(ragged, eight_experts()).find("one layer"), std::string::npos);
}

TEST(CoverTest, BlockScaledFp8IsTimedAsFp8) {
  Step step = step_by_hand();
  step.ops[1].format = "fp8-block128 x fp8-block128";
  GpuRow row = dense_row(4, 6);
  row.format = "fp8";
  EXPECT_EQ(cover_of(step, eight_experts(), {row}).covered(), 1U);
}

TEST(CoverTest, TokensAreWholeAndAtLeastOne) {
  Step step = step_by_hand();
  step.ops[1].shape.m = 0.3;
  EXPECT_EQ(rank_products(step, eight_experts())[1].tokens, 1);
  step.ops[1].shape.m = 57.4;
  EXPECT_EQ(rank_products(step, eight_experts())[1].tokens, 57);
}

}  // namespace
}  // namespace nibble::diagnose
