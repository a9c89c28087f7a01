#include "drive/join.h"

#include <gtest/gtest.h>

namespace nibble::drive {
namespace {

using load::Seen;
using telemetry::SignalKind;

constexpr Nanoseconds kOneSecond = 1'000'000'000;
constexpr load::Window kWindow{10 * kOneSecond, 20 * kOneSecond};

class JoinTest : public ::testing::Test {
 protected:
  JoinTest() {
    telemetry_.store = std::make_shared<telemetry::SampleStore>();
    // 1,000 output tokens and 5,000 in all came in the window's ten seconds.
    metrics_.output_throughput = 100;
    metrics_.total_throughput = 500;
    metrics_.durations.benchmark = 10;
  }

  telemetry::SampleStore& store() { return *telemetry_.store; }
  load::Joined joined(const load::Window& window = kWindow) {
    return join(&telemetry_, window, metrics_);
  }

  // Of the whole time from 8 s to 22 s.
  void gauge(const std::string& name, double value, Nanoseconds period = kOneSecond / 2,
             Nanoseconds until = 22 * kOneSecond) {
    const auto id = store().declare({.name = name});
    for (Nanoseconds at = 8 * kOneSecond; at <= until; at += period) store().add(id, at, value);
  }
  void counter(const std::string& name, double per_s) {
    const auto id = store().declare({.name = name, .kind = SignalKind::kCounter});
    for (Nanoseconds at = 8 * kOneSecond; at <= 22 * kOneSecond; at += kOneSecond / 2) {
      store().add(id, at, 1000 + seconds(at) * per_s);
    }
  }
  void lost(const std::string& name, const std::string& reason) {
    store().declare({.name = name, .available = false, .reason = reason});
  }
  void gpu(const std::string& owner, double watts) {
    gauge(owner + ".power", watts, kOneSecond / 20);
    counter(owner + ".energy", watts);
  }

  telemetry::Telemetry telemetry_;
  load::LevelMetrics metrics_;
};

TEST_F(JoinTest, AShareFarAboveOneIsAnAccountingError) {
  gauge("gpu0.tensor_active", 130);
  gauge("server.kv_usage", 75, kOneSecond);  // percent where a share belongs
  const load::Joined seen = joined();
  for (const Seen which : {Seen::kTensor, Seen::kKvUsage}) {
    EXPECT_FALSE(seen[which].value.has_value());
    EXPECT_NE(seen[which].reason.find("accounting error"), std::string::npos);
  }
}

TEST_F(JoinTest, OneGpuAndItsServer) {
  gpu("gpu0", 400);
  gauge("gpu0.tensor_active", 50);
  gauge("gpu0.dram_active", 102);  // two clocks: a share is never above 1
  gauge("gpu0.sm_active", 90);
  gauge("gpu0.clock_sm", 1500);
  counter("gpu0.throttle_power", 0.25);
  counter("gpu0.throttle_hw_power_brake", 0.125);  // within the same time
  counter("gpu0.throttle_thermal", 0.5);
  gauge("server.running", 32, kOneSecond);
  gauge("server.waiting", 3, kOneSecond);
  gauge("server.kv_usage", 0.75, kOneSecond);
  counter("server.preemptions", 0.5);
  gauge("cpu.utilization", 25);
  const load::Joined seen = joined();
  EXPECT_DOUBLE_EQ(seen[Seen::kRunning].value.value(), 32);
  EXPECT_DOUBLE_EQ(seen[Seen::kWaiting].value.value(), 3);
  EXPECT_DOUBLE_EQ(seen[Seen::kKvUsage].value.value(), 0.75);
  EXPECT_DOUBLE_EQ(seen[Seen::kPreemptions].value.value(), 5);
  EXPECT_DOUBLE_EQ(seen[Seen::kPower].value.value(), 400);
  EXPECT_DOUBLE_EQ(seen[Seen::kTensor].value.value(), 0.5);
  EXPECT_DOUBLE_EQ(seen[Seen::kDram].value.value(), 1);
  EXPECT_DOUBLE_EQ(seen[Seen::kSmActive].value.value(), 0.9);
  EXPECT_DOUBLE_EQ(seen[Seen::kSmClock].value.value(), 1500);
  EXPECT_NEAR(seen[Seen::kThrottled].value.value(), 0.75, 1e-12);
  EXPECT_DOUBLE_EQ(seen[Seen::kHostCpu].value.value(), 0.25);
  EXPECT_NEAR(seen[Seen::kEnergyPerOutput].value.value(), 4, 1e-9);   // 4,000 J / 1,000
  EXPECT_NEAR(seen[Seen::kEnergyPerTotal].value.value(), 0.8, 1e-9);  // 4,000 J / 5,000
  for (const load::SeenValue& one : seen.values) EXPECT_EQ(one.reason, "");
}

TEST_F(JoinTest, SeveralGpusAreSumsAndMeans) {
  gpu("gpu0", 400);
  gpu("gpu1", 200);
  gauge("gpu0.tensor_active", 60);
  gauge("gpu1.tensor_active", 20);
  gauge("gpu0.clock_sm", 1500);  // gpu1 does not tell
  const load::Joined seen = joined();
  EXPECT_DOUBLE_EQ(seen[Seen::kPower].value.value(), 600);
  EXPECT_DOUBLE_EQ(seen[Seen::kTensor].value.value(), 0.4);
  EXPECT_DOUBLE_EQ(seen[Seen::kSmClock].value.value(), 1500);
  EXPECT_NEAR(seen[Seen::kEnergyPerOutput].value.value(), 6, 1e-9);
}

TEST_F(JoinTest, ASumWithoutOneOfItsPartsIsNoNumber) {
  gpu("gpu0", 400);
  lost("gpu1.power", "GPU is lost");
  const load::Joined seen = joined();
  EXPECT_EQ(seen[Seen::kPower].value, std::nullopt);
  EXPECT_EQ(seen[Seen::kPower].reason, "gpu1.power: GPU is lost");
  EXPECT_EQ(seen[Seen::kEnergyPerOutput].value, std::nullopt);
  EXPECT_NE(seen[Seen::kEnergyPerOutput].reason.find("gpu1: "), std::string::npos);
}

TEST_F(JoinTest, GpusOfRemotesAreTheServers) {
  gpu("gpu0", 50);
  gauge("cpu.utilization", 90);
  gauge("node7:9753/clock.offset_bound", 1e-4);
  gauge("node7:9753/cpu.utilization", 10);
  gpu("node7:9753/gpu0", 300);
  gpu("node7:9753/gpu1", 300);
  const load::Joined seen = joined();
  EXPECT_DOUBLE_EQ(seen[Seen::kPower].value.value(), 600);
  EXPECT_DOUBLE_EQ(seen[Seen::kHostCpu].value.value(), 0.1);
  EXPECT_NEAR(seen[Seen::kEnergyPerOutput].value.value(), 6, 1e-9);
  // One more that was never reached: what it draws is missing.
  lost("node8:9753/clock.offset_bound", "node8:9753: connection refused");
  const load::Joined part = joined();
  EXPECT_EQ(part[Seen::kPower].reason, "node8:9753: node8:9753: connection refused");
  EXPECT_EQ(part[Seen::kEnergyPerTotal].value, std::nullopt);
}

TEST_F(JoinTest, ARemoteNeverReachedDoesNotMakeOurGpuTheServers) {
  gpu("gpu0", 50);
  gauge("cpu.utilization", 90);
  lost("node7:9753/clock.offset_bound", "not connected yet");
  const load::Joined seen = joined();
  EXPECT_EQ(seen[Seen::kPower].reason, "node7:9753: not connected yet");
  EXPECT_EQ(seen[Seen::kHostCpu].reason, "node7:9753: not connected yet");
}

TEST_F(JoinTest, ARemoteWithoutGpusLeavesOursToCount) {
  gpu("gpu0", 50);
  gauge("[::1]:9753/clock.offset_bound", 1e-4);
  gauge("[::1]:9753/cpu.utilization", 10);
  lost("[::1]:9753/gpu.power", "no NVML there");
  EXPECT_DOUBLE_EQ(joined()[Seen::kPower].value.value(), 50);
}

TEST_F(JoinTest, WithoutCountersTheMaskIsCounted) {
  const auto mask = store().declare({.name = "gpu0.throttle_mask"});
  // In the window 10, 12, ... 20 s: three of six under a cap; bit 0 is idle, no cap.
  for (int at = 8; at <= 22; at += 2) {
    store().add(mask, at * kOneSecond, at <= 14 ? 0x4 : 0x1);
  }
  EXPECT_DOUBLE_EQ(joined()[Seen::kThrottled].value.value(), 0.5);
  counter("gpu0.throttle_power", 0);
  counter("gpu0.throttle_thermal", 0);  // a driver that does not keep them
  EXPECT_DOUBLE_EQ(joined()[Seen::kThrottled].value.value(), 0.5);
}

TEST_F(JoinTest, ACounterThatWentBackIsAReason) {
  const auto id = store().declare({.name = "server.preemptions", .kind = SignalKind::kCounter});
  store().add(id, 9 * kOneSecond, 7);
  store().add(id, 15 * kOneSecond, 0);
  store().add(id, 21 * kOneSecond, 1);
  const load::SeenValue seen = joined()[Seen::kPreemptions];
  EXPECT_EQ(seen.value, std::nullopt);
  EXPECT_NE(seen.reason.find("went back"), std::string::npos) << seen.reason;
}

TEST_F(JoinTest, SeveralServersAddUpAndTheFullestCounts) {
  gauge("server.running", 10);
  gauge("server1.running", 20);
  gauge("server.kv_usage", 0.2);
  gauge("server1.kv_usage", 0.6);
  const load::Joined seen = joined();
  EXPECT_DOUBLE_EQ(seen[Seen::kRunning].value.value(), 30);
  EXPECT_DOUBLE_EQ(seen[Seen::kKvUsage].value.value(), 0.6);
}

TEST_F(JoinTest, AGaugeThatFellSilentIsAReason) {
  gauge("server.running", 10, kOneSecond / 2,
        14 * kOneSecond);  // 6 s of the window's 10 are missing
  const load::SeenValue seen = joined()[Seen::kRunning];
  EXPECT_EQ(seen.value, std::nullopt);
  EXPECT_EQ(seen.reason, "server.running: no sample in 6.0 s of the window's 10.0 s");
  EXPECT_EQ(joined({10 * kOneSecond, 16 * kOneSecond})[Seen::kRunning].value, 10);
}

TEST_F(JoinTest, EnergyOfAShortWindowIsNoNumber) {
  gpu("gpu0", 400);
  const load::Joined seen = joined({10 * kOneSecond, 14 * kOneSecond});
  EXPECT_DOUBLE_EQ(seen[Seen::kPower].value.value(), 400);
  EXPECT_EQ(seen[Seen::kEnergyPerOutput].reason,
            "gpu0: the window is 4.0 s long; energy needs 5 s");
}

TEST_F(JoinTest, WithoutTokensThereIsNoEnergyPerToken) {
  gpu("gpu0", 400);
  metrics_.output_throughput = 0;
  metrics_.total_throughput.reset();
  const load::Joined seen = joined();
  EXPECT_EQ(seen[Seen::kEnergyPerOutput].reason, "no tokens came in the window");
  EXPECT_EQ(seen[Seen::kEnergyPerTotal].reason, "no tokens came in the window");
}

TEST_F(JoinTest, WhatIsMissingHasAReason) {
  lost("gpu.power", "no NVML here");
  const load::Window empty{5, 5};
  for (const load::Joined& seen : {joined(), joined(empty), join(nullptr, kWindow, metrics_)}) {
    for (const load::SeenValue& one : seen.values) {
      EXPECT_EQ(one.value, std::nullopt);
      EXPECT_NE(one.reason, "");
    }
  }
  EXPECT_EQ(joined()[Seen::kTensor].reason, "no NVML here");
  EXPECT_EQ(joined()[Seen::kEnergyPerOutput].reason, "no NVML here");
}

TEST(WaitForSamples, WaitsForTheNextScrapeAtMost) {
  const Nanoseconds begin = monotonic_now();
  wait_for_samples({0, begin - 2 * kOneSecond});
  EXPECT_LT(monotonic_now() - begin, kOneSecond);
  wait_for_samples({0, begin - kOneSecond});  // 0.2 s are left
  EXPECT_GE(monotonic_now() - begin, kOneSecond / 5);
}

}  // namespace
}  // namespace nibble::drive
