#include "drive/run_series.h"

#include <gtest/gtest.h>

namespace nibble::drive {
namespace {

using telemetry::SampleStore;
using telemetry::SignalKind;
constexpr Nanoseconds kS = 1'000'000'000;

TEST(RunSeries, GaugesAndTheRatesOfCountersOfEveryOwner) {
  SampleStore store;
  const auto power = store.declare({.name = "gpu0.power", .unit = "W"});
  const auto steps = store.declare(
      {.name = "server.steps", .unit = "steps", .kind = SignalKind::kCounter, .low = 0});
  const auto remote = store.declare({.name = "node7:9753/gpu3.power", .unit = "W"});
  store.declare({.name = "gpu0.tensor_active", .unit = "%"});  // never sampled
  const auto early = store.declare({.name = "cpu.utilization", .unit = "%"});
  // A run from 10 to 12 s: twenty bins of 0.1 s.
  const load::SeriesGrid grid({10 * kS, 12 * kS});
  ASSERT_EQ(grid.bins(), 20U);
  store.add(power, 10 * kS, 400);
  store.add(power, 10 * kS + 50'000'000, 500);
  store.add(steps, 9 * kS, 0);  // before the run: the first rate needs it
  store.add(steps, 11 * kS, 100);
  store.add(steps, 12 * kS, 300);
  store.add(steps, 13 * kS, 300);
  store.add(remote, 11 * kS, 700);
  store.add(early, 9 * kS, 50);

  const std::vector<load::Series> all = sampled_series(store, grid);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "gpu0.power");
  EXPECT_EQ(all[0].unit, "W");
  ASSERT_EQ(all[0].points.size(), 1U);
  EXPECT_EQ(all[0].points[0].second, 450);
  EXPECT_EQ(all[1].name, "server.steps");
  EXPECT_EQ(all[1].unit, "steps/s");
  // 50/s at 10 s, 200/s at 11.5 s; the one at 12.5 s is after the run.
  ASSERT_EQ(all[1].points.size(), 2U);
  EXPECT_NEAR(all[1].points[0].first, 0.05, 1e-9);
  EXPECT_EQ(all[1].points[0].second, 50);
  EXPECT_NEAR(all[1].points[1].first, 1.55, 1e-9);
  EXPECT_EQ(all[1].points[1].second, 200);
  EXPECT_EQ(all[2].name, "node7:9753/gpu3.power");
}

}  // namespace
}  // namespace nibble::drive
