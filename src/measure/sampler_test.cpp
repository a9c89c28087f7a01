#include "measure/sampler.h"

#include <gtest/gtest.h>
#include <string>

namespace nibble {
namespace {

// A clock that is advanced by what it measures.
struct FakeClock {
  double time = 100;
  Now now() {
    return [this] { return time; };
  }
};

TEST(Collect, StopsWhenTheIntervalIsNarrow) {
  FakeClock clock;
  int runs = 0;
  const Sample sample = collect({.half_width = 0.02, .least = 10, .budget_s = 1e9}, clock.now(),
                                [&] { return 100 + (runs++ % 2); });  // 100, 101: 0.5 % wide
  EXPECT_EQ(sample.stopped, Stopped::kPrecise);
  EXPECT_EQ(sample.values.size(), 10U);
  EXPECT_EQ(sample.median, 100.5);
  ASSERT_TRUE(sample.interval.has_value());
  EXPECT_EQ(sample.interval->low, 100);
  EXPECT_EQ(sample.interval->high, 101);
}

TEST(Collect, StopsWhenTheTimeIsSpent) {
  FakeClock clock;
  int runs = 0;
  const Sample sample = collect({.budget_s = 1}, clock.now(), [&] {
    clock.time += 0.03;
    return ++runs % 2 == 0 ? 100.0 : 200.0;  // never narrow
  });
  EXPECT_EQ(sample.stopped, Stopped::kBudget);
  EXPECT_EQ(sample.values.size(), 34U);  // the first beyond 1 s: 34 x 0.03
  EXPECT_TRUE(sample.modes.two);
}

TEST(Collect, TakesOneSampleWhateverTheBudget) {
  FakeClock clock;
  const Sample sample = collect({.budget_s = 1}, clock.now(), [&] {
    clock.time += 50;
    return 7.0;
  });
  EXPECT_EQ(sample.values.size(), 1U);
  EXPECT_EQ(sample.median, 7);
  EXPECT_FALSE(sample.interval.has_value());  // one sample carries no interval
}

TEST(Collect, WaitsLongerForTheLeastSamples) {
  FakeClock clock;
  const auto slow = [&](double seconds) {
    return collect({.least = 10, .budget_s = 1}, clock.now(),
                   [&] {
                     clock.time += seconds;
                     return 7.0;
                   })
        .values.size();
  };
  EXPECT_EQ(slow(0.3), 10U);  // 3 s
  EXPECT_EQ(slow(0.7), 8U);   // the first beyond 5 s
}

TEST(Collect, StopsAtTheMostSamples) {
  FakeClock clock;
  int runs = 0;
  const Sample sample = collect({.least = 5, .most = 40, .budget_s = 1e9}, clock.now(),
                                [&] { return 1.0 + (runs++ % 10); });
  EXPECT_EQ(sample.stopped, Stopped::kCount);
  EXPECT_EQ(sample.values.size(), 40U);
}

TEST(CollectPairs, RunsInTheOrderABBA) {
  FakeClock clock;
  std::string order;
  int pairs = 0;
  collect_pairs(
      {.least = 4, .most = 4, .budget_s = 1e9}, clock.now(), [&] { order += 'A'; },
      [&] { order += 'B'; },
      [&] {
        order += ' ';
        return 1.0 + pairs++;
      });
  EXPECT_EQ(order, "AB BA AB BA ");
}

// A machine that slows down by 1 % with every run: the kernel always reaches half of the roof, and
// the median of the ratios says so, although neither rate stays what it was.
TEST(CollectPairs, ADriftCancels) {
  FakeClock clock;
  double speed = 100;
  double roof = 0;
  double kernel = 0;
  const Sample share = collect_pairs(
      {.half_width = 0, .least = 60, .most = 60, .budget_s = 1e9}, clock.now(),
      [&] { roof = (speed *= 0.99); }, [&] { kernel = 0.5 * (speed *= 0.99); },
      [&] { return kernel / roof; });
  EXPECT_NEAR(share.median, 0.5, 1e-4);
  EXPECT_NEAR(share.interval->low, 0.5 * 0.99, 1e-9);
  EXPECT_NEAR(share.interval->high, 0.5 / 0.99, 1e-9);
}

TEST(Summarize, OfNothingIsNothing) {
  const Sample sample = summarize({}, 0.95);
  EXPECT_TRUE(sample.values.empty());
  EXPECT_FALSE(sample.interval.has_value());
}

TEST(SteadyNow, NeverGoesBack) {
  const double before = steady_now();
  EXPECT_GE(steady_now(), before);
}

}  // namespace
}  // namespace nibble
