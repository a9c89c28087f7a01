// A mixture-of-experts layer on the CPU: router, gate and up with their activation, down, and the
// weighted sum.
//
//   NIBBLE_ASSIGN_OR_RETURN(const MoeLayer layer, MoeLayer::make(config, weights, pool));
//   NIBBLE_ASSIGN_OR_RETURN(MoeWorkspace workspace, MoeWorkspace::make(layer, 64));
//   moe({.layer = layer, .workspace = workspace, .x = x, .y = y}, pool);            // routes
//   moe({.layer = layer, .workspace = workspace, .x = x, .expert_ids = ids,
//        .expert_weights = weights, .y = y}, pool);                                 // ids given
//
// Weights multiply what experts give, not what they take (as Llama-4's do).
// A token's output has the same bits whatever else is in the batch and for any number of threads.
// With 4-bit experts and the ids given, also on every instruction set; products with bf16 weights,
// and so the router's, have the same bits on one instruction set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "formats/format.h"
#include "formats/quantized_matrix.h"
#include "kernels/gemm/packed_activations.h"
#include "kernels/gemm/packed_weights.h"
#include "kernels/moe/activation.h"
#include "kernels/moe/router.h"
#include "machine/isa.h"

namespace nibble {

// How many threads a product takes at some numbers of tokens: what a tuner chose for this processor
// (docs/tuning.md). The bits are the same for any.
struct ThreadRange {
  std::int64_t from_tokens = 0;
  std::int64_t tokens = 0;
  int threads = 0;  // at most so many; 0: all
};
struct MoeThreads {
  std::vector<ThreadRange> gate_up;
  std::vector<ThreadRange> down;
};
// Of the range that holds `tokens` and ends first; 0, which is all, where none does.
int threads_for(std::span<const ThreadRange> ranges, std::int64_t tokens);

struct MoeConfig {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;  // of one routed expert
  RouterConfig router;            // experts, top_k, and how they are chosen
  Activation activation;
  // kFp32, kBf16, kInt8 or kNvfp4, as gemm() describes. The router's product takes fp32 with kFp32
  // and bf16 with all others.
  Format activations = Format::kBf16;
  // kNvfp4 only: the checkpoint's input scales, the largest of all experts for either product.
  // Otherwise every row takes its own.
  bool static_input_scales = false;
  Isa isa = best_isa();
  MoeThreads threads = {};  // of the products; whatever else a layer does takes all
};

// Canonical weights, as views. Biases are empty where a model has none; `router` is absent where
// the ids are always given.
struct MoeWeights {
  std::optional<QuantizedMatrix> router = std::nullopt;  // [experts, hidden], bf16
  std::span<const float> router_bias = {};               // [experts]
  std::span<const QuantizedMatrix> gate_up;              // experts x [2 * intermediate, hidden]:
                                                         // gate rows, then up rows
  std::span<const float> gate_up_bias = {};              // [experts, 2 * intermediate]
  std::span<const QuantizedMatrix> down;                 // experts x [hidden, intermediate]
  std::span<const float> down_bias = {};                 // [experts, hidden]
};

class MoeLayer {
 public:
  // Packs the weights and copies the biases. An input error names the tensor that does not fit,
  // the expert that has no input scale, or the instruction set that this processor has not.
  static Result<MoeLayer> make(MoeConfig config, const MoeWeights& weights, ThreadPool& pool);

  const MoeConfig& config() const { return config_; }
  bool has_router() const { return router_weights_.has_value(); }
  const PackedWeights& gate_up() const { return gate_up_; }
  const PackedWeights& down() const { return down_; }

 private:
  friend struct MoeAccess;  // kernels/moe/moe.cpp

  MoeLayer(MoeConfig config, Router router)
      : config_(std::move(config)), router_(std::move(router)) {}

  MoeConfig config_;
  Router router_;
  std::optional<PackedWeights> router_weights_;  // [1, experts, hidden]
  PackedWeights gate_up_;                        // [experts, 2 * intermediate, hidden]
  PackedWeights down_;                           // [experts, hidden, intermediate]
  std::vector<float> router_bias_;
  std::vector<float> gate_up_bias_;
  std::vector<float> down_bias_;
  std::optional<float> gate_up_input_scale_;
  std::optional<float> down_input_scale_;
};

// Everything that moe() writes to besides its output: made once, used every step. One workspace
// serves all layers of one shape, one call at a time.
class MoeWorkspace {
 public:
  static Result<MoeWorkspace> make(const MoeLayer& layer, std::int64_t most_tokens);

  std::int64_t most_tokens() const { return most_tokens_; }

  // Of the last call. Slots are sorted by expert (kernels/moe/dispatch.h).
  std::int64_t tokens() const { return tokens_; }
  // [tokens, top_k]
  std::span<const std::int32_t> expert_ids() const { return first(ids_.data(), 1); }
  std::span<const float> expert_weights() const { return first(weights_.data(), 1); }
  std::span<const std::int32_t> slot_of() const { return first(slot_of_.data(), 1); }
  // [experts + 1]
  std::span<const std::int32_t> offsets() const { return offsets_; }
  // [slots, 2 * intermediate], without bias, and [slots, intermediate]
  std::span<const float> gate_up() const { return first(gate_up_.data(), 2 * intermediate_); }
  std::span<const float> activated() const { return first(activated_.data(), intermediate_); }

 private:
  friend struct MoeAccess;
  MoeWorkspace() = default;

  // What the last call wrote of a list with `columns` values for each slot.
  template <class T>
  std::span<const T> first(const T* list, std::int64_t columns) const {
    return {list, static_cast<std::size_t>(tokens_ * top_k_ * columns)};
  }

  std::int64_t most_tokens_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t experts_ = 0;
  std::int64_t top_k_ = 0;
  std::int64_t hidden_ = 0;
  std::int64_t intermediate_ = 0;
  std::optional<PackedActivations> router_input_;  // [most_tokens, hidden]
  PackedActivations gate_up_input_;                // [most_tokens, hidden]
  PackedActivations down_input_;                   // [slots, intermediate]
  HugeBuffer memory_;                              // of the five below
  std::span<float> logits_;                        // [most_tokens, experts]
  std::span<float> weights_;                       // [most_tokens, top_k]
  std::span<float> gate_up_;                       // [slots, 2 * intermediate]
  std::span<float> activated_;                     // [slots, intermediate]
  std::span<float> down_;                          // [slots, hidden]
  std::vector<std::int32_t> ids_;                  // [most_tokens, top_k]
  std::vector<std::int32_t> offsets_;              // [experts + 1]
  std::vector<std::int32_t> row_of_;               // [slots]
  std::vector<std::int32_t> expert_of_;            // [slots]
  std::vector<std::int32_t> slot_of_;              // [most_tokens, top_k]
  std::vector<std::int32_t> every_row_;            // 0, 1, 2 ..: each slot its own row
};

struct MoeParams {
  const MoeLayer& layer;
  MoeWorkspace& workspace;
  std::span<const float> x;  // [tokens, hidden], tokens <= workspace.most_tokens()
  // [tokens, top_k], both or neither: without them the layer's router chooses. Ids must be below
  // the number of experts; check_expert_ids() tells for those that come from outside.
  std::span<const std::int32_t> expert_ids = {};
  std::span<const float> expert_weights = {};
  std::span<const float> shared = {};  // [tokens, hidden]: what shared experts gave, added last
  std::span<float> y;                  // [tokens, hidden]; may be `shared`, not `x`
  // Told when each part has ended: "moe.router", "moe.gate_up" (with its activation, and that made
  // the input of down), "moe.down", "moe.combine".
  const std::function<void(std::string_view)>* ended = nullptr;
};

// Sizes that do not fit together are our caller's mistake (NIBBLE_CHECK). Does not allocate.
void moe(const MoeParams& params, ThreadPool& pool);

// The router's part of moe() alone: its product and its choice, into the workspace.
void moe_route(const MoeParams& params, ThreadPool& pool);

// One line for logs, results and bug reports:
// "moe nvfp4 x int8 avx2 256 experts top-8 6144 -> 2 x 2048 swiglu".
std::string moe_name(const MoeConfig& config, Format weights);

}  // namespace nibble
