#include "engine/models/linear.h"

#include <gtest/gtest.h>

#include "engine/models/embedding.h"
#include "formats/quantize.h"

namespace nibble::engine {
namespace {

// [[1, 2], [3, -4], [0.5, 0]] times (2, 1), plus (10, 20, 30).
TEST(Linear, MultipliesAndAddsItsBiasByHand) {
  ThreadPool pool(1);
  const QuantizedBytes bytes = quantize_bf16(std::vector<float>{1, 2, 3, -4, 0.5, 0}, 3, 2);
  const Result<Linear> linear = Linear::make(bytes.view(), {10, 20, 30}, {}, pool);
  ASSERT_TRUE(linear.ok());
  LinearInputs inputs;
  ASSERT_TRUE(inputs.add(*linear, 2).ok());
  const std::vector<float> x = {2, 1, 0, 1};
  std::vector<float> y(6);
  linear->multiply(x, inputs, y, pool);
  EXPECT_EQ(y, (std::vector<float>{14, 22, 31, 12, 16, 30}));
}

// fp32 input is not rounded to bf16: 1 + 2^-12 stays.
TEST(Linear, Bf16WeightsTakeTheirInputAsItIs) {
  ThreadPool pool(1);
  const QuantizedBytes bytes = quantize_bf16(std::vector<float>{1, 0}, 1, 2);
  const Result<Linear> linear =
      Linear::make(bytes.view(), {}, {.activations = Format::kInt8}, pool);
  ASSERT_TRUE(linear.ok());
  LinearInputs inputs;
  ASSERT_TRUE(inputs.add(*linear, 1).ok());
  const std::vector<float> x = {1 + 0x1p-12F, 1};
  std::vector<float> y(1);
  linear->multiply(x, inputs, y, pool);
  EXPECT_EQ(y[0], 1 + 0x1p-12F);
}

TEST(Linear, OneRoomServesAllOfAWidth) {
  ThreadPool pool(1);
  const std::vector<float> values(64, 1);
  const QuantizedBytes bf16 = quantize_bf16(values, 2, 32);
  const QuantizedBytes nvfp4 = quantize_nvfp4(values, 2, 32);
  const Result<Linear> a = Linear::make(bf16.view(), {}, {}, pool);
  const Result<Linear> b = Linear::make(nvfp4.view(), {}, {}, pool);
  ASSERT_TRUE(a.ok() && b.ok());
  LinearInputs inputs;
  ASSERT_TRUE(inputs.add(*a, 1).ok());
  ASSERT_TRUE(inputs.add(*b, 1).ok());
  ASSERT_TRUE(inputs.add(*a, 3).ok());  // grows
  ASSERT_TRUE(inputs.add(*b, 3).ok());
  const std::vector<float> x(3 * 32, 0.5F);
  for (const Linear* linear : {&*a, &*b}) {
    std::vector<float> y(6);
    linear->multiply(x, inputs, y, pool);
    for (const float value : y) EXPECT_NEAR(value, 16, 1e-5);
  }
}

TEST(Linear, RefusesABiasThatDoesNotFit) {
  ThreadPool pool(1);
  const QuantizedBytes bytes = quantize_bf16(std::vector<float>{1, 2}, 1, 2);
  const Result<Linear> linear = Linear::make(bytes.view(), {1, 2}, {}, pool);
  ASSERT_FALSE(linear.ok());
  EXPECT_EQ(linear.error().message, "a bias of 2 values does not fit a matrix of 1 rows");
}

TEST(Embedding, LooksUpRows) {
  const QuantizedBytes bytes = quantize_bf16(std::vector<float>{1, 2, 3, 4, 5, 6}, 3, 2);
  const Result<Embedding> table = Embedding::make(bytes.view());
  ASSERT_TRUE(table.ok());
  std::vector<float> rows(4);
  table->look_up(std::vector<text::TokenId>{2, 0}, rows);
  EXPECT_EQ(rows, (std::vector<float>{5, 6, 1, 2}));
  const QuantizedBytes nvfp4 = quantize_nvfp4(std::vector<float>(32, 1), 2, 16);
  EXPECT_FALSE(Embedding::make(nvfp4.view()).ok());
}

// sigmoid(0) = 1/2; sigmoid(1 * 2 - 1 * 2 + ln 3) = 3/4.
TEST(WeighRows, ByHand) {
  const std::vector<float> x = {0, 0, 2, 2};
  const std::vector<float> gate = {1, -1};
  std::vector<float> rows = {2, 4, 8, 16};
  weigh_rows({.x = x, .gate = gate, .rows = rows});
  EXPECT_EQ(rows, (std::vector<float>{1, 2, 4, 8}));
  const std::vector<float> tilted = {1.0986123F, 0};
  const std::vector<float> one = {1, 0};
  std::vector<float> row = {8, 16};
  weigh_rows({.x = one, .gate = tilted, .rows = row});
  EXPECT_NEAR(row[0], 6, 1e-5);
  EXPECT_NEAR(row[1], 12, 1e-5);
}

}  // namespace
}  // namespace nibble::engine
