#include "load/usl.h"

#include <cmath>
#include <gtest/gtest.h>

namespace nibble::load {
namespace {

std::vector<KneeLevel> usl_levels(double lambda, double sigma, double kappa, double noise = 0,
                                  std::uint64_t seed = 1) {
  Random random(seed);
  std::vector<KneeLevel> levels;
  for (double n = 1; n <= 256; n *= 2) {
    const double x = lambda * n / (1 + sigma * (n - 1) + kappa * n * (n - 1));
    const double normal = normal_quantile(random.uniform() * 0.999 + 0.0005);
    levels.push_back({n, x * (1 + noise * normal), std::max(0.02, 1.96 * noise)});
  }
  return levels;
}

TEST(Usl, FindsTheCoefficientsBack) {
  const UslFit fit = fit_usl(usl_levels(100, 0.02, 0.0004));
  ASSERT_TRUE(fit.valid());
  EXPECT_NEAR(fit.lambda.value, 100, 1e-4);
  EXPECT_NEAR(fit.sigma.value, 0.02, 1e-7);
  EXPECT_NEAR(fit.kappa.value, 0.0004, 1e-9);
  ASSERT_TRUE(fit.peak);
  EXPECT_NEAR(fit.peak->value, std::sqrt(0.98 / 0.0004), 1e-2);  // 49.5
  EXPECT_FALSE(fit.beyond_sweep);
  EXPECT_NEAR(fit.residual, 0, 1e-8);
  EXPECT_NEAR(fit.predict(64), 100 * 64 / (1 + 0.02 * 63 + 0.0004 * 64 * 63), 1e-3);
}

TEST(Usl, AgreesWithAnotherSolver) {
  // A ray tracer's throughput over processors. scipy 1.17 optimize.least_squares of the same
  // residuals in logarithms, bounds at zero: lambda 21.591502, sigma 0.0564054, kappa 3.35863e-6,
  // rms 0.0480904.
  const std::vector<std::pair<double, double>> measured = {
      {1, 20},   {4, 78},   {8, 130},  {12, 170}, {16, 190}, {20, 200},
      {24, 210}, {28, 230}, {32, 260}, {48, 280}, {64, 310}};
  std::vector<KneeLevel> levels;
  for (const auto& [n, x] : measured) levels.push_back({n, x});
  const UslFit fit = fit_usl(levels);
  ASSERT_TRUE(fit.valid());
  EXPECT_NEAR(fit.lambda.value, 21.591502, 1e-4);
  EXPECT_NEAR(fit.sigma.value, 0.0564054218, 1e-6);
  EXPECT_NEAR(fit.kappa.value, 3.35862811e-06, 1e-8);
  EXPECT_NEAR(fit.residual, 0.04809036, 1e-7);
}

TEST(Usl, AStraightLineHasNoPeak) {
  const UslFit fit = fit_usl(usl_levels(50, 0, 0));
  ASSERT_TRUE(fit.valid());
  EXPECT_NEAR(fit.lambda.value, 50, 1e-6);
  EXPECT_NEAR(fit.sigma.value, 0, 1e-9);
  EXPECT_NEAR(fit.kappa.value, 0, 1e-12);
  EXPECT_FALSE(fit.peak && !fit.beyond_sweep);
}

TEST(Usl, WithoutKappaThereIsACeiling) {
  const UslFit fit = fit_usl(usl_levels(100, 0.1, 0));
  ASSERT_TRUE(fit.valid());
  EXPECT_NEAR(fit.sigma.value, 0.1, 1e-6);
  if (fit.ceiling) {
    EXPECT_NEAR(*fit.ceiling, 1000, 1);
  }
  EXPECT_TRUE(fit.ceiling || fit.beyond_sweep);
}

TEST(Usl, IntervalsHoldTheTruthUnderNoise) {
  int peak = 0;
  int sigma = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const UslFit fit = fit_usl(usl_levels(100, 0.02, 0.0004, 0.05, seed));
    ASSERT_TRUE(fit.valid());
    ASSERT_TRUE(fit.peak && fit.peak->interval);
    peak += fit.peak->interval->low <= 49.5 && 49.5 <= fit.peak->interval->high ? 1 : 0;
    sigma += fit.sigma.interval->low <= 0.02 && 0.02 <= fit.sigma.interval->high ? 1 : 0;
  }
  EXPECT_GE(peak, 50);  // 95 % of 60 is 57, deviation 1.7; redrawing around a fit is a bit narrow
  EXPECT_GE(sigma, 50);
}

TEST(Usl, RefusesTooFewLevels) {
  EXPECT_FALSE(fit_usl({}).valid());
  EXPECT_FALSE(fit_usl({{1, 10}, {2, 20}, {4, 30}}).valid());
  EXPECT_FALSE(fit_usl({{1, 10}, {1, 11}, {1, 12}, {1, 10}, {2, 20}}).valid());
  EXPECT_FALSE(fit_usl({{1, 10}, {2, 0}, {4, -3}, {8, 50}, {16, std::nan("")}}).valid());
  EXPECT_TRUE(to_json(fit_usl({})).find("lambda")->is_null());
}

TEST(Usl, SurvivesAbsurdLevels) {
  EXPECT_TRUE(fit_usl({{1, 1e-300}, {2, 1e300}, {4, 1}, {8, 1e-300}}).reason.empty());
  EXPECT_TRUE(fit_usl({{1000, 10}, {2000, 5}, {4000, 2}, {8000, 1}}).reason.empty());
}

}  // namespace
}  // namespace nibble::load
