#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "base/file.h"
#include "base/testing.h"
#include "model/config.h"

namespace nibble {
namespace {

ModelSpec load(std::string_view name) {
  Result<ModelSpec> model = load_model(name);
  EXPECT_TRUE(model.ok()) << name << ": " << (model.ok() ? "" : model.error().message);
  return model.ok() ? std::move(*model) : ModelSpec{};
}

// Total and active parameters in billions, active without the embedding table: table 4.8 of the
// project's facts on MoE arithmetic, recomputed there from the published configurations. The table
// rounds to three or four digits, so active numbers may be 0.4 % off by that alone.
struct Published {
  const char* name;
  double total;
  double active;
};
constexpr Published kPublished[] = {
    {"glm-5", 743.9, 40.8},
    {"glm-5-nvfp4", 743.9, 40.8},
    {"glm-4.6", 352.8, 32.9},
    {"deepseek-v3", 671.0, 36.6},
    {"deepseek-r1", 671.0, 36.6},
    {"deepseek-r1-nvfp4", 671.0, 36.6},
    {"deepseek-v3.2", 671.9, 37.5},
    {"kimi-k2", 1026.4, 31.7},
    {"qwen3-235b-a22b", 235.1, 21.6},
    {"qwen3-235b-a22b-nvfp4", 235.1, 21.6},
    {"qwen3-30b-a3b", 30.5, 3.04},
    {"qwen3-30b-a3b-fp8", 30.5, 3.04},
    {"qwen3-30b-a3b-nvfp4", 30.5, 3.04},
    {"gpt-oss-120b", 116.8, 5.13},
    {"gpt-oss-20b", 20.9, 3.61},
    {"minimax-m2", 228.7, 10.4},
    {"llama-4-maverick", 400.7, 16.2},
    {"llama-4-scout", 107.8, 16.1},
    // The table gives GLM-5.2 the numbers of GLM-5, but 57 of its 78 layers have no indexer of
    // 32*128*2048 + 128*6144 + 32*6144 = 9,371,648: 743.91 - 0.534 and 40.83 - 0.534.
    {"glm-5.2-nvfp4", 743.38, 40.30},
};

TEST(Catalog, ParametersAgreeWithTheTable) {
  for (const Published& published : kPublished) {
    const ParameterCount count = count_parameters(load(published.name));
    EXPECT_NEAR(count.total / 1e9, published.total, 0.005 * published.total) << published.name;
    EXPECT_NEAR(count.active / 1e9, published.active, 0.005 * published.active) << published.name;
  }
}

TEST(Catalog, EveryModelIsInTheTableAndLoadsWithoutWarnings) {
  std::map<std::string, int> known;
  for (const Published& published : kPublished) ++known[published.name];
  const std::vector<CatalogModel> catalog = model_catalog();
  EXPECT_EQ(catalog.size(), known.size());
  for (const CatalogModel& entry : catalog) {
    EXPECT_EQ(known[entry.name], 1) << entry.name;
    EXPECT_TRUE(entry.source.starts_with("huggingface.co/")) << entry.name;
    const ModelSpec model = load(entry.name);
    EXPECT_EQ(model.name, entry.name);
    EXPECT_EQ(model.title, entry.title);
    EXPECT_EQ(model.source, entry.source);
    EXPECT_TRUE(model.warnings.empty()) << entry.name << ": " << model.warnings.front();
    EXPECT_GT(model.max_context, 0) << entry.name;
  }
  EXPECT_TRUE(std::is_sorted(catalog.begin(), catalog.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
}

double bytes_of(const std::vector<Weight>& weights) {
  double bytes = 0;
  for (const Weight& weight : weights) {
    bytes += static_cast<double>(weight.copies) * storage_bytes(weight.format,
                                                                static_cast<double>(weight.rows),
                                                                static_cast<double>(weight.columns))
                                                      .total();
  }
  return bytes;
}

// Independent oracle: metadata.total_size of the published safetensors indices.
TEST(Catalog, BytesAgreeWithPublishedCheckpoints) {
  // Qwen/Qwen3-30B-A3B: 61,064,245,248 = 2 bytes x 30,532,122,624 parameters, to the last one.
  const ModelSpec qwen = load("qwen3-30b-a3b");
  EXPECT_EQ(count_parameters(qwen).total, 30532122624.0);
  EXPECT_EQ(checkpoint_bytes(qwen), 61064245248.0);
  // openai/gpt-oss-120b and 20b.
  EXPECT_NEAR(checkpoint_bytes(load("gpt-oss-120b")), 65248815744.0, 1e-6 * 65248815744.0);
  EXPECT_NEAR(checkpoint_bytes(load("gpt-oss-20b")), 13761264768.0, 1e-6 * 13761264768.0);
  // nvidia/GLM-5.2-NVFP4: 464,823,042,096 with its MTP layer, which is bf16; per-tensor factors and
  // fp32 vectors, which we leave out, are 0.005 % of it.
  const ModelSpec glm = load("glm-5.2-nvfp4");
  const double with_mtp = checkpoint_bytes(glm) + bytes_of(mtp_weights(glm));
  EXPECT_NEAR(with_mtp, 464823042096.0, 1e-4 * 464823042096.0);
}

Format format_of(const ModelSpec& model, std::string_view module) {
  return model.quantization.format_of(module).weights;
}

TEST(Catalog, GlmNvfp4QuantizesRoutedExpertsAlone) {
  for (const char* name : {"glm-5-nvfp4", "glm-5.2-nvfp4"}) {
    const ModelSpec model = load(name);
    for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
      for (const Weight& weight : layer_weights(model, layer)) {
        const bool routed = weight.part == Part::kExpertGateUp || weight.part == Part::kExpertDown;
        const Format expected = routed ? Format::kNvfp4 : Format::kBf16;
        EXPECT_EQ(weight.format, expected) << name << " " << weight.module;
        EXPECT_EQ(weight.activations, expected) << name << " " << weight.module;
        EXPECT_FALSE(routed && layer < 3) << weight.module;
      }
    }
    for (const Weight& weight : outer_weights(model)) EXPECT_EQ(weight.format, Format::kBf16);
    for (const Weight& weight : mtp_weights(model)) EXPECT_EQ(weight.format, Format::kBf16);
    EXPECT_EQ(model.quantization.kv_format(), Format::kFp8);
  }
}

TEST(Catalog, GlmIndexersAndContext) {
  const auto indexers = [](const ModelSpec& model) {
    std::vector<std::size_t> layers;
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      if (model.layers[i].indexer) layers.push_back(i);
      EXPECT_TRUE(model.layers[i].sparse);
    }
    return layers;
  };
  const ModelSpec glm5 = load("glm-5");
  EXPECT_EQ(indexers(glm5).size(), 78u);
  EXPECT_EQ(glm5.max_context, 202752);
  ASSERT_TRUE(glm5.attention.indexer.has_value());
  EXPECT_EQ(glm5.attention.indexer->heads, 32);
  EXPECT_EQ(glm5.attention.indexer->head_dim, 128);
  EXPECT_EQ(glm5.attention.indexer->top_k, 2048);
  // Three full layers, then every fourth from 6 to 74: 3 + (74 - 6)/4 + 1 = 21.
  const ModelSpec glm52 = load("glm-5.2-nvfp4");
  const std::vector<std::size_t> own = indexers(glm52);
  ASSERT_EQ(own.size(), 21u);
  EXPECT_EQ(std::vector<std::size_t>(own.begin(), own.begin() + 5),
            (std::vector<std::size_t>{0, 1, 2, 6, 10}));
  EXPECT_EQ(own.back(), 74u);
  EXPECT_EQ(glm52.max_context, 1048576);
}

TEST(Catalog, DeepSeekFp8LeavesRouterHeadAndEmbedding) {
  const ModelSpec model = load("deepseek-r1");
  std::map<Part, ModuleFormat> formats;
  for (const std::size_t layer : {std::size_t{0}, std::size_t{3}}) {
    for (const Weight& weight : layer_weights(model, layer)) {
      formats[weight.part] = {weight.format, weight.activations};
    }
  }
  for (const Weight& weight : outer_weights(model)) {
    formats[weight.part] = {weight.format, weight.activations};
  }
  const ModuleFormat fp8{Format::kFp8Block128, Format::kFp8};
  const ModuleFormat bf16{};
  for (const Part part : {Part::kQA, Part::kQB, Part::kKvA, Part::kKvB, Part::kOut,
                          Part::kDenseGateUp, Part::kDenseDown, Part::kSharedGateUp,
                          Part::kSharedDown, Part::kExpertGateUp, Part::kExpertDown}) {
    EXPECT_EQ(formats.at(part), fp8) << to_string(part);
  }
  for (const Part part : {Part::kRouter, Part::kLmHead, Part::kEmbedding, Part::kSmall}) {
    EXPECT_EQ(formats.at(part), bf16) << to_string(part);
  }
  EXPECT_FALSE(model.quantization.kv_format().has_value());
  EXPECT_EQ(model.moe->router.groups, 8);
  EXPECT_EQ(model.moe->router.top_groups, 4);
}

TEST(Catalog, GptOssHasFourBitExpertsAndBf16Activations) {
  const ModelSpec model = load("gpt-oss-120b");
  for (const Weight& weight : layer_weights(model, 1)) {
    const bool routed = weight.part == Part::kExpertGateUp || weight.part == Part::kExpertDown;
    EXPECT_EQ(weight.format, routed ? Format::kMxfp4 : Format::kBf16) << weight.module;
    EXPECT_EQ(weight.activations, Format::kBf16) << weight.module;
  }
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const AttentionSpan expected =
        i % 2 == 0 ? AttentionSpan{SpanKind::kWindow, 128} : AttentionSpan{};
    EXPECT_EQ(model.layers[i].span, expected) << i;
  }
  EXPECT_TRUE(model.attention.sinks);
  EXPECT_TRUE(model.moe->expert_bias);
  EXPECT_TRUE(model.moe->router.linear_bias);
}

TEST(Catalog, QwenNvfp4QuantizesAttentionToo) {
  const ModelSpec model = load("qwen3-30b-a3b-nvfp4");
  EXPECT_EQ(format_of(model, "model.layers.0.self_attn.q_proj"), Format::kNvfp4);
  EXPECT_EQ(format_of(model, "model.layers.47.self_attn.o_proj"), Format::kNvfp4);
  EXPECT_EQ(format_of(model, "model.layers.7.mlp.experts.127.down_proj"), Format::kNvfp4);
  EXPECT_EQ(format_of(model, "model.layers.7.mlp.gate"), Format::kBf16);
  EXPECT_EQ(format_of(model, "lm_head"), Format::kBf16);
  EXPECT_EQ(model.quantization.kv_format(), Format::kFp8);
}

TEST(Catalog, DeepSeekNvfp4KeepsAttention) {
  const ModelSpec model = load("deepseek-r1-nvfp4");
  EXPECT_EQ(format_of(model, "model.layers.5.self_attn.o_proj"), Format::kBf16);
  EXPECT_EQ(format_of(model, "model.layers.5.mlp.shared_experts.up_proj"), Format::kNvfp4);
  EXPECT_EQ(format_of(model, "model.layers.0.mlp.down_proj"), Format::kNvfp4);
  EXPECT_EQ(format_of(model, "model.layers.61.mlp.experts.0.gate_proj"), Format::kBf16);
}

TEST(Catalog, LlamaSpansAndExperts) {
  const ModelSpec maverick = load("llama-4-maverick");
  const ModelSpec scout = load("llama-4-scout");
  int dense = 0;
  for (std::size_t i = 0; i < 48; ++i) {
    // Every fourth layer has no rotary embedding and sees everything.
    const AttentionSpan expected =
        i % 4 == 3 ? AttentionSpan{} : AttentionSpan{SpanKind::kChunked, 8192};
    EXPECT_EQ(maverick.layers[i].span, expected) << i;
    EXPECT_EQ(maverick.layers[i].moe, i % 2 == 1) << i;
    if (!maverick.layers[i].moe) {
      EXPECT_EQ(maverick.layers[i].dense_intermediate, 16384);
      ++dense;
    }
    EXPECT_TRUE(scout.layers[i].moe);
  }
  EXPECT_EQ(dense, 24);
  EXPECT_EQ(maverick.moe->shared_experts, 1);
  EXPECT_EQ(maverick.moe->shared_intermediate, 8192);
}

TEST(Catalog, NamesIgnoreCaseAndNearOnesAreOffered) {
  EXPECT_EQ(load("GLM-5-NVFP4").name, "glm-5-nvfp4");
  const Result<ModelSpec> unknown = load_model("glm-5.2-nvfp");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::kInput);
  EXPECT_NE(unknown.error().message.find("did you mean glm-5.2-nvfp4"), std::string::npos)
      << unknown.error().message;
  const Result<ModelSpec> hub = load_model("deepseek-ai/DeepSeek-R1");
  ASSERT_FALSE(hub.ok());
  EXPECT_NE(hub.error().message.find("deepseek-r1"), std::string::npos) << hub.error().message;
  EXPECT_FALSE(load_model("").ok());
}

// Best of several runs: other work on the machine must not fail the test.
template <class Work>
double best_ms(const Work& work) {
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(Catalog, LoadsAndCountsFast) {
  for (const char* name : {"glm-5.2-nvfp4", "deepseek-r1-nvfp4", "qwen3-235b-a22b-nvfp4"}) {
    const ModelSpec model = load(name);
    EXPECT_LT(best_ms([&] { (void)load_model(name); }), 5.0) << name;
    EXPECT_LT(best_ms([&] { (void)count_parameters(model); }), 2.0) << name;
  }
}
#endif

// Every catalog model with experts, its count taken out or set to 0: never a dense model.
TEST(Catalog, NoModelLosesItsExpertsInSilence) {
  const std::filesystem::path folder = std::filesystem::path(NIBBLE_SOURCE_DIR) / "data" / "models";
  int tried = 0;
  for (const auto& [name, title, source] : model_catalog()) {
    const Result<std::string> text = read_file(folder / (name + ".json"), 1 << 24);
    ASSERT_TRUE(text.ok()) << name;
    Result<Json> file = Json::parse(*text, name);
    ASSERT_TRUE(file.ok()) << name;
    for (const Json& replacement : {Json(), Json(0)}) {
      Json config = *file->find("config");
      Json* part = config.find("hidden_size") != nullptr ? &config : config.find("text_config");
      ASSERT_NE(part, nullptr) << name;
      std::string key;
      for (const char* count : {"n_routed_experts", "num_experts", "num_local_experts"}) {
        if (part->find(count) == nullptr) continue;
        key = count;
        part->set(count, replacement);
      }
      const Result<ModelSpec> model = parse_model(config, nullptr, name);
      ASSERT_FALSE(model.ok()) << name;
      EXPECT_NE(model.error().message.find("\"" + key + "\" is "), std::string::npos)
          << model.error().message;
      EXPECT_NE(model.error().message.find("give the number of routed experts"), std::string::npos);
      ++tried;
    }
  }
  EXPECT_EQ(tried, 2 * 19);  // all 19 models of the catalog have experts
}

// ---- paths -------------------------------------------------------------------------------------

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = temporary_.path() / "Tiny-8B";
    std::filesystem::create_directory(folder_);
  }
  void put(const char* file, std::string_view text) {
    ASSERT_TRUE(write_file(folder_ / file, text).ok());
  }

  static constexpr std::string_view kConfig =
      R"({"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100,
          "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
          "max_position_embeddings": 4096})";
  TemporaryFolder temporary_;
  std::filesystem::path folder_;
};

TEST_F(Folder, OfACheckpointIsReadWithItsQuantization) {
  put("config.json", kConfig);
  put("hf_quant_config.json",
      R"({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
          "exclude_modules": ["lm_head"]}})");
  for (const std::string& path :
       {folder_.string(), folder_.string() + "/", (folder_ / "config.json").string()}) {
    const ModelSpec model = load(path);
    EXPECT_EQ(model.name, "Tiny-8B") << path;
    EXPECT_EQ(format_of(model, "model.layers.0.mlp.gate_proj"), Format::kNvfp4);
    EXPECT_EQ(format_of(model, "lm_head"), Format::kBf16);
  }
}

TEST_F(Folder, OtherFileNamesStandAlone) {
  put("my-model.json", kConfig);
  put("hf_quant_config.json", R"({"quantization": {"quant_algo": "NVFP4"}})");
  const ModelSpec model = load((folder_ / "my-model.json").string());
  EXPECT_EQ(model.name, "my-model");
  EXPECT_EQ(format_of(model, "model.layers.0.mlp.gate_proj"), Format::kBf16);
}

TEST_F(Folder, CatalogFilesAreReadToo) {
  put("mine.json", std::string(R"({"name": "mine", "title": "Mine", "source": "me", "config": )") +
                       std::string(kConfig) + "}");
  const ModelSpec model = load((folder_ / "mine.json").string());
  EXPECT_EQ(model.title, "Mine");
  put("broken.json", R"({"name": "mine", "title": "Mine", "source": "me", "config": {}, "x": 1})");
  const Result<ModelSpec> broken = load_model((folder_ / "broken.json").string());
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("unknown field \"x\""), std::string::npos);
}

TEST_F(Folder, FaultsNameTheFile) {
  struct Case {
    const char* file;
    const char* text;
    const char* expected;
  };
  const Case cases[] = {
      {"cut.json", R"({"hidden_size": 64, "num_)", "cut.json"},
      {"empty.json", "", "empty.json"},
      {"list.json", "[1, 2]", "expected an object"},
      {"config.json", R"({"num_hidden_layers": 2})", "\"hidden_size\" is missing"},
      {"model.safetensors", "x", "is not a config.json"},
      {"model.gguf", "GGUF", "is a GGUF file"},
  };
  for (const Case& c : cases) {
    put(c.file, c.text);
    const Result<ModelSpec> model = load_model((folder_ / c.file).string());
    ASSERT_FALSE(model.ok()) << c.file;
    EXPECT_EQ(model.error().kind, ErrorKind::kInput);
    EXPECT_NE(model.error().message.find(c.expected), std::string::npos) << model.error().message;
    EXPECT_NE(model.error().message.find(c.file), std::string::npos) << model.error().message;
  }
}

TEST_F(Folder, WithoutConfigIsAnError) {
  const Result<ModelSpec> model = load_model(folder_.string());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("has no config.json"), std::string::npos);
}

TEST_F(Folder, BrokenQuantizationFileNamesItself) {
  put("config.json", kConfig);
  put("hf_quant_config.json", R"({"quantization": {"quant_algo": "NVFP5"}})");
  const Result<ModelSpec> model = load_model(folder_.string());
  ASSERT_FALSE(model.ok());
  // The whole path: a user with many checkpoints must see which one is broken.
  const std::string path = (folder_ / "hf_quant_config.json").string();
  EXPECT_TRUE(model.error().message.starts_with(path + ": ")) << model.error().message;
  EXPECT_NE(model.error().message.find("NVFP5"), std::string::npos);
}

}  // namespace
}  // namespace nibble
