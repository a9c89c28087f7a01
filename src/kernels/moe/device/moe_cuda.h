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
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "formats/format.h"
#include "kernels/gemm/device/prepack.h"
#include "kernels/gemm/device/w4a16.h"
#include "kernels/moe/activation.h"
#include "kernels/moe/device/moe_kernels.h"
#include "kernels/moe/moe.h"

namespace nibble {

struct CudaMoeConfig {
  std::int64_t hidden = 0;        // even, as intermediate
  std::int64_t intermediate = 0;  // of one routed expert
  RouterConfig router;
  Activation activation;
  Element activations = Element::kBf16;  // kBf16 or kFp16: of x, and between the products
  Element output = Element::kBf16;       // of y and shared
};

// What kernels are compiled for.
struct CudaMoeProblem {
  MoeShape shape;
  W4A16Problem gate_up;
  W4A16Problem down;
};

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
  // Device addresses, 0 where there is none: float [experts, 2 * intermediate], [experts, hidden],
  // and [experts] twice.
  cuda::DevicePointer gate_up_bias() const { return gate_up_bias_.address(); }
  cuda::DevicePointer down_bias() const { return down_bias_.address(); }
  cuda::DevicePointer router_bias() const { return router_bias_.address(); }
  cuda::DevicePointer correction_bias() const { return correction_bias_.address(); }

 private:
  CudaMoeLayer() = default;

  CudaMoeConfig config_;
  CudaMoeProblem problem_;
  TiledWeights gate_up_;  // [experts, 2 * intermediate, hidden]
  TiledWeights down_;     // [experts, hidden, intermediate]
  cuda::DeviceBuffer gate_up_bias_;
  cuda::DeviceBuffer down_bias_;
  cuda::DeviceBuffer router_bias_;
  cuda::DeviceBuffer correction_bias_;
};

// An input error for sizes, a router or an activation that the kernels do not take.
Result<CudaMoeProblem> cuda_moe_problem(const CudaMoeConfig& config, Format format,
                                        bool gate_up_bias, bool down_bias);

struct CudaMoeTactics {
  W4A16Tactic gate_up;
  W4A16Tactic down;
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
};

// Everything that a call writes to besides its output: made once, used every step. One workspace
// serves all layers of one problem, one call at a time.
class CudaMoeWorkspace {
 public:
  static Result<CudaMoeWorkspace> make(const CudaMoePrograms& programs, std::int64_t most_tokens);

  std::int64_t most_tokens() const { return most_tokens_; }
  std::size_t bytes() const { return memory_.size(); }
  const MoeShape& shape() const { return shape_; }

  // Choices since the workspace was made whose ids, given on the device, were no experts: they were
  // left out. Waits for all work of the GPU.
  Result<std::int64_t> dropped_choices() const;
  // What routing made of the last call, for tests: counts [experts], offsets [experts + 1].
  Result<std::vector<int>> counts() const;
  Result<std::vector<int>> offsets() const;
  // Every byte becomes 0xff, which is no number: what a call reads before it writes would show.
  Result<> poison();

 private:
  friend struct CudaMoeAccess;  // moe_cuda.cpp
  CudaMoeWorkspace() = default;

  // Bytes from the beginning of memory_.
  struct Places {
    std::size_t ids = 0;          // [most_tokens, top_k]
    std::size_t weights = 0;      // [most_tokens, top_k]
    std::size_t counts = 0;       // [experts]
    std::size_t offsets = 0;      // [experts + 1]
    std::size_t tiles_a = 0;      // [experts + 1]
    std::size_t tiles_b = 0;      // [experts + 1]
    std::size_t slot_token = 0;   // [slots]
    std::size_t slot_weight = 0;  // [slots]
    std::size_t choice_slot = 0;  // [most_tokens, top_k]
    std::size_t partials = 0;     // of either product, which take turns
    std::size_t input = 0;        // slot tiles of hidden columns
    std::size_t activated = 0;    // slot tiles of intermediate columns
    std::size_t rows = 0;         // [slots, hidden]
  };

  MoeShape shape_;
  std::int64_t intermediate_ = 0;
  std::int64_t most_tokens_ = 0;
  int flags_a_count_ = 0;
  int flags_b_count_ = 0;
  Places places_;
  cuda::DeviceBuffer memory_;
  cuda::DeviceBuffer flags_;    // uint32 [flags_a_count_ + flags_b_count_]
  cuda::DeviceBuffer dropped_;  // int [1]
};

// Device addresses.
struct CudaMoeParams {
  const CudaMoeLayer& layer;
  const CudaMoePrograms& programs;
  CudaMoeWorkspace& workspace;
  cuda::DevicePointer x = 0;  // [tokens, hidden] in `activations`
  // Logits, or both others. Ids that come from the host are checked there (check_expert_ids()); of
  // those that are no experts the choices are left out (dropped_choices()).
  cuda::DevicePointer logits = 0;          // float [tokens, experts]
  cuda::DevicePointer expert_ids = 0;      // int [tokens, top_k]
  cuda::DevicePointer expert_weights = 0;  // float [tokens, top_k]
  cuda::DevicePointer shared = 0;  // [tokens, hidden] in `output`, added last; or 0; may be y
  cuda::DevicePointer y = 0;       // [tokens, hidden] in `output`
  std::int64_t tokens = 0;
};

// The whole layer; nothing for no tokens. Neither allocates nor waits, and can be captured into a
// graph. An input error for what is missing, not aligned (y, shared: 16 bytes; others 4), made for
// another problem, or more than the workspace holds.
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
