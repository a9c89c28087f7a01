#include "model/config.h"

#include <algorithm>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <string>

#include "model/test_configs.h"

namespace nibble {
namespace {

// ---- key variants ------------------------------------------------------------------------------

TEST(Config, ExpertCountUnderEachName) {
  for (const char* key : {"n_routed_experts", "num_experts", "num_local_experts"}) {
    Json config = without(sparse(), "num_experts");
    config.set(key, 16);
    EXPECT_EQ(parse(config).moe->experts, 16) << key;
  }
}

TEST(Config, TopKUnderEachName) {
  for (const char* key : {"num_experts_per_tok", "experts_per_token", "moe_topk"}) {
    Json config = without(sparse(), "num_experts_per_tok");
    config.set(key, 3);
    EXPECT_EQ(parse(config).moe->top_k, 3) << key;
  }
  const Json config = without(sparse(), "num_experts_per_tok");
  EXPECT_EQ(parse(with(config, R"({"moe_topk": [3, 3, 3, 3]})")).moe->top_k, 3);
  EXPECT_NE(fault(with(config, R"({"moe_topk": [3, 3, 4, 3]})")).find("\"moe_topk\" differs"),
            std::string::npos);
}

TEST(Config, ExpertWidthUnderEachName) {
  EXPECT_EQ(parse(sparse()).moe->intermediate, 32);
  EXPECT_EQ(parse(without(sparse(), "moe_intermediate_size")).moe->intermediate, 128);
}

TEST(Config, SharedExpertsUnderEachName) {
  EXPECT_EQ(parse(sparse()).moe->shared_experts, 0);
  EXPECT_EQ(parse(sparse()).moe->shared_intermediate, 0);
  for (const char* fields : {R"({"n_shared_experts": 2})", R"({"num_shared_experts": 2})"}) {
    const ModelSpec model = parse(with(sparse(), fields));
    EXPECT_EQ(model.moe->shared_experts, 2) << fields;
    EXPECT_EQ(model.moe->shared_intermediate, 64) << fields;
  }
  const ModelSpec model = parse(with(sparse(), R"({"shared_expert_intermediate_size": 48})"));
  EXPECT_EQ(model.moe->shared_experts, 1);
  EXPECT_EQ(model.moe->shared_intermediate, 48);
  EXPECT_EQ(parse(with(sparse(), R"({"shared_intermediate_size": 0})")).moe->shared_experts, 0);
  EXPECT_EQ(parse(with(sparse(), R"({"n_shared_experts": null})")).moe->shared_experts, 0);
}

TEST(Config, ExpertLayersUnderEachName) {
  const auto layers = [](std::string_view fields) {
    return expert_layers(parse(with(sparse(), fields)));
  };
  EXPECT_EQ(layers("{}"), "1111");
  EXPECT_EQ(layers(R"({"first_k_dense_replace": 1})"), "0111");
  EXPECT_EQ(layers(R"({"first_k_dense_replace": 4})"), "0000");
  EXPECT_EQ(layers(R"({"mlp_only_layers": [1, 3]})"), "1010");
  EXPECT_EQ(layers(R"({"decoder_sparse_step": 2})"), "0101");
  EXPECT_EQ(layers(R"({"decoder_sparse_step": 2, "mlp_only_layers": [3]})"), "0100");
  EXPECT_EQ(layers(R"({"interleave_moe_layer_step": 2})"), "0101");
  EXPECT_EQ(layers(R"({"moe_layer_freq": 2})"), "1010");
  EXPECT_EQ(layers(R"({"moe_layer_freq": 2, "first_k_dense_replace": 1})"), "0010");
  EXPECT_EQ(layers(R"({"moe_layer_freq": [0, 1, 1, 0]})"), "0110");
  EXPECT_EQ(layers(R"({"moe_layers": [2]})"), "0010");
  EXPECT_EQ(layers(R"({"mlp_layer_types": ["dense", "sparse", "sparse", "dense"]})"), "0110");
}

TEST(Config, DenseLayersHaveTheirOwnWidth) {
  EXPECT_EQ(parse(dense()).layers[0].dense_intermediate, 128);
  EXPECT_EQ(parse(with(sparse(), R"({"first_k_dense_replace": 1})")).layers[0].dense_intermediate,
            128);
  const ModelSpec llama = parse(with(without(sparse(), "moe_intermediate_size"),
                                     R"({"model_type": "llama4_text", "intermediate_size_mlp": 256,
                                         "interleave_moe_layer_step": 2})"));
  EXPECT_EQ(llama.layers[0].dense_intermediate, 256);
  EXPECT_EQ(llama.moe->intermediate, 128);
}

TEST(Config, NestedLanguageModels) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    Json outer = json(R"({"architectures": ["SomeForConditionalGeneration"],
                          "model_type": "some_vl", "vision_config": {"hidden_size": 7},
                          "tie_word_embeddings": true})");
    outer.set(key, sparse());
    const ModelSpec model = parse(outer);
    EXPECT_EQ(model.hidden, 64) << key;
    EXPECT_EQ(model.architecture, "SomeForConditionalGeneration");
    EXPECT_TRUE(model.tied_embeddings);
    EXPECT_TRUE(warns(model, "vision part"));
    EXPECT_EQ(model.names.prefix, "model.language_model.");  // Qwen's way
    outer.set(key, without(sparse(), "vocab_size"));
    EXPECT_EQ(fault(outer), fmt::format("config.json: {}: \"vocab_size\" is missing", key));
  }
  Json kimi = Json::object();
  kimi.set("text_config", latent());
  EXPECT_EQ(parse(kimi).names.prefix, "language_model.model.");
}

TEST(Config, QuantizationOfNestedModels) {
  const char* fp8 = R"({"quantization_config": {"quant_method": "fp8"}})";
  Json inside = Json::object();
  inside.set("text_config", with(latent(), fp8));
  Json outside = json(fp8);
  outside.set("text_config", latent());
  for (const Json& config : {inside, outside}) {
    EXPECT_EQ(parse(config).quantization.format_of("model.layers.0.mlp.up_proj").weights,
              Format::kFp8);
  }
}

TEST(Config, HeadsAndTheirSize) {
  EXPECT_EQ(parse(dense()).attention.head_dim, 16);  // 64 / 4
  EXPECT_EQ(parse(dense()).attention.kind, AttentionKind::kGqa);
  EXPECT_EQ(parse(with(dense(), R"({"head_dim": 32})")).attention.head_dim, 32);
  const ModelSpec mha = parse(without(dense(), "num_key_value_heads"));
  EXPECT_EQ(mha.attention.kind, AttentionKind::kMha);
  EXPECT_EQ(mha.attention.kv_heads, 4);
}

TEST(Config, LatentAttention) {
  const ModelSpec model = parse(latent());
  EXPECT_EQ(model.attention.kind, AttentionKind::kMla);
  EXPECT_EQ(model.attention.q_lora_rank, 24);
  EXPECT_EQ(model.attention.kv_lora_rank, 16);
  EXPECT_EQ(model.attention.qk_nope_head_dim, 8);
  EXPECT_EQ(model.attention.qk_rope_head_dim, 4);
  EXPECT_EQ(model.attention.v_head_dim, 8);
  EXPECT_FALSE(model.attention.indexer.has_value());
  // DeepSeek-V2-Lite projects its queries directly.
  EXPECT_EQ(parse(with(latent(), R"({"q_lora_rank": null})")).attention.q_lora_rank, 0);
}

TEST(Config, BiasesAndNorms) {
  EXPECT_TRUE(parse(dense()).attention.qk_norm);  // qwen3 has it without a field
  const ModelSpec qwen2 = parse(with(dense(), R"({"model_type": "qwen2"})"));
  EXPECT_TRUE(qwen2.attention.qkv_bias);
  EXPECT_FALSE(qwen2.attention.output_bias);
  EXPECT_FALSE(qwen2.attention.qk_norm);
  const ModelSpec glm = parse(
      with(sparse(), R"({"model_type": "glm4_moe", "attention_bias": true, "use_qk_norm": true})"));
  EXPECT_TRUE(glm.attention.qkv_bias);
  EXPECT_FALSE(glm.attention.output_bias);
  EXPECT_TRUE(glm.attention.qk_norm);
  EXPECT_EQ(glm.moe->router.kind, RouterKind::kSigmoid);
  EXPECT_TRUE(glm.moe->router.correction_bias);
  const ModelSpec llama =
      parse(with(dense(), R"({"model_type": "llama", "attention_bias": true})"));
  EXPECT_TRUE(llama.attention.output_bias);
}

TEST(Config, Router) {
  const ModelSpec plain = parse(sparse());
  EXPECT_EQ(plain.moe->router.kind, RouterKind::kSoftmax);
  EXPECT_FALSE(plain.moe->router.correction_bias);
  const ModelSpec grouped = parse(with(
      sparse(), R"({"scoring_func": "sigmoid", "topk_method": "noaux_tc", "norm_topk_prob": true,
                    "n_group": 4, "topk_group": 2})"));
  EXPECT_EQ(grouped.moe->router.kind, RouterKind::kSigmoid);
  EXPECT_TRUE(grouped.moe->router.correction_bias);
  EXPECT_TRUE(grouped.moe->router.renormalise);
  EXPECT_EQ(grouped.moe->router.groups, 4);
  EXPECT_EQ(grouped.moe->router.top_groups, 2);
}

TEST(Config, MtpLayersUnderEachName) {
  EXPECT_EQ(parse(dense()).mtp_layers, 0);
  EXPECT_EQ(parse(with(latent(), R"({"num_nextn_predict_layers": 1})")).mtp_layers, 1);
  const ModelSpec qwen = parse(with(dense(), R"({"mtp_num_hidden_layers": 2})"));
  EXPECT_EQ(qwen.mtp_layers, 2);
  EXPECT_EQ(mtp_weights(qwen).front().module, "mtp.layers.0.enorm");
}

// ---- what a layer attends to -------------------------------------------------------------------

constexpr AttentionSpan kFull{};
constexpr AttentionSpan kWindow{SpanKind::kWindow, 8};
constexpr AttentionSpan kChunk{SpanKind::kChunked, 16};

std::vector<AttentionSpan> spans(std::string_view fields) {
  std::vector<AttentionSpan> out;
  for (const LayerSpec& layer : parse(with(dense(), fields)).layers) out.push_back(layer.span);
  return out;
}
using Spans = std::vector<AttentionSpan>;

TEST(Config, Windows) {
  EXPECT_EQ(spans("{}"), Spans(4, kFull));
  EXPECT_EQ(spans(R"({"sliding_window": 8})"), Spans(4, kWindow));
  EXPECT_EQ(spans(R"({"sliding_window": null})"), Spans(4, kFull));
  EXPECT_EQ(spans(R"({"sliding_window": 8, "use_sliding_window": false})"), Spans(4, kFull));
  EXPECT_EQ(spans(R"({"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 3})"),
            (Spans{kFull, kFull, kFull, kWindow}));
  EXPECT_EQ(spans(R"({"sliding_window": 8, "layer_types":
              ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]})"),
            (Spans{kWindow, kFull, kWindow, kFull}));
  const ModelSpec oss = parse(with(sparse(), R"({"model_type": "gpt_oss", "sliding_window": 8})"));
  EXPECT_EQ(oss.layers[0].span, kWindow);
  EXPECT_EQ(oss.layers[1].span, kFull);
}

TEST(Config, Chunks) {
  EXPECT_EQ(spans(R"({"attention_chunk_size": 16})"), (Spans{kChunk, kChunk, kChunk, kFull}));
  EXPECT_EQ(spans(R"({"attention_chunk_size": 16, "no_rope_layers": []})"),
            (Spans{kChunk, kChunk, kChunk, kFull}));
  EXPECT_EQ(spans(R"({"attention_chunk_size": 16, "no_rope_layers": [1, 0, 1, 0]})"),
            (Spans{kChunk, kFull, kChunk, kFull}));
  EXPECT_EQ(spans(R"({"attention_chunk_size": 16, "no_rope_layer_interval": 2})"),
            (Spans{kChunk, kFull, kChunk, kFull}));
  EXPECT_EQ(spans(R"({"attention_chunk_size": 16, "layer_types":
              ["chunked_attention", "full_attention", "full_attention", "chunked_attention"]})"),
            (Spans{kChunk, kFull, kFull, kChunk}));
}

TEST(Config, Indexers) {
  const auto indexers = [](std::string_view fields) {
    const Json config = with(latent(), R"({"index_topk": 2048, "index_n_heads": 2,
                                           "index_head_dim": 4})");
    std::string layers;
    for (const LayerSpec& layer : parse(with(config, fields)).layers) {
      EXPECT_TRUE(layer.sparse);
      layers += layer.indexer ? 'F' : 'S';
    }
    return layers;
  };
  EXPECT_EQ(indexers("{}"), "FFFFFFFF");
  // By transformers' rule a layer i is full when max(i - offset + 1, 0) is a multiple of the step.
  EXPECT_EQ(indexers(R"({"index_topk_freq": 4, "index_skip_topk_offset": 3})"), "FFFSSSFS");
  EXPECT_EQ(indexers(R"({"index_topk_freq": 2})"), "FFSFSFSF");  // the offset is 2 then
  EXPECT_EQ(indexers(R"({"index_topk_pattern": "FSSSFSSS"})"), "FSSSFSSS");
  EXPECT_EQ(indexers(R"({"indexer_types": ["full", "shared", "shared", "full", "full", "shared",
                                           "shared", "shared", "full"]})"),
            "FSSFFSSS");
  const ModelSpec assumed = parse(with(latent(), R"({"model_type": "deepseek_v32"})"));
  ASSERT_TRUE(assumed.attention.indexer.has_value());
  EXPECT_EQ(assumed.attention.indexer->heads, 64);
  EXPECT_TRUE(warns(assumed, "\"index_topk\" is missing"));
}

// ---- faults ------------------------------------------------------------------------------------

TEST(Config, MissingFields) {
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"}) {
    EXPECT_EQ(fault(without(dense(), key)), fmt::format("config.json: \"{}\" is missing", key));
  }
  for (const char* key : {"qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
    EXPECT_EQ(fault(without(latent(), key)), fmt::format("config.json: \"{}\" is missing", key));
  }
}

TEST(Config, FaultsSayWhichFieldAndWhy) {
  struct Case {
    const char* fields;
    const char* expected;
  };
  const Case cases[] = {
      {R"({"num_experts_per_tok": null})",
       "\"num_experts_per_tok\" is missing, but the model has 8"},
      {R"({"num_experts_per_tok": 0})", "\"num_experts_per_tok\" is missing"},
      {R"({"num_experts_per_tok": 9})", "\"num_experts_per_tok\" is 9, more than the 8 experts"},
      {R"({"n_routed_experts": 16})", "\"num_experts\" is 8, but \"n_routed_experts\" is 16"},
      {R"({"experts_per_token": 4})",
       "\"experts_per_token\" is 4, but \"num_experts_per_tok\" is 2"},
      {R"({"num_key_value_heads": 3})", "\"num_key_value_heads\" is 3, which does not divide"},
      {R"({"first_k_dense_replace": 5})", "\"first_k_dense_replace\" is 5; it must be at most 4"},
      {R"({"head_dim": 15})", "\"head_dim\" is 15; rotary embeddings need an even number"},
      {R"({"head_dim": 0})", "\"head_dim\" is 0; it must be at least 1"},
      {R"({"head_dim": -8})", "\"head_dim\" is -8; it must be at least 1"},
      {R"({"hidden_size": 66})", "\"head_dim\" is missing, and hidden_size, 66, is not a multiple"},
      {R"({"hidden_size": "64"})", "\"hidden_size\" must be a number"},
      {R"({"hidden_size": 64.5})", "\"hidden_size\" is 64.5; it must be a whole number"},
      {R"({"num_experts": 8.5})", "\"num_experts\" is 8.5; it must be a whole number"},
      {R"({"num_hidden_layers": 0})", "\"num_hidden_layers\" is 0"},
      {R"({"num_hidden_layers": 1001})", "\"num_hidden_layers\" is 1001; it must be at most 1000"},
      {R"({"hidden_size": 2000000})", "\"hidden_size\" is 2000000; it must be at most 1000000"},
      {R"({"num_experts": 70000})", "\"num_experts\" is 70000; it must be at most 65536"},
      {R"({"mlp_only_layers": [4]})", "\"mlp_only_layers\" names layer 4 of 4"},
      {R"({"mlp_only_layers": [0], "intermediate_size": null})", "layer 0 is dense"},
      {R"({"moe_intermediate_size": 0})", "\"moe_intermediate_size\" is missing"},
      {R"({"moe_layer_freq": 0})", "\"moe_layer_freq\" is 0"},
      {R"({"decoder_sparse_step": 0})", "\"decoder_sparse_step\" is 0"},
      {R"({"mlp_layer_types": ["dense"]})", "\"mlp_layer_types\" has 1 entries for 4 layers"},
      {R"({"mlp_layer_types": ["dense", "x", "dense", "sparse"]})",
       "\"mlp_layer_types\" must hold"},
      {R"({"layer_types": ["full_attention", "linear_attention", "full_attention", "full_attention"]})",
       "\"linear_attention\", which nibble cannot count"},
      {R"({"layer_types": ["sliding_attention", "full_attention", "full_attention", "full_attention"]})",
       "\"sliding_window\" is missing"},
      {R"({"layer_types": ["chunked_attention", "full_attention", "full_attention", "full_attention"]})",
       "\"attention_chunk_size\" is missing"},
      {R"({"topk_group": 2})", "\"topk_group\" is 2, more than n_group, 1"},
      {R"({"quantization_config": []})", "quantization_config"},
  };
  for (const Case& c : cases) {
    const std::string message = fault(with(sparse(), c.fields));
    EXPECT_NE(message.find(c.expected), std::string::npos) << c.fields << "\n" << message;
  }
  EXPECT_NE(fault(with(latent(), R"({"index_topk": 4, "index_topk_pattern": "FS"})"))
                .find("\"index_topk_pattern\" has 2 letters for 8 layers"),
            std::string::npos);
  EXPECT_NE(fault(json("[]")).find("expected an object"), std::string::npos);
}

TEST(Config, PatternsMayLookAhead) {
  // Everything but the MLPs is left alone, written as compressed-tensors configurations do.
  const Json config = with(dense(), R"({"quantization_config": {"quant_method": "modelopt",
      "quant_algo": "NVFP4", "ignore": ["re:^(?!.*mlp).*"]}})");
  const Result<ModelSpec> model = parse_model(config, nullptr, "m");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->quantization.format_of("model.layers.0.mlp.up_proj").weights, Format::kNvfp4);
  EXPECT_EQ(model->quantization.format_of("model.layers.0.self_attn.q_proj").weights,
            Format::kBf16);
}

TEST(Config, NegativeLayerNumbersAreRefused) {
  for (const char* key : {"mlp_only_layers", "moe_layers"}) {
    const std::string fields = std::string("{\"") + key + "\": [0, -1000000]}";
    EXPECT_NE(fault(with(sparse(), fields)).find(key), std::string::npos) << key;
  }
}

TEST(Config, UnknownModelsAreReadByTheirFields) {
  const ModelSpec model = parse(with(sparse(), R"({"model_type": "new_moe"})"));
  EXPECT_EQ(model.moe->experts, 8);
  EXPECT_TRUE(warns(model, "\"new_moe\" is not known"));
  EXPECT_TRUE(parse(sparse()).warnings.empty());
}

TEST(Config, ExpertsOfDifferentFormatsAreNoticed) {
  const auto excluding = [](const char* pattern) {
    return parse(with(sparse(), fmt::format(R"({{"quantization_config": {{"quant_method": "fp8",
                                                 "modules_to_not_convert": ["{}"]}}}})",
                                            pattern)));
  };
  EXPECT_TRUE(warns(excluding("model.layers.2.mlp.experts.7"), "experts.7.gate_proj is bf16"));
  EXPECT_TRUE(
      warns(excluding("model.layers.2.mlp.experts.0.up_proj"), "experts.0.up_proj is bf16"));
  EXPECT_TRUE(excluding("model.layers.2.mlp.experts").warnings.empty());
}

TEST(Config, BaseFormatIsTheDtype) {
  EXPECT_EQ(parse(dense()).quantization.base().weights, Format::kBf16);
  EXPECT_EQ(parse(with(dense(), R"({"torch_dtype": "float16"})")).quantization.base().weights,
            Format::kFp16);
  EXPECT_EQ(parse(with(dense(), R"({"dtype": "float32"})")).quantization.base().weights,
            Format::kFp32);
}

}  // namespace
}  // namespace nibble
