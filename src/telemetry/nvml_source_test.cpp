#include "telemetry/nvml_source.h"

#include <gtest/gtest.h>
#include <thread>

#include "base/dynamic_library.h"
#include "base/eventually.h"

namespace nibble::telemetry {
namespace {

// The stand-in of src/machine/fake_nvml.c: GPU 0 can do all, GPU 1 lacks instant power and GPM.
class NvmlSourceTest : public ::testing::Test {
 protected:
  NvmlSourceTest() : control_(DynamicLibrary::open({NIBBLE_FAKE_NVML})) {
    control_.symbol<void()>("fake_nvml_reset")();
  }
  double& set(const char* name) {
    return *control_.symbol<double*(const char*)>("fake_nvml_state")(name);
  }
  void open() {
    sources_ = nvml_sources(std::make_shared<const Nvml>(Nvml::open(NIBBLE_FAKE_NVML)), store_);
  }
  Source& source(const std::string& name) {
    for (const auto& candidate : sources_) {
      if (candidate->info().name == name) return *candidate;
    }
    throw std::runtime_error("no source " + name);
  }
  SignalState state(std::string_view name) {
    const std::optional<SignalId> id = store_.find(name);
    return id ? store_.state(*id) : SignalState{};
  }
  double latest(std::string_view name) {
    const SignalState found = state(name);
    return found.latest ? found.latest->value : -1;
  }

  DynamicLibrary control_;
  SampleStore store_;
  std::vector<std::unique_ptr<Source>> sources_;
};

TEST_F(NvmlSourceTest, EachGroupOfReadings) {
  open();
  set("energy_mj") = 123456;
  for (const char* name : {"power of gpu0", "energy counter of gpu0", "state of gpu0"}) {
    const Result<> result = source(name).sample();
    EXPECT_TRUE(result.ok()) << result.error().message;
  }
  EXPECT_EQ(latest("gpu0.power"), 445);
  EXPECT_EQ(latest("gpu0.power_average"), 445);
  EXPECT_EQ(latest("gpu0.energy"), 123.456);
  EXPECT_EQ(latest("gpu0.clock_sm"), 1980);
  EXPECT_EQ(latest("gpu0.clock_memory"), 3201);
  EXPECT_EQ(latest("gpu0.temperature"), 61);
  EXPECT_EQ(latest("gpu0.utilization"), 97);
  EXPECT_EQ(latest("gpu0.throttle_mask"), 4);
  EXPECT_EQ(latest("gpu0.memory_used"), 50.0 * (1 << 30));
  EXPECT_EQ(latest("gpu0.pcie_generation"), 5);
  EXPECT_EQ(latest("gpu0.pcie_width"), 16);
  EXPECT_EQ(latest("gpu0.power_limit"), 700);
  EXPECT_EQ(latest("gpu0.pcie_generation_max"), 6);
  EXPECT_EQ(latest("gpu0.pcie_width_max"), 32);
  EXPECT_EQ(latest("gpu0.clock_sm_max"), 2010);
  EXPECT_EQ(latest("gpu0.temperature_slowdown"), 87);
  EXPECT_NEAR(latest("gpu0.throttle_power"), 1.202176, 1e-9);  // 1202176 us
  EXPECT_EQ(latest("gpu0.nvlink_tx"), 2048 * 1024);            // KiB of all links
  EXPECT_EQ(state("gpu0.nvlink_rx").signal.reason, "field 139: Not Supported");
  EXPECT_EQ(state("gpu0.pcie_tx").signal.reason, "field 197: Not Supported");
}

TEST_F(NvmlSourceTest, LimitsThatAFailingDriverDidNotTellAreAskedForAgain) {
  open();
  set("fail") = 15;
  EXPECT_FALSE(source("state of gpu0").sample().ok());
  EXPECT_EQ(state("gpu0.clock_sm_max").signal.reason, "most clock: GPU is lost");
  set("fail") = 0;
  EXPECT_TRUE(source("state of gpu0").sample().ok());
  EXPECT_EQ(latest("gpu0.clock_sm_max"), 2010);
  EXPECT_TRUE(source("state of gpu1").sample().ok());
  EXPECT_EQ(state("gpu1.temperature_slowdown").signal.reason,
            "slowdown temperature: Not Supported");
}

TEST_F(NvmlSourceTest, PcieIsAskedForItsRateWhereBytesAreNotCounted) {
  open();
  ASSERT_TRUE(source("PCIe throughput of gpu0").sample().ok());
  EXPECT_EQ(latest("gpu0.pcie_tx_rate"), 1500e3);
  EXPECT_EQ(latest("gpu0.pcie_rx_rate"), 2500e3);
  EXPECT_NE(source("PCIe throughput of gpu0").info().lane, source("power of gpu0").info().lane);
  EXPECT_NE(source("energy counter of gpu0").info().lane, source("power of gpu0").info().lane);
}

TEST_F(NvmlSourceTest, ReadsTheSlowdownCountersUnderEitherNumbering) {
  for (const double base : {269.0, 251.0}) {
    set("numbering") = base;
    open();
    ASSERT_TRUE(source("state of gpu0").sample().ok());
    // The stand-in counts 1 ms for each step of the field's number.
    EXPECT_NEAR(latest("gpu0.throttle_sw_thermal"), base * 1e-3, 1e-9);
    EXPECT_NEAR(latest("gpu0.throttle_hw_power_brake"), (base + 2) * 1e-3, 1e-9);
  }
}

TEST_F(NvmlSourceTest, AnUnclearNumberingIsNotGuessed) {
  set("numbering") = 0;  // both answer
  open();
  ASSERT_TRUE(source("state of gpu0").sample().ok());
  EXPECT_FALSE(state("gpu0.throttle_hw_thermal").signal.available);
  EXPECT_NE(state("gpu0.throttle_hw_thermal").signal.reason.find("both answer"), std::string::npos);
  set("numbering") = 1;  // neither does
  open();
  ASSERT_TRUE(source("state of gpu0").sample().ok());
  EXPECT_NE(state("gpu0.throttle_hw_thermal").signal.reason.find("neither"), std::string::npos);
  EXPECT_TRUE(state("gpu0.throttle_power").signal.available);
}

TEST_F(NvmlSourceTest, InstantPowerIsNeverReplacedByTheAverage) {
  open();
  ASSERT_TRUE(source("power of gpu1").sample().ok());
  EXPECT_FALSE(state("gpu1.power").signal.available);
  EXPECT_EQ(state("gpu1.power").signal.reason, "field 186: Not Supported");
  EXPECT_EQ(latest("gpu1.power_average"), 445);
}

TEST_F(NvmlSourceTest, GpmGivesSharesAndReasons) {
  // Two samples that are too near to each other: no reading, and no fault. Where the machine held
  // them apart, two others, of a source of their own.
  EXPECT_TRUE(eventually([&] {
    open();
    const std::uint64_t before = state("gpu0.tensor_active").kept;
    const Nanoseconds begin = monotonic_now();
    for (int time = 0; time < 2; ++time) EXPECT_TRUE(source("GPM of gpu0").sample().ok());
    if (monotonic_now() - begin >= GpmReader::kGpmSpacing) return false;
    EXPECT_EQ(state("gpu0.tensor_active").kept, before);
    return true;
  }));
  Source& gpm = source("GPM of gpu0");
  std::this_thread::sleep_for(std::chrono::milliseconds(115));
  ASSERT_TRUE(gpm.sample().ok());
  EXPECT_EQ(latest("gpu0.tensor_active"), 92);
  EXPECT_EQ(latest("gpu0.dram_active"), 20);
  EXPECT_EQ(latest("gpu0.sm_active"), 99);
  EXPECT_EQ(state("gpu0.fp64_active").signal.reason, "GPM metric 11: not a number");
  EXPECT_EQ(state("gpu0.gpm_nvlink_rx").signal.reason, "GPM metric 60: Not Supported");
  set("tensor") = 1e9;  // an error of the driver is not a great result
  std::this_thread::sleep_for(std::chrono::milliseconds(115));
  ASSERT_TRUE(gpm.sample().ok());
  EXPECT_EQ(latest("gpu0.tensor_active"), 92);
  EXPECT_EQ(state("gpu0.tensor_active").dropped, 1U);
}

TEST_F(NvmlSourceTest, WithoutGpmTensorActivityHasAReasonAndNoSubstitute) {
  open();
  EXPECT_FALSE(source("GPM of gpu1").sample().ok());
  EXPECT_FALSE(state("gpu1.tensor_active").signal.available);
  EXPECT_NE(state("gpu1.tensor_active").signal.reason.find("this GPU has none"), std::string::npos);
  EXPECT_EQ(state("gpu1.tensor_active").kept, 0U);
}

TEST_F(NvmlSourceTest, ALostGpuIsAnErrorWithItsReason) {
  open();
  ASSERT_TRUE(source("power of gpu0").sample().ok());
  set("fail") = 15;
  for (const char* name : {"power of gpu0", "energy counter of gpu0", "state of gpu0"}) {
    const Result<> result = source(name).sample();
    ASSERT_FALSE(result.ok()) << name;
    EXPECT_NE(result.error().message.find("GPU is lost"), std::string::npos);
  }
  EXPECT_FALSE(state("gpu0.power").signal.available);
  set("fail") = 0;
  ASSERT_TRUE(source("power of gpu0").sample().ok());
  EXPECT_TRUE(state("gpu0.power").signal.available);
}

TEST_F(NvmlSourceTest, ADriverWithoutAGpuSaysSo) {
  set("devices") = 0;
  open();
  EXPECT_TRUE(sources_.empty());
  EXPECT_EQ(state("gpu.power").signal.reason, "NVML is there and counts no GPU");
}

TEST(NvmlSources, WithoutADriverOneSignalSaysWhy) {
  SampleStore store;
  const auto nvml = std::make_shared<const Nvml>(Nvml::open("libno-such-thing.so.9"));
  EXPECT_TRUE(nvml_sources(nvml, store).empty());
  const SignalState power = store.state(*store.find("gpu.power"));
  EXPECT_FALSE(power.signal.available);
  EXPECT_NE(power.signal.reason.find("libno-such-thing.so.9"), std::string::npos);
}

TEST(ThrottleText, NamesCausesAndNoStates) {
  EXPECT_EQ(throttle_text(0), "");
  EXPECT_EQ(throttle_text(0x1 | 0x2 | 0x10 | 0x100), "");
  EXPECT_EQ(throttle_text(0x4), "power cap");
  EXPECT_EQ(throttle_text(0x8 | 0x20 | 0x40 | 0x80),
            "hardware slowdown, thermal, hardware thermal, power brake");
}

}  // namespace
}  // namespace nibble::telemetry
