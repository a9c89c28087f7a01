#include "mock/simulated_gpu.h"

#include <cmath>
#include <gtest/gtest.h>

#include "mock/gpu_telemetry.h"
#include "mock/test_time.h"

namespace nibble::mock {
namespace {

// Round watts; what is drawn does not heat.
GpuScript round_watts() {
  GpuScript script;
  script.idle_w = 100;
  script.copy_w = 400;
  script.matrix_w = 700;
  script.waiting_w = 150;
  script.limit_w = 1000;
  script.heat = {.ambient_c = 30, .c_per_w = 0};
  return script;
}

// 80 ms: half of it reading, a quarter computing, the rest in collectives.
constexpr RankTimes kMixed = {
    .memory = 40 * kMs, .compute = 20 * kMs, .collective = 5 * kMs, .waiting = 15 * kMs};

TEST(SimulatedGpu, IdlesAtFirst) {
  SimulatedGpu gpu(round_watts(), 1, 0);
  const GpuReading reading = gpu.read(100 * kMs);
  EXPECT_EQ(reading.power_w, 100);
  EXPECT_EQ(reading.sm_active, 0);
  EXPECT_EQ(reading.utilization, 0);
  EXPECT_EQ(reading.clock_mhz, 1980);
  EXPECT_EQ(reading.temperature_c, 30);
  EXPECT_EQ(reading.energy_j, 10);
}

TEST(SimulatedGpu, SharesAndPowerAreThoseOfItsParts) {
  SimulatedGpu gpu(round_watts(), 1, 0);
  gpu.run(0, kMixed);
  const GpuReading reading = gpu.read(100 * kMs);
  EXPECT_NEAR(reading.dram_active, 0.4, 1e-12);
  EXPECT_NEAR(reading.tensor_active, 0.2, 1e-12);
  EXPECT_NEAR(reading.sm_active, 0.8, 1e-12);
  EXPECT_NEAR(reading.utilization, 0.8, 1e-12);  // four of five slices
  // 100 + 0.4 x 300 + 0.2 x 600 + 0.2 x 50
  EXPECT_NEAR(reading.power_w, 350, 1e-9);
  EXPECT_NEAR(reading.energy_j, 35, 1e-9);
  EXPECT_EQ(reading.power_throttle_s, 0);
  EXPECT_EQ(gpu.read(200 * kMs).dram_active, 0);
}

TEST(SimulatedGpu, AStepIsSpreadEvenlyOverReadings) {
  SimulatedGpu gpu(round_watts(), 1, 0);
  gpu.run(60 * kMs, kMixed);
  const GpuReading first = gpu.read(100 * kMs);
  const GpuReading second = gpu.read(200 * kMs);
  EXPECT_NEAR(first.dram_active, 0.2, 1e-12);
  EXPECT_NEAR(second.dram_active, 0.2, 1e-12);
  EXPECT_NEAR(first.sm_active, 0.4, 1e-12);
  EXPECT_NEAR(second.energy_j, 35 + 10, 1e-9);
}

TEST(SimulatedGpu, ShortGapsDoNotShowInUtilization) {
  SimulatedGpu gpu(round_watts(), 1, 0);
  for (Nanoseconds start = 0; start < 100 * kMs; start += 10 * kMs) {
    gpu.run(start, {.memory = 2 * kMs});
  }
  const GpuReading reading = gpu.read(100 * kMs);
  EXPECT_NEAR(reading.sm_active, 0.2, 1e-12);
  EXPECT_NEAR(reading.utilization, 1, 1e-12);
}

TEST(SimulatedGpu, APowerCapIsMet) {
  GpuScript script = round_watts();
  script.power_cap_w = 250;
  SimulatedGpu gpu(script, 1, 0);
  // Computing alone: 600 W above idle, of which a quarter is allowed: half the clock.
  const GpuClock clock = gpu.clock_for({.compute_ms = 50}, 0);
  EXPECT_TRUE(clock.held_by_power);
  EXPECT_NEAR(clock.share, 0.5, 1e-9);
  gpu.run(0, {.compute = 100 * kMs, .clock = clock});
  const GpuReading reading = gpu.read(200 * kMs);
  EXPECT_NEAR(reading.energy_j, 25 + 10, 1e-6);
  EXPECT_NEAR(reading.power_throttle_s, 0.1, 1e-12);
  EXPECT_EQ(reading.heat_throttle_s, 0);
  EXPECT_NEAR(reading.clock_mhz, 990, 1e-6);
}

TEST(SimulatedGpu, APowerCapIsMetByMixedWork) {
  GpuScript script = round_watts();
  script.power_cap_w = 300;
  SimulatedGpu gpu(script, 1, 0);
  const RankWork work{.memory_ms = 40, .compute_ms = 30, .collective_ms = 5, .gap_ms = 10};
  const GpuClock clock = gpu.clock_for(work, 90);
  ASSERT_TRUE(clock.held_by_power);
  // The others need 90 ms: this rank waits for what is left of them.
  const double compute = 30 / clock.share;
  ASSERT_LT(40 + compute, 90);
  const auto span = [](double length_ms) { return from_milliseconds(length_ms); };
  gpu.run(0, {.memory = span(40),
              .compute = span(compute),
              .collective = span(5),
              .waiting = span(90 - 40 - compute),
              .clock = clock});
  EXPECT_NEAR(gpu.read(105 * kMs).power_w, 300, 1e-3);
}

TEST(SimulatedGpu, ACapThatDoesNotBindDoesNothing) {
  GpuScript script = round_watts();
  script.power_cap_w = 701;
  SimulatedGpu gpu(script, 1, 0);
  const GpuClock clock = gpu.clock_for({.compute_ms = 50}, 0);
  EXPECT_EQ(clock.share, 1);
  EXPECT_FALSE(clock.held_by_power);
}

TEST(SimulatedGpu, ALowClockDrawsLess) {
  SimulatedGpu gpu(round_watts(), 0.5, 0);
  gpu.run(0, {.compute = 100 * kMs});
  const GpuReading reading = gpu.read(100 * kMs);
  EXPECT_NEAR(reading.power_w, 100 + 600 * 0.25, 1e-9);
  EXPECT_NEAR(reading.clock_mhz, 990, 1e-9);
}

TEST(SimulatedGpu, TemperatureFollowsPowerWithALag) {
  GpuScript script = round_watts();
  script.heat = {.ambient_c = 30, .c_per_w = 0.1, .seconds = 2, .limit_c = 85};
  SimulatedGpu gpu(script, 1, 0);
  EXPECT_NEAR(gpu.temperature_c(), 40, 1e-12);  // idle
  gpu.run(0, {.compute = 2000 * kMs});
  // Towards 30 + 70: after one time constant 1 / e of the 60 degrees is left, whoever looks when.
  for (Nanoseconds at = 100 * kMs; at <= 2000 * kMs; at += 100 * kMs) gpu.advance(at);
  EXPECT_NEAR(gpu.temperature_c(), 100 - 60 * std::exp(-1.0), 1e-9);
  EXPECT_FALSE(gpu.clock_for({.compute_ms = 1}, 0).held_by_heat);
  gpu.run(2000 * kMs, {.compute = 2000 * kMs});
  gpu.advance(4000 * kMs);
  const double hot = 100 - 60 * std::exp(-2.0);  // 91.88
  EXPECT_NEAR(gpu.temperature_c(), hot, 1e-9);
  const GpuClock clock = gpu.clock_for({.compute_ms = 1}, 0);
  EXPECT_TRUE(clock.held_by_heat);
  EXPECT_FALSE(clock.held_by_power);
  EXPECT_NEAR(clock.share, 1 - 0.02 * (hot - 85), 1e-9);
  gpu.run(4000 * kMs, {.compute = 100 * kMs, .clock = clock});
  EXPECT_NEAR(gpu.read(5000 * kMs).heat_throttle_s, 0.1, 1e-9);
}

TEST(SimulatedGpu, SensorsHaveNvmlsNamesAndUnits) {
  GpuScript script = round_watts();
  script.power_cap_w = 650;
  script.link_width = 8;
  std::vector<SimulatedGpu> gpus(2, SimulatedGpu(script, 1, 0));
  gpus[1].run(0, kMixed);
  GpuTelemetry sensors(script, gpus.size());
  sensors.sample(gpus, 100 * kMs);
  const auto value = [&](std::string_view name) {
    const auto id = sensors.store()->find(name);
    if (!id) return -1.0;
    const telemetry::SignalState state = sensors.store()->state(*id);
    EXPECT_EQ(state.latest->at, 100 * kMs) << name;
    return state.latest->value;
  };
  EXPECT_NEAR(value("gpu1.dram_active"), 40, 1e-9);
  EXPECT_NEAR(value("gpu1.tensor_active"), 20, 1e-9);
  EXPECT_NEAR(value("gpu1.sm_active"), 80, 1e-9);
  EXPECT_NEAR(value("gpu1.power"), 350, 1e-9);
  EXPECT_EQ(value("gpu0.power"), 100);
  EXPECT_EQ(value("gpu0.power_limit"), 650);
  EXPECT_EQ(value("gpu0.pcie_generation"), 5);
  EXPECT_EQ(value("gpu0.pcie_width"), 8);
  EXPECT_EQ(value("gpu0.throttle_power"), 0);
  EXPECT_EQ(value("gpu0.throttle_thermal"), 0);
  EXPECT_EQ(value("gpu0.temperature"), 30);
  EXPECT_EQ(value("gpu0.clock_sm"), 1980);
  EXPECT_EQ(value("gpu0.utilization"), 0);
  EXPECT_EQ(value("gpu0.energy"), 10);
}

}  // namespace
}  // namespace nibble::mock
