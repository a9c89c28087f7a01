// What of a layer for a GPU needs none.
#include "kernels/moe/device/moe_cuda.h"

#include <gtest/gtest.h>
#include <string>

namespace nibble {
namespace {

CudaMoeConfig small_config() {
  return {.hidden = 64, .intermediate = 32, .router = {.experts = 4, .top_k = 2}};
}

std::string problem_refusal(const CudaMoeConfig& config, Format format = Format::kNvfp4) {
  const auto problem = cuda_moe_problem(config, format, false, false);
  return problem.ok() ? "" : problem.error().message;
}

TEST(MoeCudaProblem, RefusesWhatTheKernelsDoNotTake) {
  EXPECT_EQ(problem_refusal(small_config()), "");
  CudaMoeConfig config = small_config();
  config.hidden = 63;
  EXPECT_EQ(problem_refusal(config),
            "the layer has 63 hidden columns; give an even number from 2 to 16777216");
  config = small_config();
  config.intermediate = 0;
  EXPECT_NE(problem_refusal(config), "");
  config = small_config();
  config.activations = Element::kFp32;
  EXPECT_NE(problem_refusal(config), "");
  config = small_config();
  config.router.experts = 1537;
  EXPECT_EQ(problem_refusal(config), "the router has 1537 experts; give a number from 1 to 1536");
  config.router.experts = 1025;
  EXPECT_EQ(problem_refusal(config), "");
  config = small_config();
  config.router.top_k = 5;
  EXPECT_NE(problem_refusal(config), "");
  config = small_config();
  config.activation = {.kind = ActivationKind::kClampedSwiGlu, .limit = 0};
  EXPECT_NE(problem_refusal(config), "");
  config = small_config();
  config.static_input_scales = true;
  EXPECT_EQ(problem_refusal(config),
            "static input scales belong to nvfp4 activations; these have 16 bits");
}

TEST(MoeCudaProblem, TheProductsOfALayer) {
  const auto problem = cuda_moe_problem(small_config(), Format::kMxfp4, true, false);
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(problem->gate_up.n, 64);
  EXPECT_EQ(problem->gate_up.k, 64);
  EXPECT_EQ(problem->down.n, 64);
  EXPECT_EQ(problem->down.k, 32);
  EXPECT_TRUE(problem->gate_up.bias);
  EXPECT_FALSE(problem->down.bias);
}

}  // namespace
}  // namespace nibble
