#include "bench/model_shapes.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "model/config.h"

namespace nibble {
namespace {

Deployment deployment_of(std::string_view model, std::int64_t tp) {
  Deployment deployment{.model = *load_model(std::string(model))};
  deployment.machine = *load_machine("h100");
  deployment.layout.tp = tp;
  return deployment;
}

const BenchShape* find(const ModelShapes& shapes, std::string_view name) {
  for (const BenchShape& shape : shapes.shapes) {
    if (shape.name == name) return &shape;
  }
  return nullptr;
}

// GLM-5: hidden 6,144, 256 experts of intermediate 2,048, 8 a token (its config.json), cut by 8.
TEST(ModelShapes, AreThoseOfOneRank) {
  const auto shapes = model_shapes(deployment_of("glm-5-nvfp4", 8), {1, 64}, 64e9);
  ASSERT_TRUE(shapes.ok()) << shapes.error().message;
  const BenchShape* gate_up = find(*shapes, "moe.gate_up");
  ASSERT_NE(gate_up, nullptr);
  EXPECT_EQ(gate_up->n, 2 * 2048 / 8);
  EXPECT_EQ(gate_up->k, 6144);
  EXPECT_EQ(gate_up->experts, 256);
  EXPECT_EQ(gate_up->top_k, 8);
  EXPECT_EQ(gate_up->format, Format::kNvfp4);
  EXPECT_EQ(gate_up->tokens, (std::vector<std::int64_t>{1, 64}));
  EXPECT_EQ(gate_up->note, "");
  const BenchShape* down = find(*shapes, "moe.down");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->n, 6144);
  EXPECT_EQ(down->k, 2048 / 8);
  ASSERT_NE(find(*shapes, "attn.out"), nullptr);
  EXPECT_EQ(find(*shapes, "attn.out")->experts, 1);
}

TEST(ModelShapes, AreDifferentFromEachOther) {
  const auto shapes = model_shapes(deployment_of("glm-5-nvfp4", 8), {1}, 64e9);
  ASSERT_TRUE(shapes.ok());
  std::vector<std::string> seen;
  for (const BenchShape& shape : shapes->shapes) {
    seen.push_back(fmt::format("{} {} {} {} {}", to_string(shape.format),
                               to_string(shape.activations), shape.experts, shape.n, shape.k));
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

// An expert's gate and up on one rank of one: 4,096 x 6,144 x 9/16 = 14,155,776 B; half of 2 GB
// holds 70.
TEST(ModelShapes, ExpertsBeyondTheMemoryAreLeftOutAndSaidSo) {
  const auto shapes = model_shapes(deployment_of("glm-5-nvfp4", 1), {1}, 2e9);
  ASSERT_TRUE(shapes.ok());
  const BenchShape* gate_up = find(*shapes, "moe.gate_up");
  ASSERT_NE(gate_up, nullptr);
  EXPECT_EQ(gate_up->experts, 70);
  EXPECT_NE(gate_up->note.find("70 of the model's 256"), std::string::npos);
}

TEST(FormatPair, ReadsWhatTheLedgerWrites) {
  const auto pair = parse_format_pair("nvfp4 x bf16");
  ASSERT_TRUE(pair.has_value());
  EXPECT_EQ(pair->weights, Format::kNvfp4);
  EXPECT_EQ(pair->activations, Format::kBf16);
  for (const char* text : {"bf16", "", " x ", "nvfp4 x ", "nvfp4 x abacus"}) {
    EXPECT_FALSE(parse_format_pair(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace nibble
