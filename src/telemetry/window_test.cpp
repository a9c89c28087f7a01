#include "telemetry/window.h"

#include <gtest/gtest.h>

namespace nibble::telemetry {
namespace {

TEST(Aggregate, OfFourValues) {
  const std::vector<Point> points = {{1, 10}, {2, 1}, {3, 3}, {4, 2}};
  const std::optional<Aggregate> result = aggregate(points);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->n, 4U);
  EXPECT_EQ(result->mean, 4);   // 16 / 4
  EXPECT_EQ(result->p50, 2.5);  // between 2 and 3
  EXPECT_EQ(result->min, 1);
  EXPECT_EQ(result->max, 10);
  EXPECT_FALSE(aggregate({}));
}

TEST(ValueAt, LiesOnTheLineBetweenTwoPoints) {
  const std::vector<Point> points = {{100, 10}, {200, 20}, {400, 0}};
  EXPECT_EQ(value_at(points, 100), 10);
  EXPECT_EQ(value_at(points, 150), 15);
  EXPECT_EQ(value_at(points, 300), 10);
  EXPECT_EQ(value_at(points, 400), 0);
  EXPECT_EQ(value_at(points, 99), std::nullopt);
  EXPECT_EQ(value_at(points, 401), std::nullopt);
  EXPECT_EQ(value_at(points, 300, 199), std::nullopt);  // 200 apart
  EXPECT_EQ(value_at(points, 300, 200), 10);
  EXPECT_EQ(value_at({}, 1), std::nullopt);
}

TEST(CounterDifference, InterpolatesAtBothEnds) {
  // Grows by 1 a nanosecond until 200 and by 3 from there on.
  const std::vector<Point> points = {{100, 0}, {200, 100}, {300, 400}};
  const Result<double> grown = counter_difference(points, {150, 250});
  ASSERT_TRUE(grown.ok());
  EXPECT_EQ(*grown, 200);  // 50 + 150
}

TEST(CounterDifference, RefusesWhatItDoesNotCover) {
  const std::vector<Point> points = {{100, 0}, {200, 100}};
  EXPECT_EQ(counter_difference(points, {50, 150}).error().message,
            "no sample from before the window");
  EXPECT_EQ(counter_difference(points, {150, 250}).error().message,
            "no sample from after the window");
  EXPECT_FALSE(counter_difference(points, {150, 150}).ok());
  const std::vector<Point> restarted = {{100, 500}, {200, 3}, {300, 4}};
  EXPECT_EQ(counter_difference(restarted, {150, 250}).error().message,
            "the counter went back within the window: it was restarted");
}

TEST(WindowOf, GaugesCountersAndReasons) {
  SampleStore store;
  const SignalId gauge = store.declare({.name = "g", .unit = "W"});
  const SignalId counter = store.declare({.name = "c", .kind = SignalKind::kCounter});
  const SignalId none = store.declare({.name = "n"});
  store.set_unavailable(none, "not supported");
  constexpr Nanoseconds kOneSecond = 1'000'000'000;
  for (int at = 0; at <= 4; ++at) {
    store.add(gauge, at * kOneSecond, 100 + at);
    store.add(counter, at * kOneSecond, at * 50);
  }
  const std::vector<SignalWindow> windows = window_of(store, {1 * kOneSecond, 3 * kOneSecond});
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_EQ(windows[0].aggregate->n, 3U);
  EXPECT_EQ(windows[0].aggregate->mean, 102);
  EXPECT_EQ(windows[1].difference, 100);
  EXPECT_EQ(windows[1].rate, 50);
  EXPECT_EQ(windows[2].reason, "not supported");
  EXPECT_EQ(window_json(windows[2]).dump(0), R"({"name":"n","unit":"","reason":"not supported"})");
}

}  // namespace
}  // namespace nibble::telemetry
