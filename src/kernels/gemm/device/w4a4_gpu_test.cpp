// The W4A4 product on a GPU against Blackwell's arithmetic in double precision, under the limits of
// sm_120. Where the chip has no block-scaled FP4 instruction its software body runs, and everything
// else is what runs there.
#include <cctype>
#include <cstddef>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "kernels/gemm/device/test_w4a4.h"

namespace nibble {
namespace {

std::string test_name(const testing::TestParamInfo<W4A4Case>& info) {
  std::string name;
  for (const char each : info.param.name) {
    name += std::isalnum(static_cast<unsigned char>(each)) != 0 ? each : '_';
  }
  return name;
}

// Every tactic that sm_120 is offered, at least as many as it must be.
class CudaW4A4EveryTactic : public GpuTest, public testing::WithParamInterface<W4A4Case> {};

TEST_P(CudaW4A4EveryTactic, IsRight) {
  W4A4Product product(GetParam());
  const std::vector<W4A4Tactic> tactics = w4a4_tactics(product.problem(), kSm120Limits);
  EXPECT_GE(tactics.size(), 24U);
  for (const W4A4Tactic& tactic : tactics) product.expect_right(gpu(), stream(), tactic);
}
INSTANTIATE_TEST_SUITE_P(Cuda, CudaW4A4EveryTactic, testing::ValuesIn(w4a4_cases_of_every_tactic()),
                         test_name);

class CudaW4A4SomeTactics : public GpuTest, public testing::WithParamInterface<W4A4Case> {};

TEST_P(CudaW4A4SomeTactics, AreRight) {
  W4A4Product product(GetParam());
  for (const W4A4Tactic& tactic : w4a4_some_tactics()) {
    product.expect_right(gpu(), stream(), tactic);
  }
}
INSTANTIATE_TEST_SUITE_P(Cuda, CudaW4A4SomeTactics, testing::ValuesIn(w4a4_cases_of_some_tactics()),
                         test_name);

class CudaW4A4 : public GpuTest {};

TEST_F(CudaW4A4, SaysWhichBodyRuns) {
  const W4A4Program any = w4a4_test_programs().front();
  const W4A4Kernel kernel = value_of(W4A4Kernel::make(gpu(), any.problem, any.tactic));
  EXPECT_EQ(kernel.software_mma(), gpu().info().major != 12);
}

TEST_F(CudaW4A4, OfCompute80) {
  W4A4Product product(w4a4_case_of_compute_80());
  for (const W4A4Tactic& tactic : w4a4_some_tactics()) {
    product.expect_right(gpu(), stream(), tactic, "compute_80");
  }
}

// Without a GPU, before a run on one: what the tests above need is then compiled and kept. In
// parts, so that processes can share them.
constexpr std::size_t kParts = 32;
class CudaW4A4Programs : public testing::TestWithParam<std::size_t> {};

TEST_P(CudaW4A4Programs, DISABLED_CompileForAnH200) {
  const std::vector<W4A4Program> programs = w4a4_test_programs();
  for (std::size_t at = GetParam(); at < programs.size(); at += kParts) {
    const auto& [problem, tactic, compute_80] = programs[at];
    const auto cubin = compile_w4a4(problem, tactic, compute_80 ? "compute_80" : "sm_90a");
    EXPECT_TRUE(cubin.ok()) << cubin.error().message;
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, CudaW4A4Programs, testing::Range(std::size_t{0}, kParts));

}  // namespace
}  // namespace nibble
