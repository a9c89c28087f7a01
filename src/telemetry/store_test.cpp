#include "telemetry/store.h"

#include <cmath>
#include <gtest/gtest.h>
#include <thread>

namespace nibble::telemetry {
namespace {

TEST(SampleStore, KeepsPointsOfAWindowAndItsMargin) {
  SampleStore store;
  const SignalId id = store.declare({.name = "a"});
  for (int at = 10; at <= 50; at += 10) EXPECT_TRUE(store.add(id, at, at * 2));
  const std::vector<Point> inside = store.points(id, 20, 40);
  ASSERT_EQ(inside.size(), 3U);
  EXPECT_EQ(inside.front().at, 20);
  EXPECT_EQ(inside.back().value, 80);
  const std::vector<Point> wider = store.points(id, 20, 40, true);
  ASSERT_EQ(wider.size(), 5U);
  EXPECT_EQ(wider.front().at, 10);
  EXPECT_EQ(wider.back().at, 50);
  EXPECT_TRUE(store.points(id, 40, 20).empty());
  EXPECT_TRUE(store.points(id, 21, 29).empty());
  EXPECT_EQ(store.points(id, 21, 29, true).size(), 2U);
}

TEST(SampleStore, DropsAndCountsWhatIsImplausible) {
  SampleStore store;
  const SignalId id = store.declare({.name = "gpu0.power", .unit = "W", .low = 0, .high = 5000});
  EXPECT_FALSE(store.add(id, 1, 4294967.295));  // the driver's 0xFFFFFFFF mW
  EXPECT_EQ(store.state(id).dropped_why, "4294967 is outside of 0 to 5000 W");
  EXPECT_FALSE(store.add(id, 2, std::nan("")));
  EXPECT_FALSE(store.add(id, 2, INFINITY));
  EXPECT_EQ(store.state(id).dropped_why, "not a finite number");
  EXPECT_TRUE(store.add(id, 10, 5000));
  EXPECT_TRUE(store.add(id, 10, 0));  // the same moment is no fault
  EXPECT_FALSE(store.add(id, 9, 1));
  EXPECT_EQ(store.state(id).dropped_why, "older than the sample before it");
  EXPECT_EQ(store.state(id).kept, 2U);
  EXPECT_EQ(store.state(id).dropped, 4U);
}

TEST(SampleStore, AValueMakesASignalAvailableAgain) {
  SampleStore store;
  const SignalId id = store.declare({.name = "a"});
  store.set_unavailable(id, "it died");
  EXPECT_FALSE(store.state(id).signal.available);
  EXPECT_EQ(store.state(id).signal.reason, "it died");
  store.add(id, 1, 1);
  EXPECT_TRUE(store.state(id).signal.available);
  EXPECT_EQ(store.state(id).signal.reason, "");
}

TEST(SampleStore, ForgetsWhatIsOlderThanItsRetention) {
  SampleStore store(100);
  const SignalId id = store.declare({.name = "a"});
  for (int at = 0; at <= 1000; at += 10) store.add(id, at, at);
  const std::vector<Point> kept = store.points(id, 0, 1000);
  EXPECT_EQ(kept.front().at, 900);
  EXPECT_EQ(kept.size(), 11U);
  EXPECT_EQ(store.state(id).kept, 101U);
}

TEST(SampleStore, DeclaringANameAgainReplacesItsDescription) {
  SampleStore store;
  const SignalId first = store.declare({.name = "a", .unit = "W"});
  EXPECT_EQ(store.declare({.name = "a", .unit = "kW"}), first);
  EXPECT_EQ(store.state(first).signal.unit, "kW");
  EXPECT_EQ(store.size(), 1U);
  EXPECT_EQ(store.find("a"), first);
  EXPECT_EQ(store.find("b"), std::nullopt);
}

TEST(SampleStore, TellsSubscribersUntilTheyLeave) {
  SampleStore store;
  const SignalId early = store.declare({.name = "early"});
  std::vector<std::string> seen;
  const int number = store.subscribe(
      [&](SignalId, const Signal& signal) {
        seen.push_back(signal.name + (signal.available ? "+" : "-"));
      },
      [&](SignalId id, const Point& point) {
        seen.push_back(fmt::format("{}@{}={}", id, point.at, point.value));
      });
  store.add(early, 5, 1.5);
  store.set_unavailable(early, "gone");
  store.set_unavailable(early, "gone");  // nothing new
  store.add(early, 6, 2);
  store.add(early, 4, 2);  // dropped
  store.unsubscribe(number);
  store.add(early, 7, 3);
  const std::vector<std::string> expected = {"early+", "0@5=1.5", "early-", "early+", "0@6=2"};
  EXPECT_EQ(seen, expected);
}

TEST(SampleStore, TakesSamplesFromManyThreads) {
  SampleStore store;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&store, thread] {
      const SignalId id = store.declare({.name = fmt::format("s{}", thread)});
      for (int at = 0; at < 1000; ++at) store.add(id, at, at);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const SignalState& state : store.states()) EXPECT_EQ(state.kept, 1000U);
  EXPECT_EQ(store.size(), 4U);
}

}  // namespace
}  // namespace nibble::telemetry
