#include "telemetry/energy.h"

#include <gtest/gtest.h>

namespace nibble::telemetry {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kTenth = kSecond / 10;
constexpr EnergyCadence kCadence{.power = kTenth, .counter = kSecond / 2};

// 400 W at all times, sampled each 100 ms.
std::vector<Point> steady_power(double watts = 400) {
  std::vector<Point> points;
  for (int at = 0; at <= 100; ++at) points.push_back({at * kTenth, watts});
  return points;
}

std::vector<Point> steady_counter(double watts) {
  std::vector<Point> points;
  for (int at = 0; at <= 20; ++at) points.push_back({at * kSecond / 2, 1000 + watts * at / 2});
  return points;
}

TEST(Integrate, IsExactOnALineAndAtBothEnds) {
  // From 0 W to 100 W over ten seconds: the integral of 10 t from 2.5 to 7.5 is 5 (56.25 - 6.25).
  std::vector<Point> points;
  for (int at = 0; at <= 10; ++at) points.push_back({at * kSecond, 10.0 * at});
  const Result<double> joules = integrate(points, {5 * kSecond / 2, 15 * kSecond / 2}, kSecond);
  ASSERT_TRUE(joules.ok());
  EXPECT_NEAR(*joules, 250, 1e-9);
}

TEST(Integrate, RefusesGapsAndUncoveredEnds) {
  std::vector<Point> points = steady_power();
  EXPECT_FALSE(integrate(points, {-kSecond, kSecond}, kTenth).ok());
  EXPECT_FALSE(integrate(points, {9 * kSecond, 11 * kSecond}, kTenth).ok());
  points.erase(points.begin() + 50);  // 200 ms between two samples: just allowed
  EXPECT_TRUE(integrate(points, {kSecond, 9 * kSecond}, kTenth).ok());
  points.erase(points.begin() + 50);
  const Result<double> joules = integrate(points, {kSecond, 9 * kSecond}, kTenth);
  ASSERT_FALSE(joules.ok());
  EXPECT_EQ(joules.error().message,
            "power has a gap of 300 ms; more than twice its cadence of 100 ms is a hole");
  // A gap outside of the window does not matter.
  EXPECT_TRUE(integrate(points, {kSecond, 4 * kSecond}, kTenth).ok());
}

TEST(WindowEnergy, CounterAndIntegralAgree) {
  const Window window{kSecond + kTenth / 3, 7 * kSecond + kTenth / 3};
  const WindowEnergy energy =
      window_energy(steady_power(400), steady_counter(400), window, kCadence);
  ASSERT_TRUE(energy.valid) << energy.reason;
  EXPECT_NEAR(energy.joules, 2400, 1e-6);  // 400 W for 6 s
  EXPECT_NEAR(*energy.integral_j, 2400, 1e-6);
  EXPECT_NEAR(*energy.residual, 0, 1e-9);
}

TEST(WindowEnergy, ShowsTheResidualAndIsVoidAboveFivePercent) {
  const Window window{kSecond, 7 * kSecond};
  const WindowEnergy close =
      window_energy(steady_power(412), steady_counter(400), window, kCadence);
  ASSERT_TRUE(close.valid) << close.reason;
  EXPECT_NEAR(*close.residual, 0.03, 1e-9);
  const WindowEnergy apart =
      window_energy(steady_power(424), steady_counter(400), window, kCadence);
  EXPECT_FALSE(apart.valid);
  EXPECT_NEAR(*apart.residual, 0.06, 1e-9);
  EXPECT_EQ(apart.reason, "counter (2400 J) and integrated power (2544 J) differ by 6.00 %");
  EXPECT_TRUE(energy_json(apart).find("joules")->is_null());
}

TEST(WindowEnergy, NeedsFiveSeconds) {
  const WindowEnergy brief =
      window_energy(steady_power(), steady_counter(400), {kSecond, 6 * kSecond - 1}, kCadence);
  EXPECT_FALSE(brief.valid);
  EXPECT_EQ(brief.reason, "the window is 5.0 s long; energy needs 5 s");
  EXPECT_TRUE(
      window_energy(steady_power(), steady_counter(400), {kSecond, 6 * kSecond}, kCadence).valid);
}

TEST(WindowEnergy, ACounterThatStandsOrGoesBackIsVoid) {
  const Window window{kSecond, 7 * kSecond};
  EXPECT_EQ(window_energy(steady_power(), steady_counter(0), window, kCadence).reason,
            "the energy counter stands still");
  std::vector<Point> back = steady_counter(400);
  back[8].value = 0;
  EXPECT_EQ(window_energy(steady_power(), back, window, kCadence).reason,
            "energy counter: the counter went back within the window: it was restarted");
  EXPECT_FALSE(window_energy(std::span<const Point>(), {}, window, kCadence).valid);
}

TEST(WindowEnergy, OfAStoreNamesWhatIsMissing) {
  SampleStore store;
  const Window window{kSecond, 7 * kSecond};
  EXPECT_EQ(window_energy(store, "gpu0", window, kCadence).reason, "gpu0 has no signal \"energy\"");
  const SignalId power = store.declare({.name = "gpu0.power"});
  const SignalId energy = store.declare({.name = "gpu0.energy", .kind = SignalKind::kCounter});
  store.set_unavailable(power, "field 186: Not Supported");
  for (const Point& point : steady_counter(400)) store.add(energy, point.at, point.value);
  EXPECT_EQ(window_energy(store, "gpu0", window, kCadence).reason,
            "power: field 186: Not Supported");
  for (const Point& point : steady_power(400)) store.add(power, point.at, point.value);
  EXPECT_TRUE(window_energy(store, "gpu0", window, kCadence).valid);
}

TEST(TotalEnergy, NeedsEveryPart) {
  const Window window{kSecond, 7 * kSecond};
  const WindowEnergy good = window_energy(steady_power(400), steady_counter(400), window, kCadence);
  WindowEnergy bad;
  bad.reason = "no counter";
  const std::vector<WindowEnergy> both = {good, good};
  EXPECT_NEAR(total_energy(both).joules, 4800, 1e-6);
  const std::vector<WindowEnergy> mixed = {good, bad};
  EXPECT_FALSE(total_energy(mixed).valid);
  EXPECT_EQ(total_energy(mixed).reason, "no counter");
  EXPECT_FALSE(total_energy({}).valid);
}

}  // namespace
}  // namespace nibble::telemetry
