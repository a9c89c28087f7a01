#include "load/quantiles.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace nibble::load {
namespace {

const std::vector<double> kUsual = {0.5, 0.9, 0.95, 0.99};

Summary summary_of(const std::vector<double>& values, std::size_t most_exact = 1000000) {
  Distribution distribution(most_exact);
  for (const double value : values) distribution.add(value);
  return distribution.summarize(kUsual);
}

void expect_quantiles(const Summary& summary, const std::vector<double>& expected) {
  ASSERT_EQ(summary.quantiles.size(), expected.size());
  for (std::size_t index = 0; index < expected.size(); ++index) {
    EXPECT_NEAR(summary.quantiles[index].value, expected[index], 1e-12) << kUsual[index];
  }
}

// Expected values: numpy 2.4 percentile(values, [50, 90, 95, 99]) and std(values).
TEST(Distribution, OneValue) {
  const Summary summary = summary_of({4.5});
  EXPECT_EQ(summary.n, 1);
  EXPECT_EQ(summary.std, 0);
  expect_quantiles(summary, {4.5, 4.5, 4.5, 4.5});
}

TEST(Distribution, TwoValues) {
  const Summary summary = summary_of({4.5, 1.5});
  EXPECT_EQ(summary.std, 1.5);
  EXPECT_EQ(summary.min, 1.5);
  EXPECT_EQ(summary.max, 4.5);
  expect_quantiles(summary, {3.0, 4.2, 4.35, 4.47});
}

TEST(Distribution, ThreeValues) {
  // Positions 1, 1.8, 1.9, 1.98 among 1, 2, 10.
  expect_quantiles(summary_of({10, 1, 2}), {2, 8.4, 9.2, 9.84});
}

TEST(Distribution, Ties) {
  const Summary summary = summary_of({5.5, 1, 1, 7, 3.25, 3.25, 9});
  expect_quantiles(summary, {3.25, 7.8, 8.4, 8.88});
  EXPECT_NEAR(summary.mean, 4.285714285714286, 1e-15);
  expect_quantiles(summary_of({2, 2, 2, 2}), {2, 2, 2, 2});
}

TEST(Distribution, HundredValues) {
  // (37 i mod 100) / 2: each of 0, 0.5, ..., 49.5 once, so the positions 49.5, 89.1, 94.05, 98.01
  // halved; variance (100^2 - 1) / 12 / 4.
  std::vector<double> values;
  for (int index = 0; index < 100; ++index) values.push_back(index * 37 % 100 * 0.5);
  const Summary summary = summary_of(values);
  expect_quantiles(summary, {24.75, 44.55, 47.025, 49.005});
  EXPECT_NEAR(summary.std, std::sqrt(9999.0 / 48), 1e-12);
}

TEST(Distribution, CountsAreRepeats) {
  // numpy.repeat([10, 2, 30], [3, 1, 2]) = 10 10 10 2 30 30: mean 92/6, median 10, P90 30.
  Distribution distribution;
  distribution.add(10, 3);
  distribution.add(2);
  distribution.add(30, 2);
  const Summary summary = distribution.summarize(kUsual);
  EXPECT_EQ(summary.n, 6);
  EXPECT_NEAR(summary.mean, 92.0 / 6, 1e-12);
  EXPECT_EQ(summary.quantiles[0].value, 10);
  EXPECT_EQ(summary.quantiles[1].value, 30);
  EXPECT_NEAR(summary.std, std::sqrt((3 * 100 + 4 + 2 * 900) / 6.0 - std::pow(92.0 / 6, 2)), 1e-12);
}

TEST(Distribution, AddsAfterItWasAsked) {
  Distribution distribution;
  distribution.add(3);
  EXPECT_EQ(distribution.summarize(kUsual).quantiles[0].value, 3);
  distribution.add(1, 2);
  EXPECT_EQ(distribution.summarize(kUsual).quantiles[0].value, 1);
  distribution.add(0);
  EXPECT_EQ(distribution.summarize(kUsual).min, 0);
}

TEST(Distribution, NothingIsNothing) {
  Distribution distribution;
  distribution.add_missing();
  const Summary summary = distribution.summarize(kUsual);
  EXPECT_TRUE(summary.empty());
  EXPECT_EQ(summary.missing, 1);
  EXPECT_TRUE(summary.quantiles.empty());
}

TEST(Distribution, IntervalsAreOrderStatistics) {
  // 1 to n: the value of an order statistic is its rank. Ranks: scipy 1.17 binom, as in
  // QuantileRanks of base.
  const auto interval = [](int n, double q) {
    Distribution distribution;
    for (int value = n; value >= 1; --value) distribution.add(value);
    return distribution.summarize(std::vector<double>{q}).quantiles[0].interval;
  };
  EXPECT_EQ(interval(500, 0.99)->low, 490);
  EXPECT_EQ(interval(500, 0.99)->high, 500);
  EXPECT_EQ(interval(1000, 0.99)->low, 983);
  EXPECT_EQ(interval(1000, 0.99)->high, 997);
  EXPECT_EQ(interval(1000, 0.95)->low, 936);
  EXPECT_EQ(interval(1000, 0.95)->high, 964);
  EXPECT_EQ(interval(100, 0.5)->low, 40);
  EXPECT_EQ(interval(100, 0.5)->high, 61);
}

TEST(Distribution, P99TakesThreeHundredAndSixtyEight) {
  // 0.99^n <= 0.025 from n = ln 0.025 / ln 0.99 = 367.04 on.
  EXPECT_EQ(least_samples(0.99), 368);
  EXPECT_EQ(least_samples(0.95), 72);  // ln 0.025 / ln 0.95 = 71.92
  EXPECT_EQ(least_samples(0.5), 6);    // 2^-6 = 0.0156 <= 0.025 < 2^-5
  EXPECT_EQ(least_samples(0.01), 368);
  for (const int n : {367, 368}) {
    std::vector<double> values(static_cast<std::size_t>(n), 1.0);
    const Summary summary = summary_of(values);
    const Quantile* p99 = summary.find(0.99);
    ASSERT_NE(p99, nullptr);
    EXPECT_EQ(p99->supported(), n == 368);
    EXPECT_EQ(p99->reason.empty(), n == 368);
    EXPECT_EQ(p99->value, 1);  // the number stays, flagged
  }
  EXPECT_NE(summary_of({1}).find(0.99)->reason.find("368"), std::string::npos);
}

TEST(Distribution, ManyValuesGoToBins) {
  // Log-normal values around 10; the exact answer is at hand.
  Random random(11);
  std::vector<double> values;
  for (int index = 0; index < 50000; ++index) {
    values.push_back(10 * std::exp(normal_quantile((random.uniform() + 1e-9) / (1 + 2e-9))));
  }
  const Summary exact = summary_of(values);
  const Summary binned = summary_of(values, 1000);
  EXPECT_FALSE(exact.binned);
  EXPECT_TRUE(binned.binned);
  EXPECT_EQ(binned.n, exact.n);
  EXPECT_NEAR(binned.mean / exact.mean, 1, 1e-12);
  EXPECT_NEAR(binned.std / exact.std, 1, 1e-9);
  EXPECT_EQ(binned.min, exact.min);
  EXPECT_EQ(binned.max, exact.max);
  for (std::size_t index = 0; index < kUsual.size(); ++index) {
    EXPECT_NEAR(binned.quantiles[index].value / exact.quantiles[index].value, 1, 6e-4);
    EXPECT_NEAR(binned.quantiles[index].interval->low / exact.quantiles[index].interval->low, 1,
                6e-4);
  }
}

TEST(Distribution, BinsHoldZerosAndExtremes) {
  Distribution distribution(2);
  for (int index = 0; index < 6; ++index) distribution.add(0);
  distribution.add(1e-9);
  distribution.add(1e12);
  distribution.add(5, 3);
  const Summary summary = distribution.summarize(kUsual);
  EXPECT_TRUE(summary.binned);
  EXPECT_EQ(summary.n, 11);
  EXPECT_EQ(summary.quantiles[0].value, 0);
  EXPECT_NEAR(summary.quantiles[1].value, 5, 5e-3);  // position 9 of 0..10: the last 5
  EXPECT_EQ(summary.max, 1e12);
}

TEST(Distribution, TenMillionValuesInBoundedMemory) {
  Distribution distribution(1000);
  for (int index = 0; index < 10'000'000; ++index) distribution.add(1 + index % 1000 * 1e-3);
  const Summary summary = distribution.summarize(kUsual);
  EXPECT_EQ(summary.n, 10'000'000);
  EXPECT_NEAR(summary.mean, 1.4995, 1e-9);
  EXPECT_NEAR(summary.quantiles[0].value / 1.4995, 1, 1e-3);
}

TEST(Distribution, GroupsHaveWiderIntervals) {
  Distribution distribution;
  for (int value = 0; value <= 10000; ++value) distribution.add(value);
  const Summary alone = distribution.summarize(std::vector<double>{0.5});
  const Summary grouped = distribution.summarize(std::vector<double>{0.5}, 101);
  // Ranks 41 and 61 of 101 (mirror images about 51): shares 0.40 and 0.60 of 10,001 values.
  EXPECT_NEAR(grouped.quantiles[0].interval->low, 4000, 101);
  EXPECT_NEAR(grouped.quantiles[0].interval->high, 6000, 101);
  EXPECT_GT(alone.quantiles[0].interval->low, 4850);
  EXPECT_FALSE(distribution.summarize(std::vector<double>{0.99}, 101).quantiles[0].supported());
}

}  // namespace
}  // namespace nibble::load
