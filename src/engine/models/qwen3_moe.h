// Qwen3-MoE, and Qwen2-MoE with its shared expert: grouped-query attention with norms of heads or
// biases, rotary embeddings, softmax routers, dense layers in between.
//
//   NIBBLE_ASSIGN_OR_RETURN(Qwen3MoeWeights weights, load_qwen3_moe(binding, options, pool));
//   Qwen3Moe model(std::move(weights));
//   model.forward({.tokens = tokens, .sequences = sequences}, logits, pool);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model.h"
#include "engine/models/embedding.h"
#include "engine/models/linear.h"
#include "engine/models/load.h"
#include "kernels/attention/attention.h"
#include "kernels/moe/moe.h"
#include "kernels/rope/rope.h"

namespace nibble {
class Binding;
class Checkpoint;
}  // namespace nibble

namespace nibble::engine {

struct Qwen3MoeConfig {
  ModelInfo info;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  float epsilon = 0;  // of all norms
  RopeConfig rope;
  std::int64_t layers = 0;
  ModelOptions options;
};

struct Mlp {
  Linear gate_up;  // [2 * intermediate, hidden]
  Linear down;     // [hidden, intermediate]
};

struct Qwen3MoeLayer {
  std::vector<float> attention_norm;  // [hidden]
  std::vector<float> ffn_norm;        // [hidden]
  std::vector<float> q_norm;          // [head_dim], or empty
  std::vector<float> k_norm;
  Linear qkv;              // [(heads + 2 kv_heads) * head_dim, hidden]
  Linear out;              // [hidden, heads * head_dim]
  std::optional<Mlp> mlp;  // of a dense layer, or the shared expert
  std::optional<MoeLayer> moe;
  std::vector<float> shared_gate;  // [hidden], or empty
};

struct Qwen3MoeWeights {
  Qwen3MoeConfig config;
  Rope rope;
  Embedding embedding;
  std::vector<Qwen3MoeLayer> layers;
  std::vector<float> norm;  // [hidden]
  Linear head;              // [vocabulary, hidden]
};

// What config.json says beyond the ModelSpec. An input error for what this model does not do.
Result<Qwen3MoeConfig> read_qwen3_moe_config(const Checkpoint& checkpoint,
                                             const ModelOptions& options);
Result<Qwen3MoeWeights> load_qwen3_moe(const Binding& binding, const ModelOptions& options,
                                       ThreadPool& pool);

class Qwen3Moe : public Model {
 public:
  explicit Qwen3Moe(Qwen3MoeWeights weights);

  const ModelInfo& info() const override { return weights_.config.info; }
  Result<> reserve(const Reservation& reservation) override;
  void forward(const ForwardBatch& batch, std::span<float> logits, ThreadPool& pool,
               StepProbe* probe) override;
  ExpertTokens expert_tokens() override { return {expert_tokens_, experts_}; }

 private:
  using Layer = Qwen3MoeLayer;

  Result<> reserve_inputs(std::int64_t most_rows, std::int64_t most_logits);
  void begin(const ForwardBatch& batch);
  void attend(const Layer& layer, std::int64_t number, ThreadPool& pool);
  void turn_heads(const Layer& layer, std::int64_t row);
  void norm_heads(std::span<float> qkv, std::int64_t begin, std::int64_t heads,
                  std::span<const float> weight);
  void run_mlp(const Mlp& mlp, std::string_view gate_up, std::string_view down, ThreadPool& pool);
  void feed_forward(std::size_t number, ThreadPool& pool);
  void count_experts(std::size_t number);
  std::span<float> take_wanted_rows(const ForwardBatch& batch);
  void ended(std::string_view op) {
    if (probe_ != nullptr) probe_->op(op);
  }
  // The rows of this batch of a buffer.
  std::span<float> rows(std::span<float> buffer, std::int64_t columns) const {
    return buffer.first(static_cast<std::size_t>(rows_ * columns));
  }
  std::int64_t qkv_width() const;

  Qwen3MoeWeights weights_;
  KvCache cache_;
  AttentionWorkspace attention_;
  LinearInputs inputs_;
  std::vector<MoeWorkspace> moe_;          // one for each form of experts
  std::vector<std::size_t> workspace_of_;  // [layers], into moe_
  std::int64_t experts_ = 0;
  std::vector<std::int64_t> expert_tokens_;  // [layers, experts_]
  std::vector<CachedRows> sequences_;        // of the batch
  std::vector<std::int64_t> positions_;      // [rows]
  std::int64_t rows_ = 0;
  std::int64_t most_rows_ = 0;
  std::int64_t intermediate_ = 0;  // the widest of all dense layers and shared experts
  StepProbe* probe_ = nullptr;
  ThreadPool alone_ = ThreadPool(1);  // for parts that a thread of the step does by itself
  std::function<void(std::string_view)> moe_ended_;

  HugeBuffer memory_;           // of all below
  std::span<float> residual_;   // [most_rows, hidden]
  std::span<float> delta_;      // [most_rows, hidden]: what the next norm adds to it
  std::span<float> normed_;     // [most_rows, hidden]
  std::span<float> qkv_;        // [most_rows, qkv_width()]
  std::span<float> attended_;   // [most_rows, heads * head_dim]
  std::span<float> gate_up_;    // [most_rows, 2 * intermediate_]
  std::span<float> activated_;  // [most_rows, intermediate_]
  std::span<float> cosines_;    // [most_rows, head_dim / 2]
  std::span<float> sines_;
  std::span<float> wanted_;  // [most_logits, hidden]
};

}  // namespace nibble::engine
