#include "cuda/driver.h"

#include <gtest/gtest.h>

#include "cuda/device.h"
#include "cuda/memory.h"

namespace nibble::cuda {
namespace {

std::shared_ptr<const std::string> named(const char* name) {
  return std::make_shared<const std::string>(name);
}

TEST(LaunchTrail, NamesTheLastFour) {
  LaunchTrail trail;
  EXPECT_EQ(trail.text(), "");
  trail.add(named("a"));
  EXPECT_EQ(trail.text(), "a");
  for (const char* name : {"b", "c", "d"}) trail.add(named(name));
  EXPECT_EQ(trail.text(), "a, b, c, d");
  trail.add(named("e"));
  EXPECT_EQ(trail.text(), "others, b, c, d, e");
  trail.clear();
  EXPECT_EQ(trail.text(), "");
}

TEST(LaunchTrail, AKernelThatIsLaunchedAgainIsTheLast) {
  LaunchTrail trail;
  const auto a = named("a");
  const auto b = named("b");
  trail.add(a);
  trail.add(b);
  trail.add(b);
  EXPECT_EQ(trail.text(), "a, b");
  trail.add(a);
  EXPECT_EQ(trail.text(), "b, a");
}

TEST(Device, ArchitecturesAsTheyAreCompiledFor) {
  EXPECT_EQ(arch_of(8, 0), "sm_80");
  EXPECT_EQ(arch_of(8, 9), "sm_89");
  EXPECT_EQ(arch_of(9, 0), "sm_90a");
  EXPECT_EQ(arch_of(10, 0), "sm_100a");
  EXPECT_EQ(arch_of(12, 0), "sm_120a");
}

TEST(Check, NamesTheCallAndTheKernel) {
  EXPECT_TRUE(check(abi::kSuccess, "cuInit").ok());
  const Result<> failed = check(1, "cuLaunchKernelEx", "w4a16");
  ASSERT_FALSE(failed.ok());
  EXPECT_TRUE(failed.error().message.starts_with("cuLaunchKernelEx of w4a16: CUDA"));
  EXPECT_NE(failed.error().message.find(" (1)"), std::string::npos);
}

TEST(Driver, IsThereOrSaysWhatItWouldGive) {
  const Result<const Driver*> driver = Driver::get();
  if (driver.ok()) {
    EXPECT_GE((*driver)->version(), kOldestDriver);
    return;
  }
  EXPECT_NE(driver.error().message.find("need an NVIDIA GPU with a driver for CUDA 12.8"),
            std::string::npos);
  EXPECT_EQ(Driver::get().error().message, driver.error().message);
  for (const std::string& message :
       {device_count().error().message, Device::open(0).error().message,
        DeviceBuffer::make(16).error().message, Stream::make().error().message}) {
    EXPECT_EQ(message, driver.error().message);
  }
}

TEST(DeviceBuffer, AnEmptyOneNeedsNoGpu) {
  Result<DeviceBuffer> made = DeviceBuffer::make(0);
  ASSERT_TRUE(made.ok());
  DeviceBuffer buffer = std::move(*made);
  EXPECT_EQ(buffer.address(), 0U);
  EXPECT_TRUE(buffer.upload({}).ok());
  EXPECT_TRUE(buffer.fill(1).ok());
  EXPECT_TRUE(buffer.read<float>()->empty());
  const std::byte one[1] = {};
  EXPECT_FALSE(buffer.upload(one).ok());
  EXPECT_FALSE(buffer.upload({}, 1).ok());
}

}  // namespace
}  // namespace nibble::cuda
