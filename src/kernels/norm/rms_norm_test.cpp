#include "kernels/norm/rms_norm.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/moe/reference.h"
#include "kernels/moe/test_inputs.h"

namespace nibble {
namespace {

// The definition in double precision, of one vector.
std::vector<double> reference(std::span<const float> x, std::span<const float> weight,
                              double epsilon) {
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  const double root = std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  std::vector<double> y;
  for (std::size_t at = 0; at < x.size(); ++at) {
    y.push_back(static_cast<double>(x[at]) / root * static_cast<double>(weight[at]));
  }
  return y;
}

// A sum of K / 16 squares a lane and 16 lanes: at most (K / 16 + 16) roundings of 2^-24, halved by
// the root; three more after it. For K = 4096 1.6e-5 at worst, and 1e-6 as a random walk.
TEST(RmsNorm, EqualsTheReference) {
  ThreadPool pool(2);
  Random random(1);
  for (const std::int64_t columns : {1, 2, 15, 16, 17, 64, 90, 4096}) {
    const std::vector<float> weight = gaussian(random, columns);
    const std::vector<float> x = gaussian(random, 5 * columns, 3);
    std::vector<float> input = x;
    std::vector<float> y(x.size());
    rms_norm({.x = input, .weight = weight, .columns = columns, .epsilon = 1e-6F, .output = y},
             pool);
    EXPECT_EQ(input, x);
    for (std::size_t row = 0; row < 5; ++row) {
      const auto size = static_cast<std::size_t>(columns);
      EXPECT_LE(moe_error(std::span(y).subspan(row * size, size),
                          reference(std::span(x).subspan(row * size, size), weight, 1e-6)),
                2e-6)
          << columns;
    }
  }
}

// (3, 4) has the mean square 12.5; with epsilon 12.5 the root is 5.
TEST(RmsNorm, ByHand) {
  ThreadPool pool(1);
  std::vector<float> x = {1, 1};
  const std::vector<float> add = {2, 3};
  const std::vector<float> weight = {5, 10};
  std::vector<float> y(2);
  rms_norm({.x = x, .add = add, .weight = weight, .columns = 2, .epsilon = 12.5F, .output = y},
           pool);
  EXPECT_EQ(x, (std::vector<float>{3, 4}));
  EXPECT_EQ(y, (std::vector<float>{3, 8}));
}

TEST(RmsNorm, OfHeadsLeavesTheRestOfARow) {
  ThreadPool pool(1);
  const std::vector<float> weight = {1, 1};
  std::vector<float> x = {3, 4, 6, 8, 100, 200, 30, 40, 5, 5, 300, 400};
  rms_norm({.x = x, .weight = weight, .columns = 2, .vectors = 2, .stride = 6, .output = x}, pool);
  const float root = std::sqrt(12.5F);
  EXPECT_NEAR(x[0], 3 / root, 1e-6);
  EXPECT_NEAR(x[3], 4 / root, 1e-6);
  EXPECT_EQ(x[4], 100);
  EXPECT_NEAR(x[7], 4 / root, 1e-6);
  EXPECT_NEAR(x[9], 1, 1e-6);
  EXPECT_EQ(x[11], 400);
  rms_norm({.x = x, .weight = weight, .columns = 2, .begin = 4, .stride = 6, .output = x}, pool);
  EXPECT_NEAR(x[9], 1, 1e-6);
  EXPECT_NEAR(x[11], 400 / (100 * root), 1e-6);
}

TEST(RmsNorm, HasTheSameBitsForAnyBatchAndThreads) {
  Random random(2);
  const std::vector<float> weight = gaussian(random, 256);
  const std::vector<float> x = gaussian(random, 64 * 256);
  const auto run = [&](std::span<const float> rows, int threads) {
    ThreadPool pool(threads);
    std::vector<float> y(rows.begin(), rows.end());
    rms_norm({.x = y, .weight = weight, .columns = 256, .epsilon = 1e-6F, .output = y}, pool);
    return y;
  };
  const std::vector<float> together = run(x, 3);
  EXPECT_TRUE(same_bits(run(x, 1), together));
  EXPECT_TRUE(same_bits(run(std::span(x).last(256), 2), std::span(together).last(256)));
}

TEST(RmsNorm, ZerosStayZeroAndWhatIsNotFiniteShows) {
  ThreadPool pool(1);
  const std::vector<float> weight = {1, 1};
  std::vector<float> x = {0, 0, INFINITY, 1, NAN, 1};
  rms_norm({.x = x, .weight = weight, .columns = 2, .epsilon = 1e-6F, .output = x}, pool);
  EXPECT_EQ(x[0], 0);
  EXPECT_FALSE(std::isfinite(x[2]));
  EXPECT_TRUE(std::isnan(x[4]) && std::isnan(x[5]));
}

}  // namespace
}  // namespace nibble
