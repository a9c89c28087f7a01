// The grouped product with 4-bit weights and 16-bit activations on a GPU: problem, tactic, kernel.
//
//   const W4A16Problem problem{.experts = 256, .n = 4096, .k = 6144, .mode = W4A16Mode::kSwiGlu};
//   const W4A16Tactic tactic = default_tactic(problem, 16, gpu.info());
//   NIBBLE_ASSIGN_OR_RETURN(const W4A16Kernel kernel, W4A16Kernel::make(gpu, problem, tactic));
//   kernel.enqueue(stream, {.weights = ..., .tokens = ..., .output = ...});
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
#include "kernels/device/element.h"
#include "kernels/gemm/device/w4a16_params.h"
#include "kernels/gemm/device/w4a16_tactic.h"

namespace nibble {

enum class W4A16Mode {
  kPlain,          // rows [slots, n], times the slot's weight
  kSwiGlu,         // n / 2 gate rows, then as many up rows -> slot tiles of n / 2 columns
  kClampedSwiGlu,  // the same with gpt-oss's activation
};

struct W4A16Problem {
  std::int64_t experts = 1;
  std::int64_t n = 0;                    // rows of an expert's matrix
  std::int64_t k = 0;                    // its columns
  Format format = Format::kNvfp4;        // or kMxfp4
  Element activations = Element::kBf16;  // or kFp16
  Element output = Element::kBf16;       // kPlain; otherwise as the activations
  W4A16Mode mode = W4A16Mode::kPlain;
  bool bias = false;

  int scale_bytes() const;  // of a tile
  friend bool operator==(const W4A16Problem&, const W4A16Problem&) = default;
};

// One line for logs: "256 x [4096, 6144] nvfp4 x bf16 swiglu".
std::string to_string(const W4A16Problem& problem);
// "wgmma 512x32x128 4 stages 2 groups cluster 2 split".
std::string to_string(const W4A16Tactic& tactic);

// An input error for sizes and formats that the kernels do not take.
Result<> check_problem(const W4A16Problem& problem);
// An input error that says with numbers why a tactic cannot run there.
Result<> check_tactic(const W4A16Problem& problem, const W4A16Tactic& tactic,
                      const BlockLimits& limits);

// An input error where `choices` tokens of all experts together could be more tiles than a launch
// can have: it counts its steps in 32 bits.
Result<> check_choices(const W4A16Problem& problem, const W4A16Tactic& tactic,
                       std::int64_t choices);

// Which tactic is to be taken where the largest expert has `rows` tokens and all experts together
// have `active` (0: it is not known, and all have some): measured on an H200 (docs/measured.md), by
// the same rules elsewhere.
W4A16Tactic default_tactic(const W4A16Problem& problem, std::int64_t rows,
                           const cuda::DeviceInfo& info, std::int64_t active = 0);
// Those that are compiled for an architecture in tests and tried by a tuner.
std::vector<W4A16Tactic> w4a16_tactics(const W4A16Problem& problem, const BlockLimits& limits);

// The program of a tactic, for any architecture: "sm_90a", or "compute_80" for PTX. A tactic of the
// wgmma family for another one than sm_90a (or compute_90a) is an input error.
Result<cuda::Cubin> compile_w4a16(const W4A16Problem& problem, const W4A16Tactic& tactic,
                                  const std::string& arch);

class W4A16Kernel {
 public:
  // For the GPU's own architecture, or for `arch` where that runs there too: "compute_80" makes the
  // code of an earlier GPU, without wgmma, clusters, bulk copies and programmatic launch.
  static Result<W4A16Kernel> make(const cuda::Device& device, const W4A16Problem& problem,
                                  const W4A16Tactic& tactic, const std::string& arch = "");

  const W4A16Problem& problem() const { return problem_; }
  const W4A16Tactic& tactic() const { return tactic_; }
  const cuda::Kernel& kernel() const { return kernel_; }
  int tile_tokens() const { return tactic_.tokens; }
  int grid() const { return grid_; }  // blocks, and words of W4A16Params::flags
  std::size_t partial_bytes() const;  // of W4A16Params::partials
  std::size_t shared_bytes() const { return shared_bytes_; }

  // Neither allocates nor waits; may be captured. From sm_90 on it begins before the kernel before
  // it in the stream has ended, reads the tables and weights, and waits before it reads tokens.
  Result<> enqueue(cuda::Stream& stream, const W4A16Params& params) const;

 private:
  W4A16Kernel(W4A16Problem problem, const W4A16Tactic& tactic, cuda::Kernel kernel)
      : problem_(problem), tactic_(tactic), kernel_(std::move(kernel)) {}

  W4A16Problem problem_;
  W4A16Tactic tactic_;
  cuda::Kernel kernel_;
  int grid_ = 0;
  std::size_t shared_bytes_ = 0;
  bool programmatic_ = false;
};

}  // namespace nibble
