#include "load/least_squares.h"

#include <cmath>
#include <gtest/gtest.h>

#include "base/stats.h"

namespace nibble::load {
namespace {

TEST(LeastSquares, LineThroughPoints) {
  // y = 1 + 2 x at 2, 3, 5.
  const LeastSquares fit = solve_least_squares({{1, 2}, {1, 3}, {1, 5}}, {5, 7, 11}, {false, true});
  EXPECT_NEAR(fit.coefficients[0], 1, 1e-12);
  EXPECT_NEAR(fit.coefficients[1], 2, 1e-12);
  EXPECT_NEAR(fit.squares, 0, 1e-20);
}

TEST(LeastSquares, VarianceOfASlope) {
  // x = 0, 1, 2: var(slope) = 1 / sum (x - 1)^2 = 1/2, var(intercept) = 1/3 + 1^2 / 2 = 5/6.
  // y = 0, 1, 0: slope 0, intercept 1/3, squares 1/9 + 4/9 + 1/9.
  const LeastSquares fit = solve_least_squares({{1, 0}, {1, 1}, {1, 2}}, {0, 1, 0}, {false, false});
  EXPECT_NEAR(fit.coefficients[0], 1.0 / 3, 1e-12);
  EXPECT_NEAR(fit.coefficients[1], 0, 1e-12);
  EXPECT_NEAR(fit.squares, 2.0 / 3, 1e-12);
  EXPECT_NEAR(*fit.variances[0], 5.0 / 6, 1e-12);
  EXPECT_NEAR(*fit.variances[1], 0.5, 1e-12);
}

TEST(LeastSquares, HoldsAtZeroWhatWouldBeNegative) {
  // y = 3 - x: with the slope held at zero the mean remains, 3 - 1.
  const LeastSquares fit = solve_least_squares({{1, 0}, {1, 1}, {1, 2}}, {3, 2, 1}, {true, true});
  EXPECT_NEAR(fit.coefficients[0], 2, 1e-12);
  EXPECT_EQ(fit.coefficients[1], 0);
  EXPECT_FALSE(fit.active[1]);
  EXPECT_FALSE(fit.variances[1]);
  const LeastSquares zero = solve_least_squares({{1}, {1}}, {-1, -2}, {true});
  EXPECT_EQ(zero.coefficients[0], 0);
}

TEST(LeastSquares, RandomProblemsMeetTheConditionsOfTheOptimum) {
  // Karush, Kuhn, Tucker: along an active column the residual has no part, along a held one none
  // that would raise its coefficient.
  Random random(8);
  for (int round = 0; round < 300; ++round) {
    const std::size_t columns = 1 + random.below(6);
    const std::size_t count = columns + random.below(10);
    Rows rows(count, std::vector<double>(columns));
    std::vector<double> values(count);
    for (std::size_t r = 0; r < count; ++r) {
      for (double& entry : rows[r]) entry = random.uniform() * 2 - 0.5;
      values[r] = random.uniform() * 4 - 2;
    }
    const std::vector<bool> held(columns, true);
    const LeastSquares fit = solve_least_squares(rows, values, held);
    for (std::size_t c = 0; c < columns; ++c) {
      EXPECT_GE(fit.coefficients[c], 0);
      double slope = 0;
      for (std::size_t r = 0; r < count; ++r) {
        double rest = values[r];
        for (std::size_t k = 0; k < columns; ++k) rest -= rows[r][k] * fit.coefficients[k];
        slope += rows[r][c] * rest;
      }
      if (fit.coefficients[c] > 0) {
        EXPECT_NEAR(slope, 0, 1e-8) << round;
      } else {
        EXPECT_LT(slope, 1e-8) << round;
      }
    }
  }
}

TEST(LeastSquares, DependentColumnsHaveNoVariance) {
  const LeastSquares fit = solve_least_squares({{1, 2}, {2, 4}, {3, 6}}, {1, 2, 3}, {false, false});
  EXPECT_NEAR(fit.squares, 0, 1e-20);
  EXPECT_FALSE(fit.variances[0]);
  EXPECT_FALSE(fit.variances[1]);
}

TEST(Independence, IsTheShareLeftOver) {
  // (1, 1) after (1, 0): half of its square is its own.
  const std::vector<double> shares = independence({{1, 1}, {0, 1}});
  EXPECT_NEAR(shares[0], 1, 1e-12);
  EXPECT_NEAR(shares[1], std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(independence({{1, 2}, {2, 4}})[1], 0, 1e-12);
}

}  // namespace
}  // namespace nibble::load
