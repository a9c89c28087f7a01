#include "kernels/rope/rope.h"

#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numbers>
#include <string>

#include "kernels/moe/test_inputs.h"

namespace nibble {
namespace {

struct Angles {
  std::vector<float> cosines, sines;
};

Angles angles_of(const RopeConfig& config, std::vector<std::int64_t> positions) {
  const Result<Rope> rope = Rope::make(config);
  EXPECT_TRUE(rope.ok());
  const std::size_t size = positions.size() * static_cast<std::size_t>(config.head_dim / 2);
  Angles angles{std::vector<float>(size), std::vector<float>(size)};
  rope->angles(positions, angles.cosines, angles.sines);
  return angles;
}

// theta 16 and four values: frequencies 1 and 16^(-1/2) = 1/4.
TEST(Rope, TurnsByHand) {
  const Angles angles = angles_of({.head_dim = 4, .theta = 16}, {0, 3});
  EXPECT_EQ(angles.cosines[0], 1);
  EXPECT_EQ(angles.sines[1], 0);
  EXPECT_NEAR(angles.cosines[2], std::cos(3.0), 1e-7);
  EXPECT_NEAR(angles.sines[3], std::sin(0.75), 1e-7);
  ThreadPool pool(1);
  std::vector<float> x = {1, 2, 3, 4, 9, 1, 2, 3, 4, 9};
  rotate({.x = x,
          .stride = 5,
          .heads = 1,
          .head_dim = 4,
          .cosines = angles.cosines,
          .sines = angles.sines},
         pool);
  EXPECT_EQ(std::vector<float>(x.begin(), x.begin() + 5), (std::vector<float>{1, 2, 3, 4, 9}));
  EXPECT_NEAR(x[5], std::cos(3.0) - 3 * std::sin(3.0), 1e-6);
  EXPECT_NEAR(x[6], 2 * std::cos(0.75) - 4 * std::sin(0.75), 1e-6);
  EXPECT_NEAR(x[7], 3 * std::cos(3.0) + std::sin(3.0), 1e-6);
  EXPECT_NEAR(x[8], 4 * std::cos(0.75) + 2 * std::sin(0.75), 1e-6);
  EXPECT_EQ(x[9], 9);
}

TEST(Rope, LinearScalingDividesPositions) {
  const Angles scaled =
      angles_of({.head_dim = 8, .theta = 1e6, .scaling = RopeScaling::kLinear, .factor = 4}, {400});
  const Angles plain = angles_of({.head_dim = 8, .theta = 1e6}, {100});
  for (std::size_t at = 0; at < 4; ++at) EXPECT_NEAR(scaled.sines[at], plain.sines[at], 1e-6);
}

// head_dim 8, theta 10^4, original context 2048: dimension(rotations) =
// 8 ln(2048 / (2 pi rotations)) / (2 ln 10^4) = 0.43429 ln(325.949 / rotations):
// beta 32 gives 1.008, down to 1; beta 1 gives 2.513, up to 3. The ramp is 0, 0, 1/2, 1.
TEST(Rope, YarnKeepsFastAnglesAndDividesSlowOnes) {
  const RopeConfig config{.head_dim = 8,
                          .theta = 1e4,
                          .scaling = RopeScaling::kYarn,
                          .factor = 4,
                          .original_context = 2048};
  const Angles angles = angles_of(config, {1});
  const double size = 0.1 * std::log(4.0) + 1;
  const double frequencies[] = {1, 0.1, 0.01 * (0.5 / 4 + 0.5), 0.001 / 4};
  for (std::size_t at = 0; at < 4; ++at) {
    EXPECT_NEAR(angles.sines[at], size * std::sin(frequencies[at]), 1e-7) << at;
    EXPECT_NEAR(angles.cosines[at], size * std::cos(frequencies[at]), 1e-6) << at;
  }
}

TEST(Rope, HasTheSameBitsForAnyBatchAndThreads) {
  Random random(1);
  const std::vector<float> x = gaussian(random, 64 * 256);
  std::vector<std::int64_t> positions;
  for (std::int64_t row = 0; row < 64; ++row) positions.push_back(1000 * row);
  const auto run = [&](std::size_t first, int threads) {
    ThreadPool pool(threads);
    const Angles angles =
        angles_of({.head_dim = 64},
                  {positions.begin() + static_cast<std::ptrdiff_t>(first), positions.end()});
    std::vector<float> y(x.begin() + static_cast<std::ptrdiff_t>(first * 256), x.end());
    rotate({.x = y,
            .stride = 256,
            .heads = 3,
            .head_dim = 64,
            .cosines = angles.cosines,
            .sines = angles.sines},
           pool);
    return y;
  };
  const std::vector<float> together = run(0, 3);
  EXPECT_TRUE(same_bits(run(0, 1), together));
  EXPECT_TRUE(same_bits(run(63, 1), std::span(together).last(256)));
}

TEST(Rope, RefusesNumbersOutOfRange) {
  const auto refuses = [](auto change) {
    RopeConfig config{.head_dim = 64,
                      .theta = 1e6,
                      .scaling = RopeScaling::kYarn,
                      .factor = 2,
                      .original_context = 4096};
    change(config);
    return !Rope::make(config).ok();
  };
  EXPECT_FALSE(refuses([](RopeConfig&) {}));
  for (const std::int64_t bad : {0, -2, 7, 8192}) {
    EXPECT_TRUE(refuses([bad](RopeConfig& config) { config.head_dim = bad; }));
  }
  for (const double bad : {0.0, -1.0, 0.5, HUGE_VAL, std::nan("")}) {
    EXPECT_TRUE(refuses([bad](RopeConfig& config) { config.theta = bad; }));
    EXPECT_TRUE(refuses([bad](RopeConfig& config) { config.factor = bad; }));
    EXPECT_TRUE(refuses([bad](RopeConfig& config) { config.original_context = bad; }));
    EXPECT_TRUE(refuses([bad](RopeConfig& config) { config.beta_fast = bad; }));
  }
  EXPECT_TRUE(refuses([](RopeConfig& config) { config.beta_slow = 0; }));
  EXPECT_TRUE(refuses([](RopeConfig& config) { config.attention_factor = -1; }));
}

}  // namespace
}  // namespace nibble
