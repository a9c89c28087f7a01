#include "machine/cpu_roofs.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(ReadBuffer, ExceedsTheCachesAndTheLeastSize) {
  EXPECT_EQ(read_buffer_bytes(0, 64e9), 256e6);
  EXPECT_EQ(read_buffer_bytes(32e6, 64e9), 256e6);     // 2.5 x 32 MB is less
  EXPECT_EQ(read_buffer_bytes(384e6, 64e9), 960e6);    // 2.5 x 384 MB
  EXPECT_EQ(read_buffer_bytes(384e6, 1000e6), 500e6);  // half of what is there
}

// A smaller buffer than a real measurement's: this checks the bookkeeping, not the machine. No CPU
// of the last decades reads slower than 0.1 GB/s or multiplies slower than 0.1 GFLOP/s; none has
// more than 10 TB/s or 100 TFLOP/s on two threads.
TEST(CpuRoofs, OneNumberAPassAndTheirMedian) {
  const CpuRoofs roofs = measure_cpu_roofs({.threads = 2, .buffer_bytes = 8e6, .passes = 3});
  ASSERT_EQ(roofs.read_passes.size(), 3U);
  ASSERT_EQ(roofs.fp32_passes.size(), 3U);
  std::vector<double> sorted = roofs.read_passes;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(roofs.read_gb_s, sorted[1]);
  sorted = roofs.fp32_passes;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(roofs.fp32_tflops, sorted[1]);
  EXPECT_GT(roofs.read_gb_s, 0.1);
  EXPECT_LT(roofs.read_gb_s, 1e4);
  EXPECT_GT(roofs.fp32_tflops, 1e-4);
  EXPECT_LT(roofs.fp32_tflops, 100);
  EXPECT_FALSE(roofs.fp32_path.empty());
}

TEST(CpuRoofs, WorksWithOneThreadAndABufferSmallerThanAStep) {
  const CpuRoofs roofs = measure_cpu_roofs({.threads = 1, .buffer_bytes = 1, .passes = 1});
  EXPECT_GT(roofs.read_gb_s, 0);
  EXPECT_GT(roofs.fp32_tflops, 0);
}

}  // namespace
}  // namespace nibble
