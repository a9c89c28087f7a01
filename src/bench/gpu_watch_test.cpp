#include "bench/gpu_watch.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(GpuWatch, SumsUpWhatItSaw) {
  const GpuConditions conditions =
      conditions_of({{.clock_mhz = 1980, .power_w = 300, .temperature_c = 41, .reasons = 1},
                     {.clock_mhz = 1755, .power_w = 600, .temperature_c = 47, .reasons = 4},
                     {.clock_mhz = 1740, .temperature_c = 45, .reasons = 0x20}});
  EXPECT_EQ(conditions.clock_mhz, 1755);
  EXPECT_EQ(conditions.power_w, 450);  // of the two that told it
  EXPECT_EQ(conditions.temperature_c, 47);
  EXPECT_EQ(conditions.throttled, (std::vector<std::string>{"power cap", "software thermal"}));
  EXPECT_EQ(conditions.samples, 3);
}

TEST(GpuWatch, NothingSeenIsNothingTold) {
  const GpuConditions conditions = conditions_of({});
  EXPECT_FALSE(conditions.clock_mhz || conditions.power_w || conditions.temperature_c);
  EXPECT_EQ(conditions.samples, 0);
}

TEST(GpuWatch, WithoutNvmlItSaysWhy) {
  GpuWatch watch("0000:01:00.0", "libno-such-nvml.so.1");
  watch.start();
  const GpuConditions conditions = watch.stop();
  EXPECT_NE(conditions.reason.find("libno-such-nvml.so.1"), std::string::npos);
  EXPECT_EQ(conditions.samples, 0);
}

}  // namespace
}  // namespace nibble
