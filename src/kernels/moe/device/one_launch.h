// A whole layer of experts in one launch, for few tokens: routing, both products and the weighted
// sum. one_launch.cuh says how; CudaMoePrograms (moe_cuda.h) has one beside the kernels of a layer
// in several launches, and takes the same weights and workspace.
//
//   // nullopt: several launches are quicker
//   const auto tactic = default_one_launch(problem, 4, gpu.info());
//   NIBBLE_ASSIGN_OR_RETURN(auto kernel, OneLaunchKernel::make(gpu, problem, *tactic));
//   kernel.enqueue(stream, {.top_k = ..., .x = x, .gate_up = ..., .tokens = 4});
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cuda/device.h"
#include "cuda/module.h"
#include "kernels/device/block_limits.h"
#include "kernels/moe/device/moe_cuda_problem.h"
#include "kernels/moe/device/one_launch_params.h"

namespace nibble {

// "one launch 8 tokens 4+3 slabs 5 slots 1 teams".
std::string to_string(const OneLaunchTactic& tactic);

// An input error that says with numbers why a tactic cannot run there.
Result<> check_one_launch(const CudaMoeProblem& problem, const OneLaunchTactic& tactic,
                          const BlockLimits& limits);

// For calls of `tokens`, as far as it fits there; nullopt where it does not.
std::optional<OneLaunchTactic> one_launch_for(const CudaMoeProblem& problem, std::int64_t tokens,
                                              const cuda::DeviceInfo& info);
// The same where it is quicker than a launch a step: measured on an H200 (docs/measured.md).
std::optional<OneLaunchTactic> default_one_launch(const CudaMoeProblem& problem,
                                                  std::int64_t tokens,
                                                  const cuda::DeviceInfo& info);

// For any architecture from sm_80 on.
Result<cuda::Cubin> compile_one_launch(const CudaMoeProblem& problem, const OneLaunchTactic& tactic,
                                       const std::string& arch);

class OneLaunchKernel {
 public:
  // For the GPU's own architecture, or for `arch` where that runs there too.
  static Result<OneLaunchKernel> make(const cuda::Device& device, const CudaMoeProblem& problem,
                                      const OneLaunchTactic& tactic, const std::string& arch = "");

  const OneLaunchTactic& tactic() const { return tactic_; }
  const cuda::Kernel& kernel() const { return kernel_; }
  // A call of so many tokens at such an address: few enough, and aligned as the code reads them.
  bool takes(std::int64_t tokens, std::uint64_t x) const;

  // Neither allocates nor waits; may be captured. Its blocks wait for each other: the launch has
  // as many as the GPU holds at once.
  Result<> enqueue(cuda::Stream& stream, const OneLaunchParams& params) const;

 private:
  OneLaunchKernel(const OneLaunchTactic& tactic, cuda::Kernel kernel)
      : tactic_(tactic), kernel_(std::move(kernel)) {}

  OneLaunchTactic tactic_;
  cuda::Kernel kernel_;
  std::size_t shared_bytes_ = 0;
  std::uint64_t x_alignment_ = 4;
  bool programmatic_ = false;
};

}  // namespace nibble
