// A mixture-of-experts layer on a GPU: routing, gate and up with their activation, down, and the
// weighted sum, with 4-bit weights and 16-bit activations.
//
//   NIBBLE_ASSIGN_OR_RETURN(const CudaMoeLayer layer, CudaMoeLayer::make(gpu, config, weights));
//   NIBBLE_ASSIGN_OR_RETURN(const CudaMoePrograms programs,
//                           CudaMoePrograms::make(gpu, layer.problem(), tactics));
//   NIBBLE_ASSIGN_OR_RETURN(CudaMoeWorkspace workspace, CudaMoeWorkspace::make(programs, 64));
//   cuda_moe({.layer = layer, .programs = programs, .workspace = workspace, .x = x,
//             .logits = logits, .y = y, .tokens = 64}, stream);
//
// The router's logits come from outside: its product is an ordinary one. A token's output does not
// depend on the order in which anything runs: the same input gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cuda/device.h"
#include "cuda/stream.h"
#include "formats/format.h"
#include "kernels/gemm/device/prepack.h"
#include "kernels/gemm/device/w4a16.h"
#include "kernels/moe/device/moe_cuda_layer.h"
#include "kernels/moe/device/moe_cuda_memory.h"
#include "kernels/moe/device/moe_cuda_problem.h"
#include "kernels/moe/device/moe_kernels.h"
#include "kernels/moe/device/one_launch.h"
#include "kernels/moe/moe.h"

namespace nibble {

// A layer's weights.
class CudaMoeLayer {
 public:
  // Uploads and prepacks; the router's matrix is not taken. An input error names what does not fit.
  static Result<CudaMoeLayer> make(const cuda::Device& device, CudaMoeConfig config,
                                   const MoeWeights& weights);
  // Random weights that keep the size of activations, without biases: for measurements.
  static Result<CudaMoeLayer> random(const cuda::Device& device, CudaMoeConfig config,
                                     Format format, std::uint64_t seed);

  const CudaMoeConfig& config() const { return config_; }
  const CudaMoeProblem& problem() const { return problem_; }
  const TiledWeights& gate_up() const { return gate_up_; }
  const TiledWeights& down() const { return down_; }
  const CudaMoeBiases& biases() const { return biases_; }

 private:
  CudaMoeLayer() = default;

  CudaMoeConfig config_;
  CudaMoeProblem problem_;
  TiledWeights gate_up_;  // [experts, 2 * intermediate, hidden]
  TiledWeights down_;     // [experts, hidden, intermediate]
  CudaMoeBiases biases_;
};

// An input error for sizes, a router or an activation that the kernels do not take.
Result<CudaMoeProblem> cuda_moe_problem(const CudaMoeConfig& config, Format format,
                                        bool gate_up_bias, bool down_bias);

struct CudaMoeTactics {
  W4A16Tactic gate_up;
  W4A16Tactic down;
  // Calls of up to its tokens are one launch; the others, and with none all, a launch a step.
  std::optional<OneLaunchTactic> one_launch = std::nullopt;
};

// The kernels of a layer; they serve all layers of one problem.
class CudaMoePrograms {
 public:
  static Result<CudaMoePrograms> make(const cuda::Device& device, const CudaMoeProblem& problem,
                                      const CudaMoeTactics& tactics);

  const CudaMoeProblem& problem() const { return problem_; }
  const MoeKernels& around() const { return around_; }
  const W4A16Kernel& gate_up() const { return gate_up_; }
  const W4A16Kernel& down() const { return down_; }
  const std::optional<OneLaunchKernel>& one_launch() const { return one_launch_; }

 private:
  CudaMoePrograms(const CudaMoeProblem& problem, MoeKernels around, W4A16Kernel gate_up,
                  W4A16Kernel down)
      : problem_(problem),
        around_(std::move(around)),
        gate_up_(std::move(gate_up)),
        down_(std::move(down)) {}

  CudaMoeProblem problem_;
  MoeKernels around_;
  W4A16Kernel gate_up_;
  W4A16Kernel down_;
  std::optional<OneLaunchKernel> one_launch_;
};

// Everything that a call writes to besides its output: made once, used every step. One workspace
// serves all layers of one problem, one call at a time.
class CudaMoeWorkspace {
 public:
  static Result<CudaMoeWorkspace> make(const CudaMoePrograms& programs, std::int64_t most_tokens);

  std::int64_t most_tokens() const { return memory_.sizes().most_tokens; }
  std::size_t bytes() const { return memory_.bytes(); }
  const MoeShape& shape() const { return memory_.sizes().shape; }

  // Choices since the workspace was made whose ids, given on the device, were no experts: they were
  // left out. Waits for all work of the GPU.
  Result<std::int64_t> dropped_choices() const { return memory_.dropped_choices(); }
  // What routing made of the last call, for tests: counts [experts], offsets [experts + 1].
  Result<std::vector<int>> counts() const { return memory_.read_counts(); }
  Result<std::vector<int>> offsets() const { return memory_.read_offsets(); }
  // Every byte becomes 0xff, which is no number: what a call reads before it writes would show. But
  // for the counters of a call in progress.
  Result<> poison() { return memory_.poison(); }

 private:
  friend struct CudaMoeAccess;  // moe_cuda_call.cpp
  CudaMoeWorkspace() = default;

  // Bytes from the beginning of memory_.
  struct Places {
    std::size_t partials = 0;   // of either product, which take turns
    std::size_t input = 0;      // slot tiles of hidden columns
    std::size_t activated = 0;  // slot tiles of intermediate columns
    std::size_t rows = 0;       // [slots, hidden]
  };

  std::int64_t intermediate_ = 0;
  Places places_;
  CudaMoeMemory memory_;
  cuda::DeviceBuffer progress_;  // OneLaunchProgress, zero between calls
};

// Device addresses.
struct CudaMoeParams {
  const CudaMoeLayer& layer;
  const CudaMoePrograms& programs;
  CudaMoeWorkspace& workspace;
  // As CudaMoeCall (moe_cuda_memory.h) says.
  cuda::DevicePointer x = 0;
  cuda::DevicePointer logits = 0;
  cuda::DevicePointer expert_ids = 0;
  cuda::DevicePointer expert_weights = 0;
  cuda::DevicePointer shared = 0;
  cuda::DevicePointer y = 0;
  std::int64_t tokens = 0;
  bool steps = false;  // a launch a step, also where the programs have one for all
};

// The whole layer, in one launch where the programs have that for so many tokens (and x lies at a
// multiple of 16 bytes, where hidden is one of 16 columns); nothing for no tokens. Neither
// allocates nor waits, and can be captured into a graph. An input error for what is missing, not
// aligned (y, shared: 16 bytes; others 4), made for another problem, or more than the workspace
// holds.
Result<> cuda_moe(const CudaMoeParams& params, cuda::Stream& stream);

// Its parts, in their order. A product reads the tables before it waits for the kernel before it,
// so that no product may follow routing at once: gather stands between. A product that splits tiles
// wants its flags cleared before each launch; routing does it, or cuda_moe_clear_flags().
Result<> cuda_moe_route(const CudaMoeParams& params, cuda::Stream& stream);
Result<> cuda_moe_gather(const CudaMoeParams& params, cuda::Stream& stream);
Result<> cuda_moe_gate_up(const CudaMoeParams& params, cuda::Stream& stream);
Result<> cuda_moe_down(const CudaMoeParams& params, cuda::Stream& stream);
Result<> cuda_moe_combine(const CudaMoeParams& params, cuda::Stream& stream);
// For measurements of the products alone, which repeat them without routing.
Result<> cuda_moe_clear_flags(const CudaMoeParams& params, cuda::Stream& stream);

}  // namespace nibble
