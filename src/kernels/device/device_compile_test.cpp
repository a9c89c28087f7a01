// The kernels beside the grouped products compile for every architecture, wherever NVRTC is; no GPU
// is needed.
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "cuda/compile.h"
#include "kernels/device/device_sources.h"
#include "kernels/device/test_compile.h"
#include "kernels/gemm/device/prepack.h"
#include "kernels/moe/device/moe_kernels.h"

namespace nibble {
namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

// Few experts compile in a tenth of the time, and hold fewer registers than the next test's.
TEST(DeviceCompile, RoutingGatherAndCombine) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  constexpr MoeShape kShape{.experts = 64,
                            .top_k = 6,
                            .groups = 8,
                            .top_groups = 4,
                            .sigmoid = true,
                            .renormalise = true,
                            .correction_bias = true,
                            .hidden = 7168};
  for (const char* const arch : kArchitectures) {
    expect_in_registers(compile_moe_kernels(kShape, arch), 5);
  }
  const auto ptx = compile_moe_kernels(kShape, "compute_80");
  ASSERT_TRUE(ptx.ok()) << ptx.error().message;
  ASSERT_EQ(ptx->kernels.size(), 5U);
  ASSERT_NE(ptx->kernel("moe_route_fused"), nullptr);
  EXPECT_EQ(ptx->kernel("moe_route_fused")->parameter_bytes,
            (std::vector<int>{sizeof(RouteTopK), sizeof(RouteTables)}));
}

TEST(DeviceCompile, TheMostExpertsStayInRegisters) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  constexpr MoeShape kShape{.experts = kMostDeviceExperts,
                            .top_k = kMostDeviceExperts,
                            .groups = 3,
                            .top_groups = 3,
                            .renormalise = true,
                            .hidden = 90,
                            .output = Element::kFp16};
  expect_in_registers(compile_moe_kernels(kShape, "sm_90a"), 4);
  constexpr MoeShape kFused{.experts = kFusedExperts,
                            .top_k = 32,
                            .softmax_after_top_k = true,
                            .hidden = 2,
                            .output = Element::kFp32};
  expect_in_registers(compile_moe_kernels(kFused, "sm_90a"), 5);
}

TEST(DeviceCompile, Prepack) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  for (const char* const arch : kArchitectures) expect_in_registers(compile_prepack(arch), 3);
}

Result<cuda::Cubin> compile_with_arrivals(int arrivals) {
  return cuda::compile(
      {.name = "arrivals",
       .files = device_sources(),
       .main = "#include \"kernels/ptx/warp_arrival.cuh\"\n"
               "static_assert(nibble::ptx::kWarpArrivals == " +
               std::to_string(arrivals) +
               ");\nextern \"C\" __global__ void arrive(unsigned barrier) {\n"
               "  nibble::ptx::mbarrier_arrive_warp_if(barrier, true, threadIdx.x % 32);\n}\n",
       .arch = "sm_90a"});
}

TEST(DeviceCompile, OneLaneArrivesForItsWarp) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  const auto one = compile_with_arrivals(1);
  EXPECT_TRUE(one.ok()) << one.error().message;
  EXPECT_FALSE(compile_with_arrivals(32).ok());
}

// What tools/gpu_check.sh asks for under racecheck. The environment is read once: in a process of
// its own.
TEST(DeviceCompile, EveryLaneArrivesWhereTheEnvironmentAsksForIt) {
  NIBBLE_SKIP_WITHOUT_COMPILER();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("NIBBLE_EVERY_LANE_ARRIVES", "1", 1);
        std::exit(compile_with_arrivals(32).ok() && !compile_with_arrivals(1).ok() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace nibble
