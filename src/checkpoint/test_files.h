// Small checkpoints for tests, written by hand: tensors with their bytes, files, folders.
//
//   TinyCheckpoint whole = tiny(true);     // a model of one layer in ModelOpt form
//   const Checkpoint checkpoint = open_written(whole, folder.path());
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing.h"
#include "checkpoint/checkpoint.h"

namespace nibble {

inline const std::string kLayer = "model.layers.0.";

struct TestTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};

inline std::string length_prefix(std::uint64_t length) {
  std::string bytes(8, '\0');
  for (std::size_t index = 0; index < 8; ++index) {
    bytes[index] = static_cast<char>(length >> (8 * index) & 0xff);
  }
  return bytes;
}

inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return length_prefix(header.size()) + header + data;
}

inline std::string safetensors_bytes(const std::vector<TestTensor>& tensors) {
  std::string header = "{";
  std::string data;
  for (const TestTensor& tensor : tensors) {
    header += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                          header.size() > 1 ? "," : "", tensor.name, tensor.dtype,
                          shape_text(tensor.shape), data.size(), data.size() + tensor.data.size());
    data += tensor.data;
  }
  return safetensors_bytes(header + "}", data);
}

template <class T>
std::string little_endian(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);  // not write_file, which waits for the disk
  file << bytes;
  file.close();
  ASSERT_TRUE(file.good()) << path;
}

// A model of one layer with three experts: hidden 32, experts of 16, 2 heads of 16, 1 KV head.
struct TinyCheckpoint {
  std::vector<TestTensor> tensors;
  std::string config;

  TestTensor& at(std::string_view name) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [name](const TestTensor& t) { return t.name == name; });
    NIBBLE_CHECK(found != tensors.end());
    return *found;
  }
  void remove(std::string_view name) {
    const TestTensor* tensor = &at(name);
    tensors.erase(tensors.begin() + (tensor - tensors.data()));
  }
  void add(std::string name, std::string dtype, std::vector<std::int64_t> shape, std::string data) {
    tensors.push_back({std::move(name), std::move(dtype), std::move(shape), std::move(data)});
  }
  void bf16(const std::string& name, std::vector<std::int64_t> shape) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    add(name, "BF16", std::move(shape), little_endian(std::vector<std::uint16_t>(count, 0x3f80)));
  }
  // Codes 0x21 (0.5 and 1), block scales 448 (0x7e), the factor as the dialect stores it.
  void nvfp4(const std::string& module, std::int64_t rows, std::int64_t columns, bool modelopt,
             float factor, float input) {
    const auto r = static_cast<std::size_t>(rows);
    const auto c = static_cast<std::size_t>(columns);
    const std::vector<std::int64_t> scalar =
        modelopt ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{1};
    add(module + (modelopt ? ".weight" : ".weight_packed"), "U8", {rows, columns / 2},
        std::string(r * c / 2, '\x21'));
    add(module + ".weight_scale", "F8_E4M3", {rows, columns / 16}, std::string(r * c / 16, '\x7e'));
    add(module + (modelopt ? ".weight_scale_2" : ".weight_global_scale"), "F32", scalar,
        little_endian<float>({factor}));
    add(module + (modelopt ? ".input_scale" : ".input_global_scale"), "F32", scalar,
        little_endian<float>({input}));
  }
  void write(const std::filesystem::path& folder) const {
    nibble::write(folder / "model.safetensors", safetensors_bytes(tensors));
    if (!config.empty()) nibble::write(folder / "config.json", config);
  }
};

inline constexpr const char* kTinyConfig = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 32,
  "num_hidden_layers": 1, "vocab_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
  "head_dim": 16, "intermediate_size": 64, "num_experts": 3, "num_experts_per_tok": 1,
  "moe_intermediate_size": 16, "tie_word_embeddings": false)";

// `modelopt`: its names and multipliers, else those of compressed-tensors. Both mean the same.
inline TinyCheckpoint tiny(bool modelopt) {
  TinyCheckpoint out;
  const float factor = modelopt ? 1.0F / 2688 : 2688.0F;
  const float input = modelopt ? 0.25F : 4.0F;
  out.config = std::string(kTinyConfig) +
               (modelopt ? R"(, "quantization_config": {"quant_method": "modelopt",
                   "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"]}})"
                         : R"(, "quantization_config": {"quant_method": "compressed-tensors",
                   "format": "nvfp4-pack-quantized", "ignore": ["lm_head", "re:.*mlp.gate$"],
                   "config_groups": {"group_0": {"targets": ["Linear"],
                     "weights": {"num_bits": 4, "type": "float", "group_size": 16},
                     "input_activations": {"num_bits": 4, "type": "float", "group_size": 16}}}}})");
  const std::string at = "model.layers.0.";
  out.bf16("model.embed_tokens.weight", {8, 32});
  out.bf16("model.norm.weight", {32});
  out.bf16("lm_head.weight", {8, 32});
  out.bf16(at + "input_layernorm.weight", {32});
  out.bf16(at + "post_attention_layernorm.weight", {32});
  out.bf16(at + "self_attn.q_norm.weight", {16});
  out.bf16(at + "self_attn.k_norm.weight", {16});
  out.bf16(at + "mlp.gate.weight", {3, 32});
  out.nvfp4(at + "self_attn.q_proj", 32, 32, modelopt, factor, input);
  out.nvfp4(at + "self_attn.k_proj", 16, 32, modelopt, factor, input);
  out.nvfp4(at + "self_attn.v_proj", 16, 32, modelopt, factor, input);
  out.nvfp4(at + "self_attn.o_proj", 32, 32, modelopt, factor, input);
  for (int expert = 0; expert < 3; ++expert) {
    const std::string below = fmt::format("{}mlp.experts.{}.", at, expert);
    out.nvfp4(below + "gate_proj", 16, 32, modelopt, factor, input);
    out.nvfp4(below + "up_proj", 16, 32, modelopt, factor, input);
    out.nvfp4(below + "down_proj", 32, 16, modelopt, factor, input);
  }
  return out;
}

// Opens what `tiny` writes; the test fails when that is refused.
inline Checkpoint open_written(const TinyCheckpoint& tiny, const std::filesystem::path& folder) {
  tiny.write(folder);
  Result<Checkpoint> opened = Checkpoint::open(folder);
  EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
  NIBBLE_CHECK(opened.ok());
  return std::move(*opened);
}

inline const Fault* find_fault(const FaultLog& log, std::string_view id) {
  for (const Fault& fault : log.faults()) {
    if (fault.id == id) return &fault;
  }
  return nullptr;
}

// "missing-tensor wrong-shape": the ids in the order of the log.
inline std::string fault_ids(const FaultLog& log) {
  std::string ids;
  for (const Fault& fault : log.faults()) ids += (ids.empty() ? "" : " ") + fault.id;
  return ids;
}

}  // namespace nibble
