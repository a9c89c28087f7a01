#include "model/quantization.h"

#include <gtest/gtest.h>
#include <optional>
#include <string>

namespace nibble {
namespace {

struct Parsed {
  Result<Quantization> quantization;
  std::vector<std::string> warnings;
};

Json json(std::string_view text) {
  Result<Json> parsed = Json::parse(text, "test");
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
  return parsed.ok() ? std::move(*parsed) : Json();
}

constexpr std::int64_t kLayers = 61;

// "" stands for an absent file.
Parsed parse(std::string_view config, std::string_view hf = "", Format base = Format::kBf16) {
  std::optional<Json> first, second;
  if (!config.empty()) first = json(config);
  if (!hf.empty()) second = json(hf);
  std::vector<std::string> warnings;
  Result<Quantization> quantization = Quantization::parse(
      first ? &*first : nullptr, second ? &*second : nullptr, base,
      "config.json: quantization_config", "hf_quant_config.json", kLayers, warnings);
  return {std::move(quantization), std::move(warnings)};
}

Quantization good(std::string_view config, std::string_view hf = "") {
  Parsed parsed = parse(config, hf);
  EXPECT_TRUE(parsed.quantization.ok())
      << (parsed.quantization.ok() ? "" : parsed.quantization.error().message);
  for (const std::string& warning : parsed.warnings) ADD_FAILURE() << warning;
  return parsed.quantization.ok() ? std::move(*parsed.quantization) : Quantization();
}

std::string fault(std::string_view config, std::string_view hf = "") {
  const Parsed parsed = parse(config, hf);
  EXPECT_FALSE(parsed.quantization.ok()) << config << hf;
  return parsed.quantization.ok() ? "" : parsed.quantization.error().message;
}

constexpr ModuleFormat kBf16{};
constexpr ModuleFormat kNvfp4{Format::kNvfp4, Format::kNvfp4};
constexpr ModuleFormat kNvfp4W4A16{Format::kNvfp4, Format::kBf16};
constexpr ModuleFormat kFp8{Format::kFp8, Format::kFp8};

constexpr const char* kExpert = "model.layers.3.mlp.experts.0.gate_proj";
constexpr const char* kShared = "model.layers.3.mlp.shared_experts.gate_proj";
constexpr const char* kQuery = "model.layers.3.self_attn.q_proj";
constexpr const char* kRouter = "model.layers.3.mlp.gate";

TEST(Quantization, NoneIsTheBaseFormat) {
  EXPECT_EQ(good("").format_of(kExpert), kBf16);
  EXPECT_EQ(good("").method(), "");
  EXPECT_EQ(good("").summary(), "bf16, not quantized");
  EXPECT_EQ(parse("", "", Format::kFp16).quantization->format_of(kQuery),
            (ModuleFormat{Format::kFp16, Format::kFp16}));
}

// ---- ModelOpt ----------------------------------------------------------------------------------

TEST(Quantization, ModeloptHfQuantConfig) {
  const Quantization q = good("", R"({"producer": {"name": "modelopt", "version": "0.33.0"},
      "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
        "exclude_modules": ["lm_head", "model.layers.3.self_attn*", "model.layers.4*"]}})");
  EXPECT_EQ(q.method(), "modelopt");
  EXPECT_EQ(q.format_of(kExpert), kNvfp4);
  EXPECT_EQ(q.format_of(kShared), kNvfp4);
  EXPECT_EQ(q.format_of(kQuery), kBf16);
  EXPECT_EQ(q.format_of("model.layers.30.self_attn.q_proj"), kNvfp4);
  EXPECT_EQ(q.format_of("model.layers.4.mlp.up_proj"), kBf16);
  EXPECT_EQ(q.format_of("model.layers.41.mlp.up_proj"), kBf16);  // as fnmatch has it
  EXPECT_EQ(q.format_of("lm_head"), kBf16);
  EXPECT_EQ(q.format_of(kRouter), kBf16);  // no tool quantizes routers or the embedding
  EXPECT_EQ(q.format_of("model.embed_tokens"), kBf16);
  EXPECT_EQ(q.kv_format(), Format::kFp8);
  EXPECT_EQ(good("", R"({"quantization": {"quant_algo": "NVFP4"}})").format_of("lm_head"), kNvfp4);
}

TEST(Quantization, ModeloptInConfigJson) {
  const Quantization q = good(R"({"quant_method": "modelopt", "quant_algo": "NVFP4",
      "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": false},
      "config_groups": {"group_0": {
        "weights": {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": false},
        "input_activations": {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": false}}},
      "ignore": ["lm_head", "model.layers.0*", "*self_attn*"]})");
  EXPECT_EQ(q.format_of(kExpert), kNvfp4);
  EXPECT_EQ(q.format_of(kQuery), kBf16);
  EXPECT_EQ(q.format_of("model.layers.0.mlp.gate_proj"), kBf16);
  EXPECT_EQ(q.kv_format(), Format::kFp8);
  // The old form, pasted into config.json.
  EXPECT_EQ(good(R"({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}})")
                .format_of(kQuery),
            kFp8);
}

TEST(Quantization, ModeloptAlgorithms) {
  const auto format = [](const char* name) {
    return good("", fmt::format(R"({{"quantization": {{"quant_algo": "{}"}}}})", name))
        .format_of(kExpert);
  };
  EXPECT_EQ(format("NVFP4"), kNvfp4);
  EXPECT_EQ(format("NVFP4_AWQ"), kNvfp4);
  EXPECT_EQ(format("W4A16_NVFP4"), kNvfp4W4A16);
  EXPECT_EQ(format("W4A8_NVFP4_FP8"), (ModuleFormat{Format::kNvfp4, Format::kFp8}));
  EXPECT_EQ(format("FP8"), kFp8);
  EXPECT_EQ(format("FP8_PER_CHANNEL_PER_TOKEN"), kFp8);
  EXPECT_EQ(format("FP8_PB_WO"), (ModuleFormat{Format::kFp8Block128, Format::kBf16}));
  EXPECT_EQ(format("MXFP8"), (ModuleFormat{Format::kMxfp8, Format::kMxfp8}));
  EXPECT_EQ(format("W4A16_AWQ"), (ModuleFormat{Format::kInt4Group128, Format::kBf16}));
}

TEST(Quantization, ActivationsOfWeightOnlyFormatsAreTheModels) {
  const Parsed parsed =
      parse("", R"({"quantization": {"quant_algo": "W4A16_NVFP4"}})", Format::kFp16);
  EXPECT_EQ(parsed.quantization->format_of(kExpert), (ModuleFormat{Format::kNvfp4, Format::kFp16}));
}

TEST(Quantization, ModeloptWeightOnlyByItsGroups) {
  EXPECT_EQ(
      good(R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "config_groups": {"group_0": {
                "weights": {"num_bits": 4, "type": "float", "group_size": 16},
                "input_activations": null}}})")
          .format_of(kExpert),
      kNvfp4W4A16);
}

TEST(Quantization, ModeloptMixedPrecisionListsEachLayer) {
  const Quantization q = good("", R"({"quantization": {"quant_algo": "MIXED_PRECISION",
      "kv_cache_quant_algo": null, "exclude_modules": ["mtp*"], "quantized_layers": {
        "lm_head": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
        "model.layers.3.self_attn.q_proj": {"quant_algo": "FP8"},
        "model.layers.3.mlp.experts.0.gate_proj": {"quant_algo": "NVFP4", "group_size": 16},
        "mtp.layers.0.mlp.up_proj": {"quant_algo": "FP8"}}}})");
  EXPECT_EQ(q.format_of("lm_head"), kNvfp4W4A16);
  EXPECT_EQ(q.format_of(kQuery), kFp8);
  EXPECT_EQ(q.format_of(kExpert), kNvfp4);
  EXPECT_EQ(q.format_of("model.layers.3.mlp.experts.1.gate_proj"), kBf16);  // not listed
  EXPECT_EQ(q.format_of("mtp.layers.0.mlp.up_proj"), kBf16);                // excluded
  EXPECT_FALSE(q.kv_format().has_value());
}

TEST(Quantization, ModeloptMixedPrecisionByGroups) {
  const Quantization q = good(R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
      "config_groups": {
        "group_0": {"weights": {"num_bits": 8, "type": "float"},
                    "input_activations": {"num_bits": 8, "type": "float"},
                    "targets": ["model.layers.3.self_attn.q_proj"]},
        "group_1": {"weights": {"num_bits": 4, "type": "float", "group_size": 16},
                    "input_activations": {"num_bits": 4, "type": "float", "group_size": 16},
                    "targets": ["re:.*\\.experts\\..*"]}}})");
  EXPECT_EQ(q.format_of(kQuery), kFp8);
  EXPECT_EQ(q.format_of(kExpert), kNvfp4);
  EXPECT_EQ(q.format_of(kShared), kBf16);
}

// ---- compressed-tensors ------------------------------------------------------------------------

TEST(Quantization, CompressedTensorsNvfp4) {
  const Quantization q = good(R"({"quant_method": "compressed-tensors",
      "format": "nvfp4-pack-quantized", "ignore": ["lm_head", "model.layers.5.mlp.shared_expert",
        "re:.*self_attn.*", "re:.*mlp.gate$", "re:visual.*"],
      "config_groups": {"group_0": {"targets": ["Linear"],
        "weights": {"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group"},
        "input_activations": {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": "local"}}}})");
  EXPECT_EQ(q.method(), "compressed-tensors");
  EXPECT_EQ(q.format_of(kExpert), kNvfp4);
  EXPECT_EQ(q.format_of("model.layers.3.mlp.gate_proj"), kNvfp4);
  EXPECT_EQ(q.format_of(kQuery), kBf16);
  EXPECT_EQ(q.format_of("lm_head"), kBf16);
  EXPECT_EQ(q.format_of("model.layers.5.mlp.shared_expert.up_proj"), kBf16);
  EXPECT_EQ(q.format_of("model.layers.6.mlp.shared_expert.up_proj"), kNvfp4);
  EXPECT_EQ(q.format_of("visual.blocks.0.mlp.up_proj"), kBf16);
}

TEST(Quantization, CompressedTensorsOtherFormats) {
  const auto format = [](const char* weights, const char* input) {
    return good(fmt::format(R"({{"quant_method": "compressed-tensors", "config_groups": {{"g": {{
        "targets": ["Linear"], "weights": {}, "input_activations": {}}}}}}})",
                            weights, input))
        .format_of(kExpert);
  };
  // mxfp4-pack-quantized
  EXPECT_EQ(format(R"({"num_bits": 4, "type": "float", "group_size": 32})", "null"),
            (ModuleFormat{Format::kMxfp4, Format::kBf16}));
  EXPECT_EQ(format(R"({"num_bits": 4, "type": "float", "group_size": 16})", "null"), kNvfp4W4A16);
  EXPECT_EQ(format(R"({"num_bits": 8, "type": "float", "strategy": "channel"})",
                   R"({"num_bits": 8, "type": "float", "strategy": "token"})"),
            kFp8);
  EXPECT_EQ(format(R"({"num_bits": 8, "type": "float", "strategy": "block",
                       "block_structure": [128, 128]})",
                   R"({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128})"),
            (ModuleFormat{Format::kFp8Block128, Format::kFp8}));
  EXPECT_EQ(format(R"({"num_bits": 4, "type": "int", "group_size": 128})", "null"),
            (ModuleFormat{Format::kInt4Group128, Format::kBf16}));
  EXPECT_EQ(format(R"({"num_bits": 8, "type": "int"})", R"({"num_bits": 8, "type": "int"})"),
            (ModuleFormat{Format::kInt8, Format::kInt8}));
}

TEST(Quantization, NamedTargetsWinOverClasses) {
  const Quantization q = good(R"({"quant_method": "compressed-tensors", "config_groups": {
      "a": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"},
            "input_activations": {"num_bits": 8, "type": "float"}},
      "b": {"targets": ["re:.*experts.*gate_proj"],
            "weights": {"num_bits": 4, "type": "float", "group_size": 16},
            "input_activations": {"num_bits": 4, "type": "float", "group_size": 16}}}})");
  EXPECT_EQ(q.format_of(kExpert), kNvfp4);
  EXPECT_EQ(q.format_of(kQuery), kFp8);
}

TEST(Quantization, UnknownTargetsAreNoticed) {
  const Parsed parsed = parse(R"({"quant_method": "compressed-tensors", "config_groups": {"a": {
      "targets": ["Conv2d"], "weights": {"num_bits": 8, "type": "float"}}}})");
  ASSERT_TRUE(parsed.quantization.ok());
  ASSERT_EQ(parsed.warnings.size(), 1u);
  EXPECT_NE(parsed.warnings[0].find("Conv2d"), std::string::npos);
  EXPECT_EQ(parsed.quantization->format_of(kExpert), kBf16);
}

// ---- transformers ------------------------------------------------------------------------------

TEST(Quantization, Fp8Blocks) {
  const Quantization q = good(R"({"quant_method": "fp8", "activation_scheme": "dynamic",
      "weight_block_size": [128, 128], "modules_to_not_convert": ["model.layers.3.self_attn.q_proj",
        "model.layers.4.mlp"]})");
  const ModuleFormat block{Format::kFp8Block128, Format::kFp8};
  EXPECT_EQ(q.format_of(kExpert), block);
  EXPECT_EQ(q.format_of(kQuery), kBf16);
  EXPECT_EQ(q.format_of("model.layers.4.mlp.up_proj"), kBf16);
  EXPECT_EQ(q.format_of("model.layers.40.mlp.up_proj"), block);
  for (const char* kept : {kRouter, "lm_head", "model.embed_tokens", "model.layers.61.eh_proj",
                           "model.layers.3.self_attn.indexer.weights_proj"}) {
    EXPECT_EQ(q.format_of(kept), kBf16) << kept;
  }
  EXPECT_EQ(good(R"({"quant_method": "fp8"})").format_of(kExpert), kFp8);
}

TEST(Quantization, Fp8WithFourBitExperts) {  // DeepSeek-V4
  const Quantization q = good(R"({"quant_method": "fp8", "moe_quant_algo": "NVFP4",
      "weight_block_size": [128, 128], "ignore": ["mtp.*"]})");
  EXPECT_EQ(q.format_of(kExpert), kNvfp4);
  EXPECT_EQ(q.format_of(kShared), (ModuleFormat{Format::kFp8Block128, Format::kFp8}));
  EXPECT_EQ(q.format_of("mtp.0.ffn.experts.0.w1"), kBf16);
}

TEST(Quantization, Mxfp4ConvertsExpertsAlone) {
  const Quantization q = good(R"({"quant_method": "mxfp4", "modules_to_not_convert":
      ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]})");
  EXPECT_EQ(q.format_of("model.layers.0.mlp.experts"),
            (ModuleFormat{Format::kMxfp4, Format::kBf16}));
  for (const char* kept : {"model.layers.0.self_attn.q_proj", "model.layers.0.mlp.router",
                           "lm_head", "model.embed_tokens"}) {
    EXPECT_EQ(q.format_of(kept), kBf16) << kept;
  }
}

TEST(Quantization, IntegerFormats) {
  const ModuleFormat int4{Format::kInt4Group128, Format::kBf16};
  EXPECT_EQ(good(R"({"quant_method": "awq", "bits": 4, "group_size": 128,
                     "modules_to_not_convert": ["gate"]})")
                .format_of(kExpert),
            int4);
  EXPECT_EQ(good(R"({"quant_method": "gptq", "bits": 8, "group_size": 128})").format_of(kExpert),
            (ModuleFormat{Format::kInt8, Format::kBf16}));
  const Parsed parsed = parse(R"({"quant_method": "gptq", "bits": 4, "group_size": 32})");
  ASSERT_EQ(parsed.warnings.size(), 1u);
  EXPECT_EQ(parsed.quantization->format_of("lm_head"), kBf16);
}

// ---- both files --------------------------------------------------------------------------------

constexpr const char* kHf =
    R"({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8",
                                "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]}})";

TEST(Quantization, BothFilesThatAgree) {
  // Another way to write the same list; the KV cache's format is the other file's.
  const Quantization q = good(R"({"quant_method": "modelopt", "quant_algo": "NVFP4",
                                  "ignore": ["lm_head", "*self_attn*"]})",
                              kHf);
  EXPECT_EQ(q.kv_format(), Format::kFp8);
}

TEST(Quantization, StaleConfigIsFollowedWithAWarning) {
  const Parsed parsed = parse(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})", kHf);
  ASSERT_TRUE(parsed.quantization.ok());
  ASSERT_EQ(parsed.warnings.size(), 1u);
  for (const char* text : {"config.json", "hf_quant_config.json", "fp8-block128", "bf16"}) {
    EXPECT_NE(parsed.warnings[0].find(text), std::string::npos) << parsed.warnings[0];
  }
  EXPECT_EQ(parsed.quantization->format_of(kExpert),
            (ModuleFormat{Format::kFp8Block128, Format::kFp8}));
}

TEST(Quantization, DifferentListsAndCachesAreNoticed) {
  const Parsed lists = parse(R"({"quant_method": "modelopt", "quant_algo": "NVFP4",
                                 "ignore": ["lm_head"]})",
                             kHf);
  ASSERT_EQ(lists.warnings.size(), 1u);
  EXPECT_NE(lists.warnings[0].find("self_attn"), std::string::npos) << lists.warnings[0];
  const Parsed caches = parse(R"({"quant_method": "modelopt", "quant_algo": "NVFP4",
      "kv_cache_quant_algo": "NVFP4", "ignore": ["lm_head", "*self_attn*"]})",
                              kHf);
  ASSERT_EQ(caches.warnings.size(), 1u);
  EXPECT_NE(caches.warnings[0].find("KV cache is nvfp4"), std::string::npos) << caches.warnings[0];
}

TEST(Quantization, AStatedSizeOfBlocksIsKeptAndQuestioned) {
  const auto group_of = [](const std::string& fields, std::size_t warnings) {
    const Parsed parsed = parse(R"({"quant_method": "modelopt", )" + fields + "}");
    EXPECT_EQ(parsed.warnings.size(), warnings) << fields;
    EXPECT_EQ(parsed.quantization->format_of(kExpert).weights, Format::kNvfp4) << fields;
    return parsed.quantization->group_size_of(kExpert);
  };
  EXPECT_EQ(group_of(R"("quant_algo": "NVFP4")", 0), std::nullopt);
  EXPECT_EQ(group_of(R"("quant_algo": "NVFP4", "group_size": 16)", 0), 16);
  for (const int size : {32, 0, -1, 8}) {
    const std::string field = fmt::format("\"group_size\": {}", size);
    EXPECT_EQ(group_of(R"("quant_algo": "NVFP4", )" + field, 1), size);
    EXPECT_EQ(
        group_of(R"("quant_algo": "NVFP4", "config_groups": {"a": {"weights": {)" + field + "}}}",
                 1),
        size);
    EXPECT_EQ(group_of(R"("quant_algo": "MIXED_PRECISION", "quantized_layers": {")" +
                           std::string(kExpert) + R"(": {"quant_algo": "NVFP4", )" + field + "}}",
                       1),
              size);
  }
}

// ---- faults ------------------------------------------------------------------------------------

TEST(Quantization, Faults) {
  struct Case {
    const char* config;
    const char* expected;
  };
  const Case cases[] = {
      {R"({"quant_method": "exl3"})", "quant_method \"exl3\" is not one that nibble reads"},
      {R"({"quant_method": 4})", "\"quant_method\" must be a string"},
      {R"("fp8")", "expected an object"},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP5"})", "did you mean NVFP4"},
      {R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"})",
       "needs \"quantized_layers\""},
      {R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
           "quantized_layers": {"lm_head": {}}})",
       "lm_head: \"quant_algo\" is missing"},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": [1]})",
       "\"ignore\" must hold strings"},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": "lm_head"})",
       "\"ignore\" must be a list"},
      {R"({"quant_method": "compressed-tensors"})", "\"config_groups\" is missing"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"targets": ["Linear"]}}})",
       "config_groups: a: \"weights\" is missing"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {}}}})",
       "\"num_bits\" is missing"},
      {R"({"quant_method": "compressed-tensors",
           "config_groups": {"a": {"weights": {"num_bits": 3, "type": "int"}}}})",
       "3-bit int"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {}, "ignore": ["re:.*(mlp"]})",
       "\".*(mlp\" is wrong at character 6"},
      {R"({"quant_method": "fp8", "weight_block_size": [64, 64]})", "[128, 128]"},
      {R"({"quant_method": "awq", "bits": 3})", "\"bits\" is 3"},
  };
  for (const Case& c : cases) {
    const std::string message = fault(c.config);
    EXPECT_NE(message.find(c.expected), std::string::npos) << c.config << "\n" << message;
    EXPECT_TRUE(message.starts_with("config.json: quantization_config")) << message;
  }
}

TEST(Quantization, OddCacheNamesAreNoticed) {
  const Parsed parsed =
      parse("", R"({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP3"}})");
  ASSERT_EQ(parsed.warnings.size(), 1u);
  EXPECT_NE(parsed.warnings[0].find("FP3"), std::string::npos);
}

TEST(Quantization, NothingQuantizedIsNoticed) {
  EXPECT_EQ(parse("", R"({"quantization": {"quant_algo": null}})").warnings.size(), 1u);
  EXPECT_TRUE(parse("", R"({"quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8"}})")
                  .warnings.empty());
}

TEST(Quantization, SummaryFoldsLayers) {
  const Quantization q = good("", R"({"quantization": {"quant_algo": "NVFP4",
      "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head", "model.layers.0.mlp.gate",
        "model.layers.2.mlp.gate", "model.layers.1.mlp.gate", "model.layers.7.mlp.gate",
        "model.layers.5.self_attn*"]}})");
  EXPECT_EQ(q.summary(),
            "nvfp4 x nvfp4 on linear layers (modelopt), except lm_head, "
            "model.layers.{0-2,7}.mlp.gate, model.layers.5.self_attn*; KV cache fp8");
}

}  // namespace
}  // namespace nibble
