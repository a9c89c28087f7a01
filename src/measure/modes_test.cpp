#include "measure/modes.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <vector>

#include "base/stats.h"

namespace nibble {
namespace {

std::vector<double> draw(std::size_t count, const std::function<double()>& value) {
  std::vector<double> samples;
  while (samples.size() < count) samples.push_back(value());
  return samples;
}

double normal(Random& random) {
  return normal_quantile((static_cast<double>(random.below(1 << 30)) + 0.5) / (1 << 30));
}

TEST(Modes, TwoClearOnesAreFound) {
  Random random(1);
  // 60 % at 100 us and 40 % at 130 us, each with 2 %.
  const std::vector<double> samples = draw(200, [&] {
    const double centre = random.uniform() < 0.6 ? 100 : 130;
    return centre * (1 + 0.02 * normal(random));
  });
  const Modes modes = find_modes(samples);
  EXPECT_TRUE(modes.two);
  EXPECT_NEAR(modes.low, 100, 1);
  EXPECT_NEAR(modes.high, 130, 1);
  EXPECT_NEAR(modes.low_share, 0.6, 0.1);
}

// What has one mode by definition must not be called two: bounded by chance.
TEST(Modes, OneIsRarelyTakenForTwo) {
  Random random(2);
  const std::vector<std::pair<const char*, std::function<double()>>> shapes = {
      {"normal", [&] { return 100 + 20 * normal(random); }},
      {"uniform", [&] { return 50 + 100 * random.uniform(); }},
      {"one-sided tail", [&] { return 100 - 30 * std::log(1 - random.uniform()); }}};
  for (const auto& [name, value] : shapes) {
    for (const std::size_t count : {32U, 50U, 200U}) {
      int two = 0;
      for (int trial = 0; trial < 300; ++trial) two += find_modes(draw(count, value)).two ? 1 : 0;
      EXPECT_LE(two, 9) << name << " of " << count;  // 3 %
    }
  }
}

TEST(Modes, AFewOutliersAreNoMode) {
  std::vector<double> samples = draw(90, [at = 0]() mutable { return 100 + 0.01 * (at++ % 7); });
  for (int outlier = 0; outlier < 10; ++outlier) samples.push_back(300);
  EXPECT_FALSE(find_modes(samples).two);
}

TEST(Modes, ADifferenceThatDoesNotMatterIsNone) {
  std::vector<double> samples;
  for (int pair = 0; pair < 20; ++pair) {
    samples.push_back(100);
    samples.push_back(104);
  }
  EXPECT_FALSE(find_modes(samples).two);  // 4 %
  for (double& sample : samples) sample = sample > 100 ? 106 : 100;
  EXPECT_TRUE(find_modes(samples).two);  // 6 %, no spread at all
}

TEST(Modes, FewOrEqualSamplesHaveOne) {
  EXPECT_FALSE(find_modes({}).two);
  EXPECT_FALSE(find_modes(std::vector<double>{1, 2}).two);
  const std::vector<double> equal(50, 3.0);
  EXPECT_FALSE(find_modes(equal).two);
  EXPECT_EQ(find_modes(equal).low, 3);
  EXPECT_EQ(find_modes(equal).high, 3);
}

}  // namespace
}  // namespace nibble
