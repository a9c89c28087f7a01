#include "bench/weights.h"

#include <cmath>
#include <gtest/gtest.h>

namespace nibble {
namespace {

double root_mean_square(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(Gaussian, HasMeanZeroAndDeviationOne) {
  Random random(1);
  const std::vector<float> values = gaussian(random, 20001);
  ASSERT_EQ(values.size(), 20001U);
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  EXPECT_NEAR(sum / 20001, 0, 0.03);  // four deviations of 1 / sqrt(20001)
  EXPECT_NEAR(root_mean_square(values), 1, 0.02);
}

TEST(RandomMatrix, IsAMatrixOfItsFormatThatLooksLikeAModels) {
  for (const Format format : {Format::kNvfp4, Format::kMxfp4, Format::kBf16}) {
    for (const std::int64_t columns : {2, 48, 90, 512}) {
      const QuantizedBytes matrix = random_matrix(format, 37, columns, 9);
      const Result<> valid = check_matrix(matrix.view());
      ASSERT_TRUE(valid.ok()) << valid.error().message;
      // Weights of deviation 0.02; 74 of them at least, so within 40 %.
      EXPECT_NEAR(root_mean_square(dequantize(matrix.view())), 0.02, 0.008)
          << to_string(format) << " " << columns;
    }
  }
}

TEST(RandomMatrix, DependsOnItsSeedAlone) {
  const QuantizedBytes one = random_matrix(Format::kNvfp4, 64, 128, 5);
  EXPECT_EQ(one.codes, random_matrix(Format::kNvfp4, 64, 128, 5).codes);
  EXPECT_EQ(one.scales, random_matrix(Format::kNvfp4, 64, 128, 5).scales);
  EXPECT_NE(one.codes, random_matrix(Format::kNvfp4, 64, 128, 6).codes);
}

// Uniform scales would hide a kernel that takes the scale of another block.
TEST(RandomMatrix, HasManyScales) {
  const QuantizedBytes matrix = random_matrix(Format::kNvfp4, 64, 512, 5);
  std::vector<bool> seen(256, false);
  for (const std::uint8_t scale : matrix.scales) seen[scale] = true;
  EXPECT_GT(std::count(seen.begin(), seen.end(), true), 10);
}

}  // namespace
}  // namespace nibble
