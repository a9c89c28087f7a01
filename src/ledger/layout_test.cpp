#include "ledger/layout.h"

#include <gtest/gtest.h>

#include "ledger/test_deployments.h"

namespace nibble {
namespace {

ModelSpec model(std::string_view name) {
  return load_model(name).value();
}

void expect_refused(const ParallelLayout& layout, const char* name, const char* words) {
  const Result<> result = validate(layout, model(name));
  ASSERT_FALSE(result.ok()) << layout.describe() << " of " << name;
  EXPECT_NE(result.error().message.find(words), std::string::npos) << result.error().message;
}

TEST(Layout, GroupsOfGpus) {
  const ParallelLayout sglang{.tp = 8, .ep = 8, .dp_attention = true};
  EXPECT_EQ(sglang.gpus(), 8);
  EXPECT_EQ(sglang.attention_tp(), 1);
  EXPECT_EQ(sglang.attention_dp(), 8);
  EXPECT_EQ(sglang.moe_tp(), 1);
  const ParallelLayout vllm{.tp = 2, .dp = 4, .ep = 4};
  EXPECT_EQ(vllm.gpus(), 8);
  EXPECT_EQ(vllm.attention_tp(), 2);
  EXPECT_EQ(vllm.attention_dp(), 4);
  EXPECT_EQ(vllm.moe_tp(), 2);
  const ParallelLayout stages{.tp = 4, .pp = 2};
  EXPECT_EQ(stages.gpus(), 8);
  EXPECT_EQ(stages.in_flight(), 2);
}

TEST(Layout, LegalOnes) {
  EXPECT_TRUE(validate({.tp = 8}, model("glm-5-nvfp4")).ok());
  EXPECT_TRUE(validate({.tp = 4, .pp = 2}, model("glm-5-nvfp4")).ok());
  EXPECT_TRUE(validate({.tp = 8, .ep = 8, .dp_attention = true}, model("deepseek-r1")).ok());
  EXPECT_TRUE(validate({.tp = 8}, model("qwen3-235b-a22b")).ok());  // 4 KV heads, each on two ranks
  EXPECT_TRUE(validate({.tp = 8}, model("gpt-oss-120b")).ok());
}

TEST(Layout, WhatDoesNotDivideIsNamedWithItsNumbers) {
  expect_refused({.tp = 7}, "glm-5-nvfp4", "attention head count 64 does not divide by --tp 7");
  expect_refused({.tp = 3}, "gpt-oss-20b", "64 does not divide");
  expect_refused({.tp = 8, .ep = 3}, "glm-5-nvfp4", "--ep 3 must divide tp x dp = 8 x 1 = 8");
  expect_refused({.tp = 512, .ep = 512, .dp_attention = true}, "glm-5-nvfp4",
                 "--ep 512 is larger than the 256 experts");
}

TEST(Layout, ZeroAndNegativeNumbers) {
  expect_refused({.tp = 0}, "glm-5-nvfp4", "--tp is 0");
  expect_refused({.pp = -1}, "glm-5-nvfp4", "--pp is -1");
  expect_refused({.ep = 0}, "glm-5-nvfp4", "--ep is 0");
  expect_refused({.dp = -8}, "glm-5-nvfp4", "--dp is -8");
  expect_refused({.pp = 2, .microbatches = -2}, "glm-5-nvfp4", "--pp-microbatches is -2");
}

TEST(Layout, WhatMakesNoSense) {
  expect_refused({.pp = 79}, "glm-5-nvfp4", "--pp 79 is larger than the 78 layers");
  expect_refused({.tp = 1, .dp_attention = true}, "glm-5-nvfp4",
                 "--dp-attention needs --tp of at least 2");
  expect_refused({.tp = 8, .microbatches = 2}, "glm-5-nvfp4", "--pp-microbatches 2 needs --pp");
  expect_refused({.tp = 1000000}, "glm-5-nvfp4", "the most is 65536");
}

TEST(Layout, Words) {
  EXPECT_EQ((ParallelLayout{.tp = 8}).describe(), "TP8");
  EXPECT_EQ((ParallelLayout{.tp = 4, .pp = 2}).describe(), "TP4 x PP2 (2 microbatches)");
  EXPECT_EQ((ParallelLayout{.tp = 8, .ep = 8, .dp_attention = true}).describe(),
            "TP8 + DP attention, EP8");
}

}  // namespace
}  // namespace nibble
