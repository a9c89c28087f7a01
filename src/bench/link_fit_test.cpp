#include "bench/link_fit.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "base/stats.h"

namespace nibble {
namespace {

constexpr double kKb = 1024;
constexpr int kSizes = 16;  // 2 KB to 64 MB

// time = intercept + bytes x us_per_byte, each size off by up to `noise`, as a fixed seed says.
std::vector<LinkPoint> line(double intercept_us, double us_per_byte, double noise = 0) {
  Random random(7);
  std::vector<LinkPoint> points;
  double bytes = 2 * kKb;
  for (int at = 0; at < kSizes; ++at, bytes *= 2) {
    const double factor = 1 + noise * (2 * random.uniform() - 1);
    points.push_back({bytes, (intercept_us + bytes * us_per_byte) * factor});
  }
  return points;
}

TEST(LinkFit, ACopyIsLatencyAndBandwidth) {
  // 2 us and 400 GB/s: 1 / 400e3 us a byte.
  const auto fit = fit_link(LinkOp::kCopy, {}, line(2, 1 / 400e3));
  ASSERT_TRUE(fit.ok()) << fit.error().message;
  EXPECT_NEAR(fit->link.latency_us, 2, 1e-9);
  EXPECT_NEAR(fit->link.bandwidth_gb_s, 400, 1e-6);
  EXPECT_NEAR(fit->worst_factor, 1, 1e-9);
}

TEST(LinkFit, TwoPointsByHand) {
  // 10 us at 1e6 B and 19 us at 2e6 B: 9 us for 1e6 B, that is 1e6 / 9 us = 111.1 GB/s, from 1 us.
  const std::vector<LinkPoint> points = {{1e6, 10}, {2e6, 19}};
  const auto fit = fit_link(LinkOp::kCopy, {}, points);
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->link.latency_us, 1, 1e-9);
  EXPECT_NEAR(fit->link.bandwidth_gb_s, 1e3 / 9, 1e-9);
}

TEST(LinkFit, NoiseOfFivePercentMovesTheNumbersByLessThanThat) {
  const auto fit = fit_link(LinkOp::kCopy, {}, line(8, 1 / 350e3, 0.05));
  ASSERT_TRUE(fit.ok());
  // Some ten sizes tell the latency and three the bandwidth.
  EXPECT_NEAR(fit->link.latency_us, 8, 8 * 0.05);
  EXPECT_NEAR(fit->link.bandwidth_gb_s, 350, 350 * 0.05);
  EXPECT_GT(fit->worst_factor, 1.005);
  EXPECT_LT(fit->worst_factor, 1.11);  // 1.05 off, and a fit that is off the other way
}

TEST(LinkFit, SmallMessagesCountAsMuchAsLargeOnes) {
  // Plain least squares would put the latency anywhere: 64 MB take 190 us, 2 KB take 5.
  std::vector<LinkPoint> points = line(5, 1 / 350e3);
  points.back().time_us *= 1.1;
  const auto fit = fit_link(LinkOp::kCopy, {}, points);
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->link.latency_us, 5, 0.05);
}

TEST(LinkFit, RingOverEight) {
  // Ring over 8: 14 hops, 14/8 of the bytes. 42 us and 1.75 S / 300e3 us: 3 us a hop, 300 GB/s.
  const auto fit = fit_link(LinkOp::kAllReduce, {8, AllReduce::kRing}, line(42, 1.75 / 300e3));
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->link.latency_us, 3, 1e-9);
  EXPECT_NEAR(fit->link.bandwidth_gb_s, 300, 1e-6);
}

TEST(LinkFit, OfTwoRanksTheFastestIsOneShot) {
  // One-shot over 2: one hop, all bytes.
  const auto fit = fit_link(LinkOp::kAllReduce, {.ranks = 2}, line(9, 1 / 320e3));
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->link.latency_us, 9, 1e-9);
  EXPECT_NEAR(fit->link.bandwidth_gb_s, 320, 1e-6);
}

TEST(LinkFit, OfEightRanksTheFastestChangesItsKindWithTheSize) {
  // a = 4 us, B = 200 GB/s. One-shot 4 + 7 S/B, two-shot 8 + 1.75 S/B: they meet at
  // S = 4 us x 200e3 B/us / 5.25 = 152 kB.
  std::vector<LinkPoint> points;
  double bytes = 2 * kKb;
  for (int at = 0; at < kSizes; ++at, bytes *= 2) {
    const double wire_us = bytes / 200e3;
    points.push_back({bytes, bytes < 152e3 ? 4 + 7 * wire_us : 8 + 1.75 * wire_us});
  }
  const auto fit = fit_link(LinkOp::kAllReduce, {.ranks = 8}, points);
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->link.latency_us, 4, 1e-6);
  EXPECT_NEAR(fit->link.bandwidth_gb_s, 200, 1e-4);
  EXPECT_NEAR(fit->worst_factor, 1, 1e-6);
}

TEST(LinkFit, GatherAndAllToAllHaveTheirOwnShares) {
  // All-gather over 4: 3 hops, 3/4 of the bytes; all-to-all: one hop, 3/4 of the buffer.
  const auto gather = fit_link(LinkOp::kAllGather, {.ranks = 4}, line(6, 0.75 / 100e3));
  ASSERT_TRUE(gather.ok());
  EXPECT_NEAR(gather->link.latency_us, 2, 1e-9);
  EXPECT_NEAR(gather->link.bandwidth_gb_s, 100, 1e-6);
  const auto exchange = fit_link(LinkOp::kAllToAll, {.ranks = 4}, line(6, 0.75 / 100e3));
  ASSERT_TRUE(exchange.ok());
  EXPECT_NEAR(exchange->link.latency_us, 6, 1e-9);
  EXPECT_NEAR(exchange->link.bandwidth_gb_s, 100, 1e-6);
}

TEST(LinkFit, ALatencyIsNeverNegative) {
  // The second message is relatively slower: a line through both begins below zero.
  const std::vector<LinkPoint> points = {{1e6, 10}, {2e6, 22}};
  const auto fit = fit_link(LinkOp::kCopy, {}, points);
  ASSERT_TRUE(fit.ok());
  EXPECT_EQ(fit->link.latency_us, 0);
  // Of r = wire/time 0.1 and 1/11 MB/us: the least of (r1 x - 1)^2 + (r2 x - 1)^2 is
  // x = (r1 + r2) / (r1^2 + r2^2) = (0.1 + 0.090909) / (0.01 + 0.0082645) = 10.4525 us/MB.
  EXPECT_NEAR(fit->link.bandwidth_gb_s, 1e3 / 10.4525, 0.001);
}

TEST(LinkFit, RefusesWhatTellsNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto refused = [](const std::vector<LinkPoint>& points) {
    const auto fit = fit_link(LinkOp::kCopy, {}, points);
    return fit.ok() ? std::string() : fit.error().message;
  };
  for (const std::vector<LinkPoint>& points :
       {std::vector<LinkPoint>{}, {{1e6, 5}}, {{1e6, 5}, {1e6, 6}}}) {
    EXPECT_EQ(refused(points), "latency and bandwidth need messages of two sizes");
  }
  for (const LinkPoint& bad : {LinkPoint{0, 5},
                               {-1, 5},
                               {nan, 5},
                               {infinite, 5},
                               {1e3, 0},
                               {1e3, -2},
                               {1e3, nan},
                               {1e3, infinite}}) {
    EXPECT_NE(refused({{1e6, 5}, bad}).find("cannot be fitted"), std::string::npos);
  }
  EXPECT_NE(refused({{1e3, 5}, {1e6, 4}}).find("do not grow"), std::string::npos);
  EXPECT_FALSE(fit_link(LinkOp::kAllReduce, {.ranks = 1}, line(1, 1e-6)).ok());
}

}  // namespace
}  // namespace nibble
