#include "bench/cuda_probes.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>

#include "bench/cuda_roofs.h"

namespace nibble {
namespace {

// Every kernel for every family of GPUs, without spills, which would be measured as memory.
TEST(CudaProbes, CompileForEveryArchitecture) {
  for (const char* arch : {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    const Result<cuda::Cubin> cubin = compile_probes(arch);
    if (!cubin.ok() && cubin.error().message.find("NVRTC") != std::string::npos) {
      GTEST_SKIP() << cubin.error().message;
    }
    ASSERT_TRUE(cubin.ok()) << arch << ": " << cubin.error().message;
    for (const cuda::KernelResources& kernel : cubin->kernels) {
      EXPECT_FALSE(kernel.spills()) << arch << " " << kernel.name;
    }
    EXPECT_EQ(cubin->kernel("read_bulk") != nullptr, arch[3] == '9' || arch[3] == '1') << arch;
    for (const char* name : {"read_plain", "read_l2", "copy_plain", "mma_rate", "empty",
                             "empty_programmatic", "hold", "fill_random"}) {
      EXPECT_NE(cubin->kernel(name), nullptr) << arch << " " << name;
    }
  }
}

class CudaProbesOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    Result<cuda::Device> gpu = cuda::Device::open(0);
    if (!gpu.ok()) GTEST_SKIP() << gpu.error().message;
    gpu_.emplace(std::move(gpu).value());
    Result<CudaProbes> probes = CudaProbes::load(*gpu_);
    ASSERT_TRUE(probes.ok()) << probes.error().message;
    probes_.emplace(std::move(probes).value());
  }

  std::optional<cuda::Device> gpu_;
  std::optional<CudaProbes> probes_;
};

TEST_F(CudaProbesOnGpu, FillsAreOfTheRangeThatTheirNameSays) {
  cuda::Stream stream = std::move(cuda::Stream::make()).value();
  cuda::DeviceBuffer buffer = std::move(cuda::DeviceBuffer::make(std::size_t{1} << 16)).value();
  ASSERT_TRUE(probes_->fill(buffer, {.seed = 3, .filling = Filling::kBf16}, stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  const std::vector<std::uint16_t> halves = *buffer.read<std::uint16_t>();
  double negative = 0;
  for (const std::uint16_t half : halves) {
    const std::uint32_t bits = std::uint32_t{half} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    ASSERT_GE(std::abs(value), 0.5F);
    ASSERT_LT(std::abs(value), 2.0F);
    negative += value < 0;
  }
  // 32,768 coins: five standard deviations are 1.4 %.
  EXPECT_NEAR(negative / static_cast<double>(halves.size()), 0.5, 0.014);
  // Codes are any bytes, scales of the range.
  ASSERT_TRUE(probes_
                  ->fill(buffer,
                         {.tile_bytes = 2304,
                          .code_bytes = 2048,
                          .scale_low = 56,
                          .scale_count = 40,
                          .filling = Filling::kTiles},
                         stream)
                  .ok());
  ASSERT_TRUE(stream.synchronize().ok());
  const std::vector<std::uint8_t> bytes = *buffer.read<std::uint8_t>();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (at % 2304 < 2048) continue;
    ASSERT_GE(bytes[at], 56) << at;
    ASSERT_LT(bytes[at], 96) << at;
  }
}

TEST_F(CudaProbesOnGpu, RoofsAreMeasuredOrHaveAReason) {
  const Result<GpuRoofs> roofs =
      measure_gpu_roofs(*gpu_, *probes_, {.seconds = 0.02, .most_bytes = 1e9}, [](auto) {});
  ASSERT_TRUE(roofs.ok()) << roofs.error().message;
  for (const GpuRoofDef& def : kGpuRoofs) {
    const auto found = roofs->roofs.find(def.key);
    ASSERT_NE(found, roofs->roofs.end()) << def.key;
    const GpuRoof& roof = found->second;
    EXPECT_TRUE(roof.reason.empty() ? std::isfinite(roof.value) && roof.value >= 0 : true)
        << def.key;
    if (!roof.reason.empty()) std::printf("%s: %s\n", def.key, roof.reason.c_str());
  }
  // No GPU with these instructions reads less than 100 GB/s or more than 20 TB/s.
  EXPECT_GT(roofs->value("read_gb_s").value_or(0), 100);
  EXPECT_LT(roofs->value("read_gb_s").value_or(0), 20000);
  // L2 is quicker than what is behind it.
  EXPECT_GT(roofs->value("l2_gb_s").value_or(0), roofs->value("read_gb_s").value_or(0));
}

}  // namespace
}  // namespace nibble
