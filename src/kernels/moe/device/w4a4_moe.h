// A mixture-of-experts layer on a GPU with 4-bit weights and 4-bit activations: routing, tokens to
// codes, gate and up with their activation, down, and the weighted sum.
//
//   NIBBLE_ASSIGN_OR_RETURN(const CudaW4A4MoeLayer layer,
//                           CudaW4A4MoeLayer::make(gpu, config, weights));
//   NIBBLE_ASSIGN_OR_RETURN(const CudaW4A4MoePrograms programs,
//                           CudaW4A4MoePrograms::make(gpu, layer.problem(), tactics));
//   NIBBLE_ASSIGN_OR_RETURN(CudaW4A4MoeWorkspace workspace,
//                           CudaW4A4MoeWorkspace::make(programs, 64));
//   cuda_w4a4_moe({.layer = layer, .programs = programs, .workspace = workspace,
//                  .call = {.x = x, .logits = logits, .y = y, .tokens = 64}}, stream);
//
// Activations have the format of the weights, and the bits that formats/quantize.h gives: NVFP4
// with the checkpoint's input scales (static) or a factor of each row, MXFP4 without any. A token
// is quantized once, not once for each of its experts. With static scales gate and up write codes;
// otherwise rows in `activations`, of which a kernel of its own makes codes, since a row's factor
// is known when all of the row is.
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
#include "kernels/gemm/device/w4a4.h"
#include "kernels/moe/device/moe_cuda_layer.h"
#include "kernels/moe/device/moe_cuda_memory.h"
#include "kernels/moe/device/moe_kernels.h"
#include "kernels/moe/device/quantize_kernel.h"
#include "kernels/moe/device/w4a4_weights.h"

namespace nibble {

// What kernels are compiled for.
struct CudaW4A4MoeProblem {
  MoeShape shape;
  W4A4Problem gate_up;
  W4A4Problem down;
  QuantizeShape tokens;                // of x
  std::optional<QuantizeShape> slots;  // of what is between the products; none: gate and up do it
  friend bool operator==(const CudaW4A4MoeProblem&, const CudaW4A4MoeProblem&) = default;
};

// An input error, with the numbers, for sizes, a router or an activation that the kernels do not
// take: hidden and intermediate are whole blocks of 16 (NVFP4) or 32 (MXFP4).
Result<CudaW4A4MoeProblem> cuda_w4a4_moe_problem(const CudaMoeConfig& config, Format format,
                                                 bool gate_up_bias, bool down_bias);

// A layer's weights.
class CudaW4A4MoeLayer {
 public:
  // Uploads; the router's matrix is not taken. An input error names what does not fit.
  static Result<CudaW4A4MoeLayer> make(const cuda::Device& device, CudaMoeConfig config,
                                       const MoeWeights& weights);
  // Random weights that keep the size of activations, without biases, for measurements; static
  // input scales are those of values up to 4 and 8.
  static Result<CudaW4A4MoeLayer> random(const cuda::Device& device, CudaMoeConfig config,
                                         Format format, std::uint64_t seed);

  const CudaMoeConfig& config() const { return config_; }
  const CudaW4A4MoeProblem& problem() const { return problem_; }
  const W4A4Weights& gate_up() const { return gate_up_; }
  const W4A4Weights& down() const { return down_; }
  const CudaMoeBiases& biases() const { return biases_; }
  // Static: of the input of either product; else 1.
  float gate_up_input_scale() const { return gate_up_input_scale_; }
  float down_input_scale() const { return down_input_scale_; }

 private:
  CudaW4A4MoeLayer() = default;

  CudaMoeConfig config_;
  CudaW4A4MoeProblem problem_;
  W4A4Weights gate_up_;  // [experts, 2 * intermediate, hidden]
  W4A4Weights down_;     // [experts, hidden, intermediate]
  CudaMoeBiases biases_;
  float gate_up_input_scale_ = 1;
  float down_input_scale_ = 1;
};

struct CudaW4A4MoeTactics {
  W4A4Tactic gate_up;
  W4A4Tactic down;
};

// The kernels of a layer; they serve all layers of one problem.
class CudaW4A4MoePrograms {
 public:
  // For the GPU's own architecture, or for `arch` where that runs there too.
  static Result<CudaW4A4MoePrograms> make(const cuda::Device& device,
                                          const CudaW4A4MoeProblem& problem,
                                          const CudaW4A4MoeTactics& tactics,
                                          const std::string& arch = "");

  const CudaW4A4MoeProblem& problem() const { return problem_; }
  const MoeKernels& around() const { return around_; }
  const W4A4Kernel& gate_up() const { return gate_up_; }
  const W4A4Kernel& down() const { return down_; }
  const QuantizeKernel& tokens() const { return tokens_; }
  const std::optional<QuantizeKernel>& slots() const { return slots_; }
  // True: the times of a layer say nothing (w4a4.h).
  bool software_mma() const { return gate_up_.software_mma(); }

 private:
  CudaW4A4MoePrograms(const CudaW4A4MoeProblem& problem, MoeKernels around, W4A4Kernel gate_up,
                      W4A4Kernel down, QuantizeKernel tokens)
      : problem_(problem),
        around_(std::move(around)),
        gate_up_(std::move(gate_up)),
        down_(std::move(down)),
        tokens_(std::move(tokens)) {}

  CudaW4A4MoeProblem problem_;
  MoeKernels around_;
  W4A4Kernel gate_up_;
  W4A4Kernel down_;
  QuantizeKernel tokens_;
  std::optional<QuantizeKernel> slots_;
};

// Where the arrays of a workspace lie, bytes from its beginning: a pure function of sizes.
struct W4A4MoePlaces {
  std::size_t partials = 0;       // of either product, which take turns
  std::size_t token_codes = 0;    // [most_tokens, hidden / 2]
  std::size_t token_scales = 0;   // 128x4 of [most_tokens, hidden / block]
  std::size_t token_factors = 0;  // [most_tokens], where each row has its own
  std::size_t activated = 0;      // [slots, intermediate], where `slots` makes codes of it
  std::size_t slot_codes = 0;     // [slots, intermediate / 2]
  std::size_t slot_scales = 0;    // 128x4 of [slots, intermediate / block]
  std::size_t slot_factors = 0;   // [slots], where each row has its own
  std::size_t rows = 0;           // [slots, hidden]
};
struct W4A4MoePlan {
  MoeMemorySizes sizes;
  W4A4MoePlaces places;
  MemoryPlan memory;
};
// `grid_*`: blocks of either product; `partial_bytes`: of what needs more of them.
struct W4A4MoeLaunches {
  int grid_a = 0;
  int grid_b = 0;
  std::size_t partial_bytes = 0;
};
W4A4MoePlan w4a4_moe_plan(const CudaW4A4MoeProblem& problem, const W4A4MoeLaunches& launches,
                          std::int64_t most_tokens);

// Everything that a call writes to besides its output: made once, used every step. One workspace
// serves all layers of one problem, one call at a time.
class CudaW4A4MoeWorkspace {
 public:
  static Result<CudaW4A4MoeWorkspace> make(const CudaW4A4MoePrograms& programs,
                                           std::int64_t most_tokens);

  CudaMoeMemory& memory() { return memory_; }
  const CudaMoeMemory& memory() const { return memory_; }
  const W4A4MoePlaces& places() const { return places_; }

  // What the last call made, for tests; each waits for all work of the GPU. Rows beyond the last
  // and padding slots are whatever was there.
  struct Rows {
    std::vector<std::uint8_t> codes;
    std::vector<std::uint8_t> scales;  // 128x4
    std::vector<float> factors;        // empty where rows have none of their own
  };
  Result<Rows> read_tokens() const;                           // [most_tokens]
  Result<Rows> read_slots() const;                            // [slots]
  Result<std::vector<std::uint16_t>> read_activated() const;  // [slots, intermediate], or empty

 private:
  friend struct W4A4MoeAccess;  // w4a4_moe_call.cpp
  explicit CudaW4A4MoeWorkspace(CudaW4A4MoeProblem problem) : problem_(std::move(problem)) {}

  CudaW4A4MoeProblem problem_;
  W4A4MoePlaces places_;
  CudaMoeMemory memory_;
};

struct CudaW4A4MoeParams {
  const CudaW4A4MoeLayer& layer;
  const CudaW4A4MoePrograms& programs;
  CudaW4A4MoeWorkspace& workspace;
  CudaMoeCall call;
};

// The whole layer; nothing for no tokens. Neither allocates nor waits, and can be captured into a
// graph. An input error for what is missing, not aligned (x, y, shared: 16 bytes; others 4), made
// for another problem, or more than the workspace holds.
Result<> cuda_w4a4_moe(const CudaW4A4MoeParams& params, cuda::Stream& stream);

// Its parts, in their order. A product reads the tables before it waits for the kernel before it,
// so that no product may follow routing at once: kTokens stands between. A product that splits
// tiles wants its flags cleared before each launch; routing does it, or
// workspace.memory().clear_flags().
enum class W4A4MoePart {
  kRoute,
  kTokens,  // x to codes
  kGateUp,
  kSlots,  // what is between the products to codes; nothing where gate and up did it
  kDown,
  kCombine
};
Result<> cuda_w4a4_moe_part(W4A4MoePart part, const CudaW4A4MoeParams& params,
                            cuda::Stream& stream);

}  // namespace nibble
