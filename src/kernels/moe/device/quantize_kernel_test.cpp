// The kernel that quantizes rows compiles for every architecture, wherever NVRTC is; no GPU is
// needed.
#include "kernels/moe/device/quantize_kernel.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "kernels/device/test_compile.h"

namespace nibble {
namespace {

std::string quantize_refusal(const QuantizeShape& shape) {
  const Result<> checked = check_quantize(shape);
  return checked.ok() ? "" : checked.error().message;
}

TEST(QuantizeKernel, RefusesWhatAreNotWholeBlocks) {
  EXPECT_EQ(quantize_refusal({.columns = 80}), "");
  EXPECT_EQ(quantize_refusal({.columns = 232}),
            "rows of 232 columns are not whole blocks of 16, which share a scale");
  EXPECT_EQ(quantize_refusal({.mode = QuantizeMode::kMxfp4, .columns = 80}),
            "rows of 80 columns are not whole blocks of 32, which share a scale");
  EXPECT_EQ(quantize_refusal({.columns = 0}),
            "rows of 0 columns are not whole blocks of 16, which share a scale");
  EXPECT_NE(quantize_refusal({.element = Element::kFp32, .columns = 80}), "");
  EXPECT_FALSE(compile_quantize({.columns = 8}, "sm_90a").ok());
}

TEST(QuantizeKernel, CompilesForEveryArchitectureWithoutSpills) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  const std::vector<QuantizeShape> shapes = {
      {.columns = 6144},
      {.element = Element::kFp16, .mode = QuantizeMode::kNvfp4Rows, .columns = 256},
      {.mode = QuantizeMode::kNvfp4Rows, .columns = 2880},
      {.element = Element::kFp16, .mode = QuantizeMode::kMxfp4, .columns = 2880}};
  for (const char* const arch : {"sm_80", "sm_90a", "sm_100a", "sm_120a", "sm_121a"}) {
    for (const QuantizeShape& shape : shapes) {
      const Result<cuda::Cubin> cubin = compile_quantize(shape, arch);
      expect_in_registers(cubin);
      ASSERT_TRUE(cubin.ok());
      const cuda::KernelResources* const kernel = cubin->kernel("quantize_rows");
      ASSERT_NE(kernel, nullptr);
      EXPECT_EQ(kernel->parameter_bytes, std::vector<int>{sizeof(QuantizeRows)});
    }
  }
}

}  // namespace
}  // namespace nibble
