#include "base/stats.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <gtest/gtest.h>
#include <set>

namespace nibble {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> samples;
  for (int value = n; value >= 1; --value) samples.push_back(value);  // order must not matter
  return samples;
}

TEST(Moments, MeanAndVariance) {
  // Mean (2+4+4+4+5+5+7+9)/8 = 5; squared deviations 9+1+1+1+0+0+4+16 = 32; 32/7.
  const std::vector<double> samples = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(mean(samples), 5);
  EXPECT_DOUBLE_EQ(sample_variance(samples), 32.0 / 7);
}

TEST(Moments, VarianceSurvivesALargeOffset) {
  // 1e9 + {0, 1, 2}: the variance is 1; the sum of squares would lose it.
  EXPECT_DOUBLE_EQ(sample_variance(std::vector<double>{1e9, 1e9 + 1, 1e9 + 2}), 1);
}

TEST(Quantile, InterpolatesAsNumpyDoes) {
  const std::vector<double> samples = {40, 10, 30, 20};
  // Position q * (n - 1): 0.25 * 3 = 0.75, thus 10 + 0.75 * 10.
  EXPECT_DOUBLE_EQ(quantile(samples, 0.25), 17.5);
  EXPECT_DOUBLE_EQ(quantile(samples, 0), 10);
  EXPECT_DOUBLE_EQ(quantile(samples, 1), 40);
  EXPECT_DOUBLE_EQ(median(samples), 25);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{7}, 0.99), 7);
  EXPECT_DOUBLE_EQ(quantile(one_to(101), 0.99), 100);  // position 0.99 * 100 = 99: the 100th value
}

TEST(QuantileInterval, MedianOfTen) {
  // P(B <= 1) = (1 + 10) / 1024 = 0.0107 <= 0.025 < P(B <= 2) = 56 / 1024: the 2nd and the 9th.
  const auto interval = quantile_interval(one_to(10), 0.5, 0.95);
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->low, 2);
  EXPECT_EQ(interval->high, 9);
}

TEST(QuantileInterval, ExtremesOfTheSmallestSample) {
  // The extremes of n samples miss the median with probability 2 / 2^n: 1/32 for six, 1/16 for
  // five.
  const auto six = quantile_interval(one_to(6), 0.5, 0.95);
  ASSERT_TRUE(six);
  EXPECT_EQ(six->low, 1);
  EXPECT_EQ(six->high, 6);
  EXPECT_FALSE(quantile_interval(one_to(5), 0.5, 0.95));
  EXPECT_TRUE(quantile_interval(one_to(6), 0.5, 0.96875));  // 1 - 1/32, exactly what six carry
  EXPECT_FALSE(quantile_interval(one_to(6), 0.5, 0.96876));
}

TEST(QuantileInterval, UpperQuantilesUseTheTailThatThereIs) {
  // The largest of n samples exceeds the 0.99 quantile with probability 1 - 0.99^n; that reaches
  // 0.95 at n = ln 0.05 / ln 0.99 = 298.07, thus at 299.
  EXPECT_FALSE(quantile_interval(one_to(298), 0.99, 0.95));
  const auto interval = quantile_interval(one_to(299), 0.99, 0.95);
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->high, 299);
  EXPECT_LT(interval->low, 296);  // 0.99 * 299 = 296
  const auto mirrored = quantile_interval(one_to(299), 0.01, 0.95);
  ASSERT_TRUE(mirrored);
  EXPECT_EQ(mirrored->low, 1);
  EXPECT_EQ(mirrored->high, 300 - interval->low);
}

TEST(QuantileRanks, AreThoseOfTheBinomial) {
  // scipy 1.17: with B = binom(n, q), low is the largest rank with B.cdf(low - 1) <= 0.025 and high
  // the smallest with B.cdf(high - 1) >= 0.975.
  const auto expect = [](std::int64_t n, double q, std::int64_t low, std::int64_t high) {
    const auto ranks = quantile_ranks(n, q, 0.95);
    ASSERT_TRUE(ranks);
    EXPECT_EQ(ranks->low, low) << n << " " << q;
    EXPECT_EQ(ranks->high, high) << n << " " << q;
  };
  expect(100, 0.5, 40, 61);
  expect(1000, 0.95, 936, 964);
  expect(500, 0.99, 490, 500);
  expect(1000, 0.99, 983, 997);
  EXPECT_FALSE(quantile_ranks(0, 0.5, 0.95));
  EXPECT_FALSE(quantile_ranks(-1, 0.5, 0.95));
}

TEST(QuantileInterval, CoversAsOftenAsItSays) {
  // Uniform samples, whose 0.9 quantile is 0.9. 2000 trials at a true coverage of 0.9 or more:
  // fewer than 1747 (mean 1800, deviation 13.4, four of them below) would contradict it.
  Random random(1);
  int covered = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> samples(100);
    for (double& sample : samples) sample = random.uniform();
    const auto interval = quantile_interval(samples, 0.9, 0.9);
    ASSERT_TRUE(interval);
    if (interval->low <= 0.9 && 0.9 <= interval->high) ++covered;
  }
  EXPECT_GT(covered, 1746);
  EXPECT_LT(covered, 1960);  // not needlessly wide
}

TEST(QuantileInterval, RefusesWhatHasNoInterval) {
  EXPECT_FALSE(quantile_interval({}, 0.5, 0.95));
  EXPECT_FALSE(quantile_interval(one_to(100), 0, 0.95));
  EXPECT_FALSE(quantile_interval(one_to(100), 1, 0.95));
  EXPECT_FALSE(quantile_interval(one_to(100), 0.5, 1));
  EXPECT_FALSE(quantile_interval(one_to(100), 0.5, std::nan("")));
}

TEST(StudentT, Quantile) {
  // One and two degrees have closed forms: tan(pi (p - 1/2)) and (2p - 1) sqrt(2 / (4p (1 - p))).
  EXPECT_NEAR(student_t_quantile(0.975, 1), std::tan(M_PI * 0.475), 1e-9);
  EXPECT_NEAR(student_t_quantile(0.975, 2), 0.95 * std::sqrt(2 / (4 * 0.975 * 0.025)), 1e-11);
  // scipy 1.17 scipy.stats.t.ppf.
  EXPECT_NEAR(student_t_quantile(0.975, 19), 2.093024054408263, 1e-11);
  EXPECT_NEAR(student_t_quantile(0.975, 1e6), 1.959966, 1e-6);
  EXPECT_DOUBLE_EQ(student_t_quantile(0.025, 19), -student_t_quantile(0.975, 19));
  EXPECT_EQ(student_t_quantile(0.5, 3), 0);
  EXPECT_TRUE(std::isnan(student_t_quantile(1, 3)));
  EXPECT_TRUE(std::isnan(student_t_quantile(0.9, 0)));
}

TEST(Normal, DistributionFunction) {
  EXPECT_DOUBLE_EQ(normal_cdf(0), 0.5);
  // scipy 1.17 scipy.stats.norm.cdf.
  EXPECT_NEAR(normal_cdf(-1.96), 0.024997895148220435, 1e-16);
  EXPECT_NEAR(normal_cdf(3), 0.9986501019683699, 1e-15);
  EXPECT_NEAR(normal_cdf(-10) / 7.61985302416047e-24, 1, 1e-12);
}

TEST(Normal, Quantile) {
  // scipy 1.17 scipy.stats.norm.ppf.
  EXPECT_NEAR(normal_quantile(1e-300), -37.0470962993612, 1e-9);
  EXPECT_NEAR(normal_quantile(1e-10), -6.361340902404056, 1e-12);
  EXPECT_NEAR(normal_quantile(0.025), -1.9599639845400545, 1e-14);
  EXPECT_NEAR(normal_quantile(0.3), -0.5244005127080409, 1e-14);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-14);
  EXPECT_NEAR(normal_quantile(0.999999), 4.753424308817087, 1e-10);  // 1 - p has lost digits
  EXPECT_EQ(normal_quantile(0.5), 0);
  EXPECT_TRUE(std::isinf(normal_quantile(0)));
  EXPECT_TRUE(std::isinf(normal_quantile(1)));
  EXPECT_TRUE(std::isnan(normal_quantile(1.5)));
  EXPECT_TRUE(std::isnan(normal_quantile(std::nan(""))) || normal_quantile(-1) < 0);
}

// The definition, summed term by term: right for small n.
double summed_cdf(int n, double p, int x) {
  double sum = 0;
  for (int k = 0; k <= x; ++k) {
    double term = 1;
    for (int factor = 1; factor <= k; ++factor) term *= double(n - k + factor) / factor * p;
    sum += term * std::pow(1 - p, n - k);
  }
  return sum;
}

TEST(Binomial, AgreesWithTheDefinition) {
  for (const int n : {1, 2, 7, 20, 60}) {
    for (const double p : {0.001, 0.03125, 0.3, 0.5, 0.9, 0.999}) {
      for (int x = 0; x < n; ++x) {
        EXPECT_NEAR(binomial_cdf(n, p, x), summed_cdf(n, p, x), 1e-12) << n << " " << p << " " << x;
      }
    }
  }
}

TEST(Binomial, AgreesWithScipyForLargeCounts) {
  struct Case {
    std::int64_t n;
    double p;
    std::int64_t x;
    double cdf;  // scipy 1.17 scipy.stats.binom.cdf
  };
  const Case cases[] = {
      {1000, 0.5, 480, 0.10872414660207075},        {1000000, 0.5, 499000, 0.0228041499326948},
      {1000000, 0.001, 1050, 0.9440611608204269},   {1000000, 1e-6, 0, 0.3678792572316451},
      {100000, 0.99, 98900, 0.0009117803412452087}, {1000000, 0.3, 295000, 4.274542838155656e-28}};
  for (const Case& test : cases) {
    EXPECT_NEAR(binomial_cdf(test.n, test.p, test.x) / test.cdf, 1, 2e-8)
        << test.n << " " << test.p << " " << test.x;
  }
}

TEST(Binomial, Edges) {
  EXPECT_EQ(binomial_cdf(10, 0.5, -1), 0);
  EXPECT_EQ(binomial_cdf(10, 0.5, 10), 1);
  EXPECT_EQ(binomial_cdf(10, 0.5, 1000), 1);
  EXPECT_EQ(binomial_cdf(0, 0.5, 0), 1);
  EXPECT_EQ(binomial_cdf(10, 0, 0), 1);
  EXPECT_EQ(binomial_cdf(10, 1, 9), 0);
  EXPECT_EQ(binomial_cdf(10, 1, 10), 1);
  EXPECT_EQ(binomial_quantile(10, 0.5, 0), 0);
  EXPECT_EQ(binomial_quantile(10, 0.5, 1), 10);
  EXPECT_EQ(binomial_quantile(10, 0, 0.5), 0);
  EXPECT_EQ(binomial_quantile(10, 1, 0.5), 10);
  EXPECT_EQ(binomial_quantile(0, 0.5, 0.5), 0);
}

TEST(Binomial, QuantileIsTheSmallestThatReachesIt) {
  Random random(2);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto n = static_cast<std::int64_t>(1 + random.below(trial % 2 == 0 ? 50 : 20000));
    const double p = std::pow(random.uniform(), 3);
    const double q = random.uniform();
    const std::int64_t x = binomial_quantile(n, p, q);
    EXPECT_GE(binomial_cdf(n, p, x), q) << n << " " << p << " " << q;
    EXPECT_LT(binomial_cdf(n, p, x - 1), q) << n << " " << p << " " << q;
  }
}

TEST(Binomial, QuantileAgreesWithScipy) {
  // scipy 1.17 scipy.stats.binom.ppf.
  EXPECT_EQ(binomial_quantile(20, 0.3, 0.5), 6);
  EXPECT_EQ(binomial_quantile(1000, 0.5, 0.025), 469);
  EXPECT_EQ(binomial_quantile(1000000, 0.001, 0.999), 1099);
  EXPECT_EQ(binomial_quantile(1000000, 0.5, 1e-9), 497001);
  EXPECT_EQ(binomial_quantile(100, 0.99, 0.975), 100);
  EXPECT_EQ(binomial_quantile(1000000, 1e-6, 0.999999), 9);
}

TEST(Binomial, IsCheap) {
  // The ledger asks a few thousand times a run. Typical counts take about a microsecond; the bound
  // leaves room for sanitizers and busy machines and still excludes a sum over n terms.
  const auto start = std::chrono::steady_clock::now();
  double sum = 0;
  for (int call = 0; call < 1000; ++call) {
    sum += binomial_cdf(1000000, 0.03125, 31250 + call - 500);
  }
  EXPECT_GT(sum, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

TEST(ExpectedMax, KnownValues) {
  EXPECT_EQ(expected_max_of_normals(1), 0);
  // Closed forms: 1 / sqrt(pi) for two and 3 / (2 sqrt(pi)) for three.
  EXPECT_NEAR(expected_max_of_normals(2), 1 / std::sqrt(std::acos(-1.0)), 1e-8);
  EXPECT_NEAR(expected_max_of_normals(3), 1.5 / std::sqrt(std::acos(-1.0)), 1e-8);
  // Adaptive quadrature of 1 - Phi^n over x > 0 minus Phi^n over x < 0 (scipy 1.17 quad).
  EXPECT_NEAR(expected_max_of_normals(8), 1.4236003060452775, 1e-8);
  EXPECT_NEAR(expected_max_of_normals(32), 2.0696688279289064, 1e-8);
  EXPECT_NEAR(expected_max_of_normals(256), 2.8268632789392196, 1e-8);
  EXPECT_NEAR(expected_max_of_normals(4096), 3.626082177769145, 1e-8);
  EXPECT_NEAR(expected_max_of_normals(1000000), 4.862897486196463, 1e-8);
  EXPECT_NEAR(expected_max_of_normals(1000000000), 6.087684584445959, 1e-7);
}

TEST(Random, FollowsTheReferenceSequence) {
  // First outputs of Vigna's splitmix64.c for the seed 1234567.
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317ULL);
  EXPECT_EQ(random.next(), 3203168211198807973ULL);
  EXPECT_EQ(random.next(), 9817491932198370423ULL);
}

TEST(Random, UniformAndBelowStayInRange) {
  Random random(3);
  std::set<std::uint64_t> seen;
  double sum = 0;
  for (int call = 0; call < 10000; ++call) {
    const double value = random.uniform();
    ASSERT_TRUE(value >= 0 && value < 1);
    sum += value;
    const std::uint64_t small = random.below(7);
    ASSERT_LT(small, 7U);
    seen.insert(small);
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.0145);  // five deviations of 1 / sqrt(12 * 10000)
  EXPECT_EQ(seen.size(), 7U);
  EXPECT_EQ(random.below(1), 0U);
}

TEST(Random, BelowIsUnbiasedWhereAModuloIsNot) {
  // For n = 2^63 + 2^62 a plain modulo would give the lower third of values twice the weight:
  // P(below 2^62) would be 1/2 in place of 1/3.
  Random random(4);
  int low = 0;
  for (int call = 0; call < 10000; ++call) low += random.below(3ULL << 62) < (1ULL << 62) ? 1 : 0;
  EXPECT_NEAR(low / 10000.0, 1.0 / 3, 0.024);  // five deviations
}

}  // namespace
}  // namespace nibble
