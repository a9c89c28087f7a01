#include "bench/gemm_check.h"

#include <cmath>
#include <gtest/gtest.h>

#include "bench/weights.h"
#include "kernels/gemm/reference.h"

namespace nibble {
namespace {

struct CheckScene {
  QuantizedBytes bytes = random_matrix(Format::kNvfp4, 40, 96, 3);
  QuantizedMatrix matrix = bytes.view();
  std::vector<float> x;
  std::vector<float> y;

  CheckScene() {
    Random random(4);
    x = gaussian(random, 96);
    // Straight from the dequantized matrix, without the reference's own loop.
    const std::vector<float> weights = dequantize(matrix);
    const std::vector<double> rounded = rounded_activations(x, 96, Format::kNvfp4);
    for (std::size_t row = 0; row < 40; ++row) {
      double sum = 0;
      for (std::size_t at = 0; at < 96; ++at) {
        sum += static_cast<double>(weights[row * 96 + at]) * rounded[at];
      }
      y.push_back(static_cast<float>(sum));
    }
  }
  ProductCheck check(std::int64_t first, std::int64_t rows) const {
    return {.matrix = matrix,
            .activations = Format::kNvfp4,
            .x = x,
            .y = y,
            .rows = rows,
            .first_row = first};
  }
};

TEST(CheckProduct, ARightResultPasses) {
  const CheckScene scene;
  EXPECT_LT(product_error(scene.check(0, 40)), 1e-6);
  EXPECT_TRUE(check_product(scene.check(0, 40), "here").ok());
  EXPECT_TRUE(check_product(scene.check(30, 64), "here").ok());  // fewer rows are left
}

TEST(CheckProduct, AWrongValueFailsWithinTheRowsLookedAt) {
  CheckScene scene;
  scene.y[20] *= 1.001F;
  EXPECT_TRUE(check_product(scene.check(0, 20), "here").ok());
  const Result<> wrong = check_product(scene.check(16, 8), "kernel z");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().kind, ErrorKind::kRun);
  EXPECT_NE(wrong.error().message.find("kernel z"), std::string::npos);
}

TEST(CheckProduct, WhatIsNoNumberFails) {
  CheckScene scene;
  scene.y[1] = std::nanf("");
  EXPECT_FALSE(check_product(scene.check(0, 8), "here").ok());
  scene.y[1] = INFINITY;
  EXPECT_FALSE(check_product(scene.check(0, 8), "here").ok());
}

TEST(RowsOf, KeepTheFactorsOfTheirSegments) {
  const CheckScene scene;
  QuantizedMatrix two = scene.matrix;
  two.segments = {{0, 2.0F}, {10, 3.0F}, {30, 5.0F}};
  EXPECT_EQ(rows_of(two, 0, 5).segments, (std::vector<MatrixSegment>{{0, 2.0F}}));
  EXPECT_EQ(rows_of(two, 10, 5).segments, (std::vector<MatrixSegment>{{0, 3.0F}}));
  EXPECT_EQ(rows_of(two, 12, 20).segments, (std::vector<MatrixSegment>{{0, 3.0F}, {18, 5.0F}}));
  const std::vector<float> all = dequantize(two);
  const std::vector<float> part = dequantize(rows_of(two, 12, 20));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 12 * 96));
}

TEST(ProductErrorLimit, GrowsWithK) {
  // 2,048 / 32 + 8 additions of 2^-24
  EXPECT_DOUBLE_EQ(product_error_limit(Format::kNvfp4, Format::kNvfp4, 2048), 72 * 0x1p-24);
  EXPECT_GT(product_error_limit(Format::kNvfp4, Format::kInt8, 2048), 1e-3);
  EXPECT_LT(product_error_limit(Format::kNvfp4, Format::kInt8, 2048), 2e-3);
}

}  // namespace
}  // namespace nibble
