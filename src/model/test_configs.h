// Small configurations for the tests of the parser, and what they expect of it.
//
//   EXPECT_NE(fault(with(dense(), R"({"hidden_size": 0})")).find("hidden_size"),
//   std::string::npos);
#pragma once

#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <utility>

#include "model/config.h"

namespace nibble {

inline Json json(std::string_view text) {
  Result<Json> parsed = Json::parse(text, "test");
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
  return parsed.ok() ? std::move(*parsed) : Json();
}

// Smallest configurations that parse; a test adds or replaces fields.
inline Json dense() {
  return json(R"({"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 4,
                  "vocab_size": 100, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "intermediate_size": 128})");
}
inline Json sparse() {
  return json(R"({"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 4,
                  "vocab_size": 100, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "intermediate_size": 128, "num_experts": 8, "num_experts_per_tok": 2,
                  "moe_intermediate_size": 32})");
}
inline Json latent() {
  return json(R"({"model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 8,
                  "vocab_size": 100, "num_attention_heads": 4, "intermediate_size": 128,
                  "kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 8,
                  "qk_rope_head_dim": 4, "v_head_dim": 8})");
}
inline Json with(Json config, std::string_view fields) {
  const Json added = json(fields);
  for (const auto& [key, value] : added.as_object()) config.set(key, value);
  return config;
}
inline Json without(const Json& config, std::string_view key) {
  Json kept = Json::object();
  for (const auto& [name, value] : config.as_object()) {
    if (name != key) kept.set(name, value);
  }
  return kept;
}

inline ModelSpec parse(const Json& config) {
  Result<ModelSpec> model = parse_model(config, nullptr, "test");
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  return model.ok() ? std::move(*model) : ModelSpec{};
}

inline std::string fault(const Json& config) {
  const Result<ModelSpec> model = parse_model(config, nullptr, "test");
  EXPECT_FALSE(model.ok()) << config.dump();
  if (model.ok()) return "";
  EXPECT_EQ(model.error().kind, ErrorKind::kInput);
  EXPECT_TRUE(model.error().message.starts_with("config.json")) << model.error().message;
  return model.error().message;
}

inline bool warns(const ModelSpec& model, std::string_view text) {
  return std::any_of(
      model.warnings.begin(), model.warnings.end(),
      [text](const std::string& warning) { return warning.find(text) != std::string::npos; });
}

// "1" for each layer with experts.
inline std::string expert_layers(const ModelSpec& model) {
  std::string layers;
  for (const LayerSpec& layer : model.layers) layers += layer.moe ? '1' : '0';
  return layers;
}

}  // namespace nibble
