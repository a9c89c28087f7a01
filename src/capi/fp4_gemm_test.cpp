// What of the GPU's GEMM needs none: refusals, and the kernel that writes factors in pairs.
#include <gtest/gtest.h>
#include <string>

#include "capi/alpha_pairs.h"
#include "capi/test_gemm.h"
#include "cuda/compile.h"

namespace nibble::capi {
namespace {

TEST(CapiFp4Gemm, NeedsAGpu) {
  nibble_device* cpu = nullptr;
  ASSERT_CALL_OK(nibble_cpu_open(1, &cpu));
  auto desc = sized<nibble_fp4_gemm_desc>();
  desc.n = 16;
  desc.k = 16;
  nibble_fp4_gemm* plan = nullptr;
  EXPECT_EQ(nibble_fp4_gemm_create(cpu, &desc, &plan), NIBBLE_INVALID_ARGUMENT);
  EXPECT_STREQ(nibble_last_error(),
               "nibble_fp4_gemm_create works on a GPU, and the device is of nibble_cpu_open()");
  EXPECT_EQ(plan, nullptr);
  nibble_device_close(cpu);
}

TEST(CapiFp4Gemm, NullsAreRefused) {
  auto args = sized<nibble_fp4_gemm_args>();
  auto desc = sized<nibble_fp4_gemm_desc>();
  auto info = sized<nibble_fp4_gemm_info>();
  nibble_fp4_gemm* plan = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(nibble_fp4_gemm_create(nullptr, &desc, &plan), NIBBLE_INVALID_ARGUMENT);
  EXPECT_STREQ(nibble_last_error(), "device is null");
  EXPECT_EQ(nibble_fp4_gemm_create(nullptr, &desc, nullptr), NIBBLE_INVALID_ARGUMENT);
  EXPECT_STREQ(nibble_last_error(), "plan is null");
  EXPECT_EQ(nibble_fp4_gemm_run(nullptr, &args, nullptr), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_fp4_gemm_describe(nullptr, &info), NIBBLE_INVALID_ARGUMENT);
  EXPECT_EQ(nibble_fp4_gemm_workspace_bytes(nullptr, &bytes), NIBBLE_INVALID_ARGUMENT);
  nibble_fp4_gemm_destroy(nullptr);
}

TEST(CapiFp4Gemm, PairsOfFactorsCompileForEveryArchitecture) {
  if (const auto compiler = cuda::compiler(); !compiler.ok()) {
    GTEST_SKIP() << compiler.error().message;
  }
  for (const char* arch : {"compute_80", "sm_90a", "sm_120a"}) {
    const Result<cuda::Cubin> cubin = compile_alpha_pairs(arch);
    ASSERT_TRUE(cubin.ok()) << cubin.error().message;
    ASSERT_EQ(cubin->kernels.size(), 1U);
    EXPECT_EQ(cubin->kernels.front().name, "alpha_pairs");
  }
}

}  // namespace
}  // namespace nibble::capi
