// What config.json leaves unsaid, because the model's code says it: module names, biases, norms and
// the router's kind, per model_type. Source: transformers' modeling files.
//
//   const Family* family = find_family("glm_moe_dsa");   // nullptr: never seen
#pragma once

#include <cstdint>
#include <string_view>

#include "model/spec.h"

namespace nibble {

struct Family {
  // How the experts are named.
  enum class Layout {
    kPlain,        // mlp.gate, mlp.experts.0.gate_proj, mlp.shared_experts
    kQwenShared,   // as kPlain; mlp.shared_expert with a gate of its own
    kBlockSparse,  // block_sparse_moe.gate, block_sparse_moe.experts.0.w1
    kFused,        // mlp.router, mlp.experts (gpt-oss)
    kFeedForward,  // feed_forward.router, feed_forward.experts, feed_forward.shared_expert
                   // (Llama-4)
  };

  std::string_view model_type;
  Layout layout = Layout::kPlain;
  bool sigmoid = false;          // the router's scores, unless scoring_func says otherwise
  bool correction_bias = false;  // e_score_correction_bias
  bool qk_norm = false;          // always, without a field
  bool qkv_bias = false;         // always, without a field
  bool output_bias = false;      // attention_bias covers o_proj too
  std::int64_t index_heads = 0;  // DSA: the default of index_n_heads

  // Whether the model's code knows no dense variant (gpt-oss, Mixtral, MiniMax-M2, Qwen2-MoE).
  constexpr bool always_sparse() const {
    return layout == Layout::kFused || layout == Layout::kBlockSparse ||
           layout == Layout::kQwenShared;
  }
};

const Family* find_family(std::string_view model_type);
ModuleNames module_names(Family::Layout layout);

}  // namespace nibble
