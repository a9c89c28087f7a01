// The grouped product with 4-bit weights and 4-bit activations on a GPU: problem, tactic, kernel.
//
//   const W4A4Problem problem{.experts = 256, .n = 4096, .k = 6144, .epilogue = Epilogue::kSwiGlu};
//   const W4A4Tactic tactic = default_tactic(problem, 16, limits_of(gpu.info()));
//   NIBBLE_ASSIGN_OR_RETURN(const W4A4Kernel kernel, W4A4Kernel::make(gpu, problem, tactic));
//   kernel.enqueue(stream, {.weights = ..., .tokens = ..., .output = ...});
//
// GPUs of the families 12.0 and 12.1 multiply with their block-scaled FP4 instruction. Code for any
// other one from 8.0 on has a software body for it that gives the same products from the same
// registers (kernels/ptx/mma_fp4.cuh): right, and too slow to be of use but in tests.
//
// The same input gives the same bits. Where a tactic splits tiles, sums are taken in an order that
// depends on how many tokens all experts have; without splitting a token's output does not depend
// on the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cuda/device.h"
#include "cuda/module.h"
#include "formats/format.h"
#include "kernels/device/block_limits.h"
#include "kernels/gemm/device/w4a4_params.h"
#include "kernels/gemm/device/w4a4_tactic.h"

namespace nibble {

enum class W4A4Output { kBf16, kFp16, kFp32, kNvfp4 };

struct W4A4Problem {
  std::int64_t experts = 1;
  std::int64_t n = 0;                     // rows of an expert's matrix; gated: gate and up together
  std::int64_t k = 0;                     // its columns: a multiple of 16 (NVFP4) or 32 (MXFP4)
  Format format = Format::kNvfp4;         // or kMxfp4: of weights and activations
  W4A4Output output = W4A4Output::kBf16;  // kNvfp4: gated products alone
  Epilogue epilogue = Epilogue::kPlain;
  bool bias = false;
  bool up_first = false;  // gated: the up rows come before the gate rows

  WeightFormat weight_format() const;
  std::int64_t columns() const;  // of the output
  friend bool operator==(const W4A4Problem&, const W4A4Problem&) = default;
};

// One line for logs: "256 x [4096, 6144] nvfp4 x nvfp4 swiglu -> nvfp4".
std::string to_string(const W4A4Problem& problem);
// "w4a4 tokens 128x256x128 3 stages 2x4 warps split", "w4a4 weights 64x8x256 ...": what lies on M,
// and M x N x K of a stage.
std::string to_string(const W4A4Tactic& tactic);

// An input error for sizes and formats that the kernels do not take, with the numbers.
Result<> check_problem(const W4A4Problem& problem);
// An input error that says with numbers why a tactic cannot run there.
Result<> check_tactic(const W4A4Problem& problem, const W4A4Tactic& tactic,
                      const BlockLimits& limits);

// An input error where `choices` tokens of all experts together could be more tiles than a launch
// can have.
Result<> check_choices(const W4A4Problem& problem, const W4A4Tactic& tactic, std::int64_t choices);

// Whether code for an architecture has the instruction; the others run its software body.
bool has_fp4_mma(const cuda::Arch& arch);

// Which tactic is to be taken where the largest expert has `rows` tokens, by what fits and how much
// of a tile is padding: not measured on a chip with the instruction (docs/sm120.md).
W4A4Tactic default_tactic(const W4A4Problem& problem, std::int64_t rows, const BlockLimits& limits);
// Every combination that is thought of, those that do not fit among them: `nibble tactics` says
// why.
std::vector<W4A4Tactic> w4a4_candidates();
// Those of the candidates that a problem and a device take.
std::vector<W4A4Tactic> w4a4_tactics(const W4A4Problem& problem, const BlockLimits& limits);

// The program of a tactic for any architecture from sm_80 on.
Result<cuda::Cubin> compile_w4a4(const W4A4Problem& problem, const W4A4Tactic& tactic,
                                 const std::string& arch);

class W4A4Kernel {
 public:
  // For the GPU's own architecture, or for `arch` where that runs there too.
  static Result<W4A4Kernel> make(const cuda::Device& device, const W4A4Problem& problem,
                                 const W4A4Tactic& tactic, const std::string& arch = "");

  const W4A4Problem& problem() const { return problem_; }
  const W4A4Tactic& tactic() const { return tactic_; }
  const cuda::Kernel& kernel() const { return kernel_; }
  int tile_tokens() const { return tactic_.tokens(); }
  int grid() const { return grid_; }  // blocks, and words of W4A4Params::flags
  std::size_t partial_bytes() const;  // of W4A4Params::partials
  std::size_t shared_bytes() const { return shared_bytes_; }
  // True: the products are computed by the software body. Its times say nothing.
  bool software_mma() const { return software_mma_; }

  // Neither allocates nor waits; may be captured. From sm_90 on it begins before the kernel before
  // it in the stream has ended, reads the tables and weights, and waits before it reads tokens.
  Result<> enqueue(cuda::Stream& stream, const W4A4Params& params) const;

 private:
  W4A4Kernel(W4A4Problem problem, const W4A4Tactic& tactic, cuda::Kernel kernel)
      : problem_(problem), tactic_(tactic), kernel_(std::move(kernel)) {}

  W4A4Problem problem_;
  W4A4Tactic tactic_;
  cuda::Kernel kernel_;
  int grid_ = 0;
  std::size_t shared_bytes_ = 0;
  bool programmatic_ = false;
  bool software_mma_ = false;
};

}  // namespace nibble
