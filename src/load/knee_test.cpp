#include "load/knee.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>

namespace nibble::load {
namespace {

using CurveOf = std::function<double(double)>;

const std::vector<double> kDoublings = {1, 2, 4, 8, 16, 32, 64, 128, 256};
const std::vector<double> kFine = {8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};

std::vector<KneeLevel> sweep(const std::vector<double>& levels, const CurveOf& curve,
                             double noise = 0, std::uint64_t seed = 1,
                             std::optional<double> half_width = 0.02) {
  Random random(seed);
  std::vector<KneeLevel> result;
  for (const double n : levels) {
    const double normal = normal_quantile(std::clamp(random.uniform(), 1e-12, 1 - 1e-12));
    result.push_back({n, curve(n) * (1 + noise * normal), half_width});
  }
  return result;
}

double line(double n) {
  return 50 * n;
}
double flat_from_32(double n) {
  return 50 * std::min(n, 32.0);
}
double falling_from_32(double n) {
  return n <= 32 ? 50 * n : 1600 * std::pow(32 / n, 0.25);
}
// Saturating: a doubling from n gains 2 (K + n) / (K + 2 n) - 1, below 5 % from n = 9.5 K on.
double soft_knee_at_4(double n) {
  return 200 * n / (n + 4);
}
// Between the two: bends around 16 within an octave or so.
double bend_at_16(double n) {
  return 50 * n / std::sqrt(1 + n * n / 256);
}

// Steps of the sweep between the knee found and the one that the curve has.
int steps_off(const std::vector<double>& levels, double found, double expected) {
  const auto at = std::find(levels.begin(), levels.end(), found);
  const auto right = std::find(levels.begin(), levels.end(), expected);
  EXPECT_NE(at, levels.end());
  return static_cast<int>(std::abs(at - right));
}

TEST(Knee, ScriptedCurvesWithoutNoise) {
  for (const auto& levels : {kDoublings, kFine}) {
    EXPECT_EQ(find_knee(sweep(levels, flat_from_32)).concurrency, 32);
    const Knee falling = find_knee(sweep(levels, falling_from_32));
    EXPECT_EQ(falling.concurrency, 32);
    EXPECT_TRUE(falling.declines);
    EXPECT_EQ(falling.best_concurrency, 32);
  }
  // 9.5 x 4 = 38: the first level above it.
  EXPECT_EQ(find_knee(sweep(kDoublings, soft_knee_at_4)).concurrency, 64);
  EXPECT_FALSE(find_knee(sweep(kDoublings, soft_knee_at_4)).declines);
}

TEST(Knee, NoneOnAStraightLine) {
  const Knee knee = find_knee(sweep(kDoublings, line));
  EXPECT_FALSE(knee.concurrency);
  EXPECT_NE(knee.reason.find("still grows at 256"), std::string::npos);
  for (const Gain& gain : knee.gains) {
    EXPECT_NEAR(gain.per_doubling, 1, 1e-9);
    EXPECT_FALSE(gain.may_be_flat);
  }
  // Growth that slows down but goes on is none either: 20 % a doubling.
  const CurveOf slow = [](double n) { return 100 * std::pow(1.2, std::log2(n)); };
  EXPECT_FALSE(find_knee(sweep(kDoublings, slow)).concurrency);
}

// Of 100 draws, how many miss the knee or are more than a step off.
int failures(const std::vector<double>& levels, const CurveOf& curve, double expected, double noise,
             double half_width) {
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Knee knee = find_knee(sweep(levels, curve, noise, seed, half_width));
    if (!knee.concurrency || steps_off(levels, *knee.concurrency, expected) > 1) ++failed;
  }
  return failed;
}

TEST(Knee, FivePercentNoise) {
  // Whether levels know of their noise (half width 1.96 x 5 %) or claim 2 %.
  for (const double half_width : {0.098, 0.02}) {
    EXPECT_EQ(failures(kDoublings, flat_from_32, 32, 0.05, half_width), 0) << half_width;
    EXPECT_EQ(failures(kDoublings, falling_from_32, 32, 0.05, half_width), 0) << half_width;
    EXPECT_EQ(failures(kFine, falling_from_32, 32, 0.05, half_width), 0) << half_width;
    EXPECT_LE(failures(kFine, flat_from_32, 32, 0.05, half_width), 2) << half_width;
  }
  // The curve without noise gains 26 % from 16, 8.5 % from 32 and 2.3 % from 64.
  EXPECT_LE(failures(kDoublings, bend_at_16, 64, 0.05, 0.098), 4);
}

TEST(Knee, FivePercentNoiseInventsNoneOnALine) {
  for (const auto& levels : {kDoublings, kFine}) {
    for (const double half_width : {0.098, 0.02}) {
      int invented = 0;
      for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        invented += find_knee(sweep(levels, line, 0.05, seed, half_width)).concurrency ? 1 : 0;
      }
      EXPECT_EQ(invented, 0) << levels.size() << " " << half_width;
    }
  }
}

TEST(Knee, ASoftKneeUnderNoiseIsVagueAndSaysSo) {
  // Gains of 20, 11, 6 and 3 % a doubling: noise of 2 % can tell them apart; noise of 5 %, 7 % in
  // each gain, cannot, and the interval shows it.
  EXPECT_LE(failures(kDoublings, soft_knee_at_4, 64, 0.02, 0.04), 5);
  EXPECT_LE(failures(kDoublings, soft_knee_at_4, 64, 0.05, 0.098), 24);
  int held = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Knee knee = find_knee(sweep(kDoublings, soft_knee_at_4, 0.05, seed, 0.098));
    held += knee.interval && knee.interval->low <= 64 && 64 <= knee.interval->high ? 1 : 0;
  }
  EXPECT_GE(held, 85);
}

TEST(Knee, IntervalHoldsTheTruth) {
  int held = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Knee knee = find_knee(sweep(kDoublings, flat_from_32, 0.05, seed, 0.098));
    ASSERT_TRUE(knee.interval);
    EXPECT_LE(knee.interval->low, *knee.concurrency);
    EXPECT_GE(knee.interval->high, *knee.concurrency);
    held += knee.interval->low <= 32 && 32 <= knee.interval->high ? 1 : 0;
  }
  EXPECT_GE(held, 90);
}

TEST(Knee, GainsByHand) {
  // 100 at 4, 150 at 16: two doublings, sqrt(1.5) - 1 each. Half widths of 1.96 %: errors of 1 %,
  // so the logarithm of the ratio is known to 1.96 x sqrt(2) %, half of that a doubling.
  const Knee knee = find_knee({{4, 100, 0.0196}, {16, 150, 0.0196}, {64, 150, 0.0196}});
  ASSERT_EQ(knee.gains.size(), 2U);
  EXPECT_NEAR(knee.gains[0].per_doubling, std::sqrt(1.5) - 1, 1e-9);
  const double half = 0.0196 * std::sqrt(2.0) / 2;
  EXPECT_NEAR(knee.gains[0].interval.low, std::sqrt(1.5) * std::exp(-half) - 1, 1e-5);
  EXPECT_NEAR(knee.gains[0].interval.high, std::sqrt(1.5) * std::exp(half) - 1, 1e-5);
  EXPECT_FALSE(knee.gains[0].may_be_flat);
  EXPECT_TRUE(knee.gains[1].may_be_flat);
  EXPECT_EQ(knee.concurrency, 16);
  EXPECT_EQ(knee.for_90, 16);
}

TEST(Knee, OddSweeps) {
  EXPECT_FALSE(find_knee({}).concurrency);
  EXPECT_NE(find_knee({}).reason, "");
  EXPECT_FALSE(find_knee({{1, 10}, {2, 10}}).concurrency);
  EXPECT_FALSE(find_knee({{1, 0}, {2, -1}, {0, 5}, {-4, 5}, {8, std::nan("")}}).concurrency);
  // Unsorted, doubled and failed levels.
  const Knee knee = find_knee({{64, 800}, {8, 400}, {16, 790}, {16, 810}, {32, 0}, {4, 200}});
  EXPECT_EQ(knee.concurrency, 16);
  // Flat from the start.
  EXPECT_EQ(find_knee(sweep(kDoublings, [](double) { return 7.0; })).concurrency, 1);
  // A last level that is too near to say anything.
  EXPECT_FALSE(find_knee({{1, 100, 0.1}, {2, 200, 0.1}, {2.1, 195, 0.1}}).concurrency);
}

TEST(Knee, Document) {
  const Json json = to_json(find_knee(sweep(kDoublings, flat_from_32)));
  EXPECT_EQ(json.find("concurrency")->as_number(), 32);
  EXPECT_EQ(json.find("gains")->as_array().size(), 8U);
  EXPECT_TRUE(to_json(find_knee({})).find("concurrency")->is_null());
}

}  // namespace
}  // namespace nibble::load
