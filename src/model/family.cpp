#include "model/family.h"

#include <algorithm>
#include <array>

namespace nibble {
namespace {

using Layout = Family::Layout;

constexpr std::array kFamilies = {
    Family{.model_type = "deepseek_v2"},
    Family{.model_type = "deepseek_v3", .sigmoid = true, .correction_bias = true},
    Family{
        .model_type = "deepseek_v32", .sigmoid = true, .correction_bias = true, .index_heads = 64},
    Family{.model_type = "kimi_k2", .sigmoid = true, .correction_bias = true},
    Family{
        .model_type = "glm_moe_dsa", .sigmoid = true, .correction_bias = true, .index_heads = 32},
    Family{.model_type = "glm4_moe", .sigmoid = true, .correction_bias = true},
    Family{.model_type = "glm4_moe_lite", .sigmoid = true, .correction_bias = true},
    Family{.model_type = "qwen2", .qkv_bias = true},
    Family{.model_type = "qwen2_moe", .layout = Layout::kQwenShared, .qkv_bias = true},
    Family{.model_type = "qwen3", .qk_norm = true, .output_bias = true},
    Family{.model_type = "qwen3_moe", .qk_norm = true, .output_bias = true},
    Family{.model_type = "qwen3_vl_text", .qk_norm = true, .output_bias = true},
    Family{.model_type = "qwen3_vl_moe_text", .qk_norm = true, .output_bias = true},
    Family{.model_type = "llama", .output_bias = true},
    Family{.model_type = "mistral"},
    Family{.model_type = "mixtral", .layout = Layout::kBlockSparse},
    Family{.model_type = "minimax_m2",
           .layout = Layout::kBlockSparse,
           .sigmoid = true,
           .correction_bias = true},
    Family{.model_type = "gpt_oss", .layout = Layout::kFused, .output_bias = true},
    Family{.model_type = "llama4",
           .layout = Layout::kFeedForward,
           .sigmoid = true,
           .output_bias = true},
    Family{.model_type = "llama4_text",
           .layout = Layout::kFeedForward,
           .sigmoid = true,
           .output_bias = true},
};

}  // namespace

const Family* find_family(std::string_view model_type) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& family) {
    return family.model_type == model_type;
  });
  return found == kFamilies.end() ? nullptr : &*found;
}

ModuleNames module_names(Family::Layout layout) {
  ModuleNames names;
  switch (layout) {
    case Layout::kPlain:
      break;
    case Layout::kQwenShared:
      names.shared = "shared_expert";
      names.shared_gate = true;
      break;
    case Layout::kBlockSparse:
      names.block = "block_sparse_moe";
      names.gate = "w1";
      names.down = "w2";
      break;
    case Layout::kFused:
      names.router = "router";
      names.fused_experts = true;
      break;
    case Layout::kFeedForward:
      names.block = "feed_forward";
      names.router = "router";
      names.shared = "shared_expert";
      names.fused_experts = true;
      break;
  }
  return names;
}

}  // namespace nibble
