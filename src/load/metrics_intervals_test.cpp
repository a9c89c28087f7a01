#include "load/metrics_intervals.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "base/stats.h"

namespace nibble::load {
namespace {

TEST(IntervalSweep, CountsExactly) {
  // [0, 10), [5, 20), [20, 30): 1 for 5, 2 for 5, 1 for 20; a request that begins where another
  // ends is not beside it.
  IntervalSweep sweep;
  sweep.add(20, 30);
  sweep.add(0, 10);
  sweep.add(5, 20);
  EXPECT_EQ(sweep.span().start, 0);
  EXPECT_EQ(sweep.span().stop, 30);
  const InFlight all = sweep.count(sweep.span(), 2);
  EXPECT_NEAR(all.mean, 35.0 / 30, 1e-12);
  EXPECT_EQ(all.peak, 2);
  EXPECT_NEAR(all.share_at_least, 5.0 / 30, 1e-12);
  const InFlight part = sweep.count({8, 12});  // 2 for 2, 1 for 2
  EXPECT_NEAR(part.mean, 1.5, 1e-12);
  EXPECT_EQ(part.share_at_least, 1);
  EXPECT_EQ(sweep.count({40, 50}).peak, 0);
  EXPECT_EQ(sweep.count({5, 5}).mean, 0);
}

TEST(IntervalSweep, ReachesALevel) {
  IntervalSweep sweep;
  sweep.add(0, 100);
  sweep.add(10, 40);
  sweep.add(50, 80);
  const auto two = sweep.reaches(2);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->start, 10);
  EXPECT_EQ(two->stop, 80);
  EXPECT_FALSE(sweep.reaches(3));
  EXPECT_FALSE(IntervalSweep().reaches(1));
}

TEST(IntervalSweep, RequestsOfNoLength) {
  IntervalSweep sweep;
  sweep.add(5, 5);
  sweep.add(5, 5);
  sweep.add(1, 5);
  sweep.add(5, 9);
  EXPECT_EQ(sweep.count(sweep.span()).peak, 1);
  EXPECT_NEAR(sweep.count(sweep.span()).mean, 1, 1e-12);
  IntervalSweep alone;
  alone.add(3, 3);
  EXPECT_EQ(alone.count(alone.span()).mean, 0);
}

TEST(IntervalSweep, AgreesWithCountingAtEveryMoment) {
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    IntervalSweep sweep;
    std::vector<int> flying(100, 0);
    for (int request = 0; request < 30; ++request) {
      const auto start = static_cast<Nanoseconds>(random.below(100));
      const auto stop =
          start + static_cast<Nanoseconds>(random.below(static_cast<std::uint64_t>(101 - start)));
      sweep.add(start, stop);
      for (Nanoseconds at = start; at < stop; ++at) ++flying[static_cast<std::size_t>(at)];
    }
    double sum = 0;
    for (const int count : flying) sum += count;
    const InFlight found = sweep.count({0, 100});
    EXPECT_NEAR(found.mean, sum / 100, 1e-9);
    EXPECT_EQ(found.peak, *std::max_element(flying.begin(), flying.end()));
  }
}

TEST(TokenRate, BestSecond) {
  // 10 tokens at 0 s, 30 at 0.95 s, 30 at 1.85 s, 5 at 5 s. Seconds from tenths: [0, 1) has 40,
  // [0.9, 1.9) has 60.
  TokenRate rate;
  rate.add(5'000'000'000, 5);
  rate.add(0, 10);
  rate.add(1'850'000'000, 30);
  rate.add(950'000'000, 30);
  EXPECT_EQ(rate.best_second(), 60);
  EXPECT_EQ(TokenRate().best_second(), 0);
}

TEST(TokenRate, ASteadyStreamHasItsOwnRate) {
  // 3 tokens every 10 ms for 5 s: 300 in every second, whatever the packing in chunks.
  TokenRate rate;
  for (int step = 0; step < 500; ++step) rate.add(step * 10'000'000LL, 3);
  EXPECT_EQ(rate.best_second(), 300);
}

}  // namespace
}  // namespace nibble::load
