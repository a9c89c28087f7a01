// What tests share that compile for a GPU which is not there.
//
//   NIBBLE_SKIP_WITHOUT_COMPILER();
//   expect_in_registers(compile_w4a16(problem, tactic, "sm_90a"));
//   default_tactic(problem, 8, kTestH200);
#pragma once

#include <cstddef>
#include <gtest/gtest.h>

#include "cuda/compile.h"
#include "cuda/device.h"

namespace nibble {

#define NIBBLE_SKIP_WITHOUT_COMPILER()                        \
  if (const auto compiler = cuda::compiler(); !compiler.ok()) \
  GTEST_SKIP() << compiler.error().message

// As the driver describes one.
inline constexpr cuda::DeviceInfo kTestH200{.major = 9,
                                            .minor = 0,
                                            .sms = 132,
                                            .shared_per_block_optin = 232448,
                                            .shared_per_sm = 233472,
                                            .registers_per_sm = 65536};

// So many kernels, none of which keeps registers in memory, and no warnings of the compiler.
inline void expect_in_registers(const Result<cuda::Cubin>& cubin, std::size_t kernels = 1) {
  ASSERT_TRUE(cubin.ok()) << cubin.error().message;
  EXPECT_EQ(cubin->kernels.size(), kernels);
  EXPECT_TRUE(cubin->warnings.empty()) << cubin->warnings.front();
  for (const cuda::KernelResources& kernel : cubin->kernels) {
    EXPECT_FALSE(kernel.spills()) << kernel.name << " " << cubin->arch;
    EXPECT_EQ(kernel.stack_bytes, 0) << kernel.name << " " << cubin->arch;
    EXPECT_LE(kernel.static_shared_bytes, 48 << 10) << kernel.name;
  }
}

}  // namespace nibble
