#include "machine/nvml_device.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

using namespace nvml_abi;

constexpr Nanoseconds kMillisecond = 1'000'000;

// The stand-in of fake_nvml.c with its numbers at their start.
class NvmlDeviceTest : public ::testing::Test {
 protected:
  NvmlDeviceTest() : control_(DynamicLibrary::open({NIBBLE_FAKE_NVML})) {
    control_.symbol<void()>("fake_nvml_reset")();
    nvml_ = std::make_shared<const Nvml>(Nvml::open(NIBBLE_FAKE_NVML));
  }
  double& state(const char* name) {
    return *control_.symbol<double*(const char*)>("fake_nvml_state")(name);
  }
  NvmlDevice gpu(int index) { return std::move(NvmlDevice::open(nvml_, index)).value(); }

  DynamicLibrary control_;
  std::shared_ptr<const Nvml> nvml_;
};

TEST_F(NvmlDeviceTest, ReadsEachNumber) {
  const NvmlDevice device = gpu(0);
  EXPECT_EQ(device.title(), "NVIDIA H200");
  state("energy_mj") = 123456;
  EXPECT_EQ(*device.energy_mj(), 123456);
  EXPECT_EQ(*device.power_mw(), 99000);
  EXPECT_EQ(*device.power_limit_mw(), 700000);
  EXPECT_EQ(*device.clock_mhz(kClockSm), 1980);
  EXPECT_EQ(*device.clock_mhz(kClockMemory), 3201);
  EXPECT_EQ(*device.temperature_c(), 61);
  EXPECT_EQ(device.utilization()->gpu, 97U);
  EXPECT_EQ(device.utilization()->memory, 35U);
  EXPECT_EQ(*device.clock_event_reasons(), 4);  // under the function's old name
  EXPECT_EQ(device.memory()->used, 50ULL << 30);
  EXPECT_EQ(*device.pcie_generation(), 5);
  EXPECT_EQ(*device.pcie_width(), 16);
  EXPECT_EQ(*device.pcie_generation_max(), 6);
  EXPECT_EQ(*device.pcie_width_max(), 32);
  EXPECT_EQ(*device.clock_mhz_max(kClockSm), 2010);
  EXPECT_EQ(*device.clock_mhz_max(kClockMemory), 3210);
  EXPECT_EQ(*device.temperature_slowdown_c(), 87);  // not 92, where the board shuts down
  EXPECT_EQ(*device.pcie_kb_s(kPcieTransmit), 1500);
  EXPECT_EQ(*device.pcie_kb_s(kPcieReceive), 2500);
}

TEST_F(NvmlDeviceTest, ReadsAFieldByTheTypeThatItCarries) {
  const NvmlDevice device = gpu(0);
  state("power_mw") = 125000;
  for (int type = 0; type <= 5; ++type) {
    state("power_type") = type;
    EXPECT_EQ(*device.field({kFieldPowerInstant}), 125000) << type;
  }
  state("power_type") = 6;
  EXPECT_EQ(*device.field({kFieldPowerInstant}), 4321);
  state("power_type") = 7;
  const Result<double> unknown = device.field({kFieldPowerInstant});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message, "field 186: a value of the unknown type 7");
}

TEST_F(NvmlDeviceTest, EachFieldHasItsOwnAnswer) {
  const NvmlDevice device = gpu(0);
  const std::vector<NvmlField> wanted = {{kFieldThrottlePower},
                                         {9999},
                                         {kFieldNvlinkTransmitted, kAllLinks},
                                         {kFieldNvlinkTransmitted, 3}};
  const std::vector<Result<double>> answers = device.fields(wanted);
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_EQ(*answers[0], 1202176000);
  ASSERT_FALSE(answers[1].ok());
  EXPECT_EQ(answers[1].error().message, "field 9999: Not Supported");
  EXPECT_EQ(*answers[2], 2048);
  EXPECT_EQ(*answers[3], 1024);
}

TEST_F(NvmlDeviceTest, AFailingCallGivesItsReason) {
  const NvmlDevice device = gpu(0);
  state("fail") = 15;
  const Result<double> energy = device.energy_mj();
  ASSERT_FALSE(energy.ok());
  EXPECT_EQ(energy.error().message, "energy counter: GPU is lost");
  EXPECT_EQ(device.field({kFieldPowerInstant}).error().message, "field values: GPU is lost");
  EXPECT_FALSE(device.utilization().ok());
}

TEST_F(NvmlDeviceTest, AnIndexThatIsNotThereIsAnAnswer) {
  EXPECT_FALSE(NvmlDevice::open(nvml_, 2).ok());
  EXPECT_FALSE(NvmlDevice::open(nullptr, 0).ok());
  const auto absent = std::make_shared<const Nvml>(Nvml::open("libno-such-thing.so.9"));
  const Result<NvmlDevice> device = NvmlDevice::open(absent, 0);
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().message.find("libno-such-thing.so.9"), std::string::npos);
}

TEST_F(NvmlDeviceTest, FindsADeviceByItsPlaceOnTheBus) {
  const Result<NvmlDevice> second = NvmlDevice::open_at(nvml_, "0000:43:00.0");
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->index(), 1);
  EXPECT_EQ(second->title(), "NVIDIA Old");
  EXPECT_FALSE(NvmlDevice::open_at(nvml_, "0000:00:00.0").ok());
  EXPECT_FALSE(NvmlDevice::open_at(nullptr, "0000:43:00.0").ok());
}

// A library without any of the functions: libm.
TEST(NvmlDevice, ALibraryOfSomethingElseIsNoNvml) {
  const Nvml nvml = Nvml::open("libm.so.6");
  EXPECT_FALSE(nvml.ready());
  EXPECT_EQ(nvml.reason(), "the library has no nvmlInit_v2");
}

TEST_F(NvmlDeviceTest, GpmNeedsTwoSamplesAndTheirDistance) {
  Result<GpmReader> reader = GpmReader::open(gpu(0));
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  EXPECT_EQ(state("open_samples"), 2);
  const std::vector<unsigned> metrics = {2, 5, 10, 11, 60};
  const Nanoseconds start = 5'000 * kMillisecond;
  auto first = reader->read(metrics, start);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(first->has_value());
  auto early = reader->read(metrics, start + 109 * kMillisecond);
  ASSERT_TRUE(early.ok());
  EXPECT_FALSE(early->has_value());
  for (int round = 1; round <= 3; ++round) {  // both buffers take turns
    auto read = reader->read(metrics, start + round * 110 * kMillisecond);
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_TRUE(read->has_value());
    const std::vector<Result<double>>& answers = **read;
    EXPECT_EQ(*answers[0], 99);
    EXPECT_EQ(*answers[1], 92);
    EXPECT_EQ(*answers[2], 20);
    EXPECT_EQ(answers[3].error().message, "GPM metric 11: not a number");
    EXPECT_EQ(answers[4].error().message, "GPM metric 60: Not Supported");
  }
}

TEST_F(NvmlDeviceTest, GpmFreesItsSamplesOnce) {
  {
    Result<GpmReader> reader = GpmReader::open(gpu(0));
    ASSERT_TRUE(reader.ok());
    const GpmReader moved = std::move(reader).value();
    EXPECT_EQ(state("open_samples"), 2);
  }
  EXPECT_EQ(state("open_samples"), 0);
}

TEST_F(NvmlDeviceTest, AGpuWithoutGpmSaysSo) {
  const Result<GpmReader> reader = GpmReader::open(gpu(1));
  ASSERT_FALSE(reader.ok());
  EXPECT_NE(reader.error().message.find("this GPU has none"), std::string::npos);
}

}  // namespace
}  // namespace nibble
