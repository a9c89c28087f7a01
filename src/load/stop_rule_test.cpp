#include "load/stop_rule.h"

#include <cmath>
#include <gtest/gtest.h>

namespace nibble::load {
namespace {

constexpr Nanoseconds kMs = 1'000'000;

TEST(StopRule, IntervalByHand) {
  // Batches of 1 s with 10, 12, 14 tokens: mean 12, deviation 2, error 2 / sqrt 3; t of two degrees
  // at 0.975 is 4.302653. Neighbours: (-2)(0) + (0)(2) = 0.
  StopRule rule({.batches = 3, .first_batch_s = 1}, 0);
  rule.add(500 * kMs, 10);
  rule.add(1500 * kMs, 12);
  rule.add(2500 * kMs, 14);
  rule.advance(3000 * kMs);
  const StopState state = rule.state();
  EXPECT_EQ(state.batches, 3U);
  EXPECT_NEAR(state.rate, 12, 1e-12);
  const double half = 4.302652729911275 * 2 / std::sqrt(3.0);
  EXPECT_NEAR(state.interval->low, 12 - half, 1e-9);
  EXPECT_NEAR(state.interval->high, 12 + half, 1e-9);
  EXPECT_NEAR(*state.half_width, half / 12, 1e-9);
  EXPECT_NEAR(*state.correlation, 0, 1e-12);
  EXPECT_FALSE(state.converged);
  EXPECT_NE(state.reason.find("known to"), std::string::npos);
}

TEST(StopRule, ASteadyStreamConvergesAfterTwentyBatches) {
  StopRule rule({}, 0);
  Nanoseconds at = 0;
  while (!rule.state().converged && at < 100'000 * kMs) {
    at += 5 * kMs;
    rule.add(at, 1);
  }
  // 200 tokens/s in batches of 0.1 s: sure as soon as there are twenty.
  EXPECT_NEAR(seconds(at), 2.0, 0.011);
  EXPECT_NEAR(rule.state().rate, 200, 2);
}

TEST(StopRule, NoiseTakesLonger) {
  // Every 10 ms none to twenty tokens, uniform: mean 10, variance (21^2 - 1) / 12 = 36.7, relative
  // deviation of a tenth of a second 6.06 / 10 / sqrt 10 = 0.19. A half width of 2 % takes about
  // (1.96 x 0.606 / 0.02)^2 = 3,500 draws, 35 s.
  Random random(4);
  StopRule rule({}, 0);
  Nanoseconds at = 0;
  while (!rule.state().converged && at < 1'000'000 * kMs) {
    at += 10 * kMs;
    rule.add(at, static_cast<double>(random.below(21)));
  }
  EXPECT_GT(seconds(at), 8);
  EXPECT_LT(seconds(at), 100);
  EXPECT_NEAR(rule.state().rate, 1000, 40);
  EXPECT_LT(rule.state().batches, 40U);
}

TEST(StopRule, CoversTheTruthAsOftenAsItSays) {
  // 400 runs of 40 s with independent noise: the 95 % interval may miss about 20 (deviation 4.4).
  Random random(9);
  int covered = 0;
  for (int run = 0; run < 400; ++run) {
    StopRule rule({}, 0);
    for (Nanoseconds at = 10 * kMs; at <= 40'000 * kMs; at += 10 * kMs) {
      rule.add(at, static_cast<double>(random.below(21)));
    }
    const StopState state = rule.state();
    if (state.interval->low <= 1000 && 1000 <= state.interval->high) ++covered;
  }
  EXPECT_GT(covered, 360);
  EXPECT_LT(covered, 399);
}

TEST(StopRule, ADriftDoesNotConverge) {
  StopRule rule({}, 0);
  for (Nanoseconds at = 10 * kMs; at <= 20'000 * kMs; at += 10 * kMs) {
    rule.add(at, 100 + 3 * seconds(at) / 20);  // 3 % over the run: a narrow interval, but no rate
  }
  EXPECT_FALSE(rule.state().converged);
  EXPECT_NE(rule.state().reason.find("drifts"), std::string::npos) << rule.state().reason;
}

TEST(StopRule, SilenceAndGaps) {
  StopRule rule({}, 0);
  EXPECT_EQ(rule.state().batches, 0U);
  EXPECT_FALSE(rule.state().interval);
  rule.advance(10'000 * kMs);
  EXPECT_FALSE(rule.state().converged);
  EXPECT_EQ(rule.state().reason, "no token came");
  rule.add(std::int64_t{1} << 60, 5);  // 36 years later, at once
  EXPECT_LT(rule.state().batches, 40U);
  rule.restart(1000 * kMs);
  EXPECT_EQ(rule.state().batches, 0U);
  rule.add(0, 7);  // late news count in the open batch
  rule.advance(1100 * kMs);
  rule.advance(1200 * kMs);
  EXPECT_NEAR(rule.state().rate, 35, 1e-9);
}

}  // namespace
}  // namespace nibble::load
