#include "engine/logits.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "base/stats.h"

namespace nibble::engine {
namespace {

TEST(Logits, ExponentialsAreWithinTheirBound) {
  std::vector<float> logits;
  for (double logit = 0; logit > -690; logit -= 0.0371) {
    logits.push_back(static_cast<float>(logit));
  }
  std::vector<double> weights(logits.size());
  const double sum = exponentials(logits, {}, weights);
  double expected_sum = 0;
  for (std::size_t index = 0; index < logits.size(); ++index) {
    const double expected = std::exp(static_cast<double>(logits[index]));
    ASSERT_NEAR(weights[index] / expected, 1, 1e-14) << logits[index];
    expected_sum += expected;
  }
  EXPECT_EQ(weights[0], 1);
  EXPECT_NEAR(sum / expected_sum, 1, 1e-13);
  const std::vector<float> far = {-701, -std::numeric_limits<float>::infinity(), -1};
  std::vector<double> three(3);
  EXPECT_NEAR(exponentials(far, {}, three), std::exp(-1), 1e-15);
  EXPECT_EQ(three[0], 0);
  EXPECT_EQ(three[1], 0);
  EXPECT_EQ(exponentials(far, {.least = 0.5}, three), 0) << "below the least weight";
}

TEST(Logits, EveryInstructionSetGivesTheSameBits) {
  Random random(8);
  for (const std::size_t size : {1, 15, 16, 17, 1000}) {
    std::vector<float> logits(size);
    for (float& logit : logits) logit = static_cast<float>(-random.uniform() * 30);
    const Exponents exponents{.largest = 0, .scale = 1.37, .least = 1e-9};
    std::vector<double> expected(size);
    const double sum = exponentials(logits, exponents, expected, Isa::kPortable);
    for (const Isa isa : usable_isas()) {
      std::vector<double> weights(size);
      EXPECT_EQ(exponentials(logits, exponents, weights, isa), sum) << to_string(isa);
      EXPECT_EQ(weights, expected) << to_string(isa);
    }
  }
}

}  // namespace
}  // namespace nibble::engine
