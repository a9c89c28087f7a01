#include "kernels/moe/vector_code.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "kernels/moe/test_inputs.h"

namespace nibble {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> exponentials(Isa isa, std::vector<float> x) {
  const std::size_t count = x.size();
  x.resize(static_cast<std::size_t>(rounded_to_lanes(static_cast<std::int64_t>(count))));
  std::vector<float> y(x.size());
  vector_code(isa).exponential(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  y.resize(count);
  return y;
}

// Every 997th fp32 number of either sign up to where exp leaves fp32's normal range.
std::vector<float> normal_range() {
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(88.7F); bits += 997 * 16) {
    x.push_back(std::bit_cast<float>(bits));
    if (x.back() < 87.3F) x.push_back(-x.back());
  }
  return x;
}

TEST(VectorCode, ExponentialIsWithinOneAndAHalfUnitsInTheLastPlace) {
  const std::vector<float> x = normal_range();
  ASSERT_GT(x.size(), 100000U);
  for (const Isa isa : usable_isas()) {
    const std::vector<float> y = exponentials(isa, x);
    double worst = 0;
    for (std::size_t at = 0; at < x.size(); ++at) {
      const double exact = std::exp(static_cast<double>(x[at]));
      const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
      worst = std::max(worst, std::abs(static_cast<double>(y[at]) - exact) / unit);
    }
    EXPECT_LT(worst, 1.5) << to_string(isa);
  }
}

TEST(VectorCode, ExponentialOutsideTheNormalRange) {
  for (const Isa isa : usable_isas()) {
    const std::vector<float> y = exponentials(
        isa, {0.0F, -0.0F, 88.8F, 1000, kInfinity, -104, -1000, -kInfinity, -100, std::nanf("")});
    EXPECT_EQ(y[0], 1) << to_string(isa);
    EXPECT_EQ(y[1], 1) << to_string(isa);
    for (int at : {2, 3, 4}) EXPECT_EQ(y[static_cast<std::size_t>(at)], kInfinity) << at;
    for (int at : {5, 6, 7}) EXPECT_EQ(y[static_cast<std::size_t>(at)], 0) << at;
    // Subnormal: e^-100 = 3.72e-44 is 26.5 of 2^-149.
    EXPECT_NEAR(static_cast<double>(y[8]), std::exp(-100.0), 0x1p-149) << to_string(isa);
    EXPECT_TRUE(std::isnan(y[9])) << to_string(isa);
  }
}

TEST(VectorCode, ExponentialHasTheSameBitsOnEveryInstructionSet) {
  std::vector<float> x = normal_range();
  for (float low = -104; low < -87; low += 0.001F) x.push_back(low);
  for (const float corner :
       {0.0F, -0.0F, 1e-45F, 1e30F, -1e30F, kInfinity, -kInfinity, 88.72284F}) {
    x.push_back(corner);
  }
  const std::vector<float> expected = exponentials(Isa::kPortable, x);
  for (const Isa isa : usable_isas()) {
    EXPECT_TRUE(same_bits(exponentials(isa, x), expected)) << to_string(isa);
  }
}

TEST(VectorCode, ScoresAreThoseOfTheDefinition) {
  Random random(5);
  constexpr std::int64_t kCount = 48;
  std::vector<float> x = gaussian(random, kCount, 3);
  for (std::size_t at = 40; at < x.size(); ++at) x[at] = -kInfinity;  // padding
  double sum = 0;
  for (const float value : x) sum += std::exp(static_cast<double>(value));
  for (const Isa isa : usable_isas()) {
    std::vector<float> y(kCount);
    vector_code(isa).softmax(x.data(), y.data(), kCount);
    for (std::size_t at = 0; at < x.size(); ++at) {
      // exp: 1.5 units; the difference before it: x up to 16 rounds by 2^-21; sum and quotient.
      const double exact = std::exp(static_cast<double>(x[at])) / sum;
      EXPECT_NEAR(static_cast<double>(y[at]), exact, 0x1p-20 * exact) << to_string(isa) << at;
    }
    vector_code(isa).sigmoid(x.data(), y.data(), kCount);
    for (std::size_t at = 0; at < x.size(); ++at) {
      const double exact = 1 / (1 + std::exp(-static_cast<double>(x[at])));
      EXPECT_NEAR(static_cast<double>(y[at]), exact, 0x1p-21 * exact) << to_string(isa) << at;
    }
  }
}

TEST(VectorCode, ScoresHaveTheSameBitsOnEveryInstructionSet) {
  Random random(6);
  for (const std::int64_t count : {16, 32, 256, 1024}) {
    const std::vector<float> x = gaussian(random, count, 20);
    std::vector<float> softmax(x.size());
    std::vector<float> sigmoid(x.size());
    std::vector<float> y(x.size());
    vector_code(Isa::kPortable).softmax(x.data(), softmax.data(), count);
    vector_code(Isa::kPortable).sigmoid(x.data(), sigmoid.data(), count);
    for (const Isa isa : usable_isas()) {
      vector_code(isa).softmax(x.data(), y.data(), count);
      EXPECT_TRUE(same_bits(y, softmax)) << to_string(isa) << " " << count;
      vector_code(isa).sigmoid(x.data(), y.data(), count);
      EXPECT_TRUE(same_bits(y, sigmoid)) << to_string(isa) << " " << count;
    }
  }
}

}  // namespace
}  // namespace nibble
