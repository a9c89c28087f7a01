#include "engine/models/load.h"

#include <functional>

#include "base/testing.h"
#include "checkpoint/binding.h"
#include "checkpoint/test_files.h"
#include "engine/models/qwen3_moe.h"
#include "engine/models/test_runner.h"

namespace nibble::engine {
namespace {

// What loading the tiny checkpoint says after a change; empty when it is loaded.
std::string refusal(const std::function<void(TinyCheckpoint&)>& change,
                    const ModelOptions& options = {}) {
  TinyCheckpoint checkpoint = tiny(true);
  checkpoint.config.replace(checkpoint.config.find("\"head_dim\""), 0,
                            "\"max_position_embeddings\": 64, ");
  change(checkpoint);
  const TemporaryFolder folder;
  checkpoint.write(folder.path());
  ThreadPool pool(1);
  const Result<std::unique_ptr<Model>> loaded = load_checkpoint_model(folder.path(), options, pool);
  if (loaded.ok()) return "";
  EXPECT_EQ(loaded.error().kind, ErrorKind::kInput);
  std::string message = loaded.error().message;
  const std::size_t at = message.find(folder.path().string());
  if (at != std::string::npos) message.replace(at, folder.path().string().size(), "DIR");
  return message;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  ASSERT_NE(text.find(from), std::string::npos) << from;
  text.replace(text.find(from), from.size(), to);
}

std::string refusal_of_field(const std::string& field) {
  return refusal([&](TinyCheckpoint& checkpoint) {
    replace(checkpoint.config, "\"vocab_size\"", field + ", \"vocab_size\"");
  });
}

TEST(LoadModel, LoadsBothDialects) {
  for (const bool modelopt : {true, false}) {
    EXPECT_EQ(refusal([modelopt](TinyCheckpoint& checkpoint) {
                TinyCheckpoint whole = tiny(modelopt);
                whole.config.replace(whole.config.find("\"head_dim\""), 0,
                                     "\"max_position_embeddings\": 64, ");
                checkpoint = whole;
              }),
              "");
  }
}

// A tuner's choice is of the experts' products, and of nothing else.
TEST(LoadModel, ATunersChoiceReachesTheExperts) {
  TinyCheckpoint files = tiny(true);
  replace(files.config, "\"head_dim\"", "\"max_position_embeddings\": 64, \"head_dim\"");
  const TemporaryFolder folder;
  files.write(folder.path());
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const Binding binding = Binding::make(*checkpoint);
  ThreadPool pool(1);
  const ModelOptions options{.experts_isa = Isa::kPortable,
                             .expert_threads = {.gate_up = {{1, 4, 1}}, .down = {{5, 8, 2}}}};
  for (const ModelOptions& given : {options, ModelOptions{}}) {
    const Result<Qwen3MoeWeights> weights = load_qwen3_moe(binding, given, pool);
    ASSERT_TRUE(weights.ok()) << weights.error().message;
    int layers = 0;
    for (const Qwen3MoeLayer& layer : weights->layers) {
      if (!layer.moe || layer.moe->gate_up().format() == Format::kBf16) continue;
      ++layers;
      const MoeConfig& config = layer.moe->config();
      EXPECT_EQ(config.isa, given.experts_isa.value_or(best_isa()));
      EXPECT_EQ(layer.moe->down().isa(), config.isa);
      EXPECT_EQ(threads_for(config.threads.gate_up, 4), given.experts_isa ? 1 : 0);
      EXPECT_EQ(threads_for(config.threads.down, 8), given.experts_isa ? 2 : 0);
    }
    EXPECT_GT(layers, 0);
    EXPECT_EQ(weights->config.options.isa, best_isa());
  }
}

TEST(LoadModel, LoadsEveryKindOfActivations) {
  for (const Format format : {Format::kFp32, Format::kBf16, Format::kInt8, Format::kNvfp4}) {
    EXPECT_EQ(refusal([](TinyCheckpoint&) {}, {.activations = format}), "");
  }
  EXPECT_EQ(refusal([](TinyCheckpoint&) {}, {.activations = Format::kFp8}),
            "activations in fp8 are not supported; choose fp32, bf16, int8 or nvfp4");
  EXPECT_EQ(refusal([](TinyCheckpoint&) {}, {.kv_format = Format::kFp8}),
            "a KV cache in fp8 is not supported; choose fp32 or bf16");
}

TEST(LoadModel, RefusesWhatIsNotThere) {
  ThreadPool pool(1);
  EXPECT_FALSE(load_checkpoint_model("/nowhere/at/all", {}, pool).ok());
  EXPECT_NE(refusal([](TinyCheckpoint& checkpoint) { checkpoint.config.clear(); }), "");
  EXPECT_NE(refusal([](TinyCheckpoint& checkpoint) { checkpoint.config = "{"; }), "");
}

TEST(LoadModel, RefusesEveryTensorThatIsMissing) {
  const std::size_t count = tiny(true).tensors.size();
  for (std::size_t at = 0; at < count; ++at) {
    const std::string name = tiny(true).tensors[at].name;
    const std::string message =
        refusal([&](TinyCheckpoint& checkpoint) { checkpoint.remove(name); });
    // An input scale is no part of what is multiplied here.
    EXPECT_TRUE(!message.empty() || name.ends_with(".input_scale")) << name;
  }
}

TEST(LoadModel, RefusesEveryTensorOfAnotherShape) {
  for (const TestTensor& tensor : tiny(true).tensors) {
    if (tensor.shape.empty()) continue;
    const std::string message = refusal([&](TinyCheckpoint& checkpoint) {
      TestTensor& changed = checkpoint.at(tensor.name);
      const auto rows = static_cast<std::size_t>(changed.shape[0]);
      changed.data += changed.data.substr(0, changed.data.size() / rows);
      changed.shape[0] += 1;
    });
    EXPECT_NE(message, "") << tensor.name;
  }
}

TEST(LoadModel, RefusesOtherArchitecturesByName) {
  EXPECT_EQ(refusal([](TinyCheckpoint& checkpoint) {
              replace(checkpoint.config, "Qwen3MoeForCausalLM", "MixtralForCausalLM");
            }),
            "DIR: architecture \"MixtralForCausalLM\" is not served; nibble serves "
            "Qwen3MoeForCausalLM and Qwen2MoeForCausalLM");
}

TEST(LoadModel, RefusesFeaturesByName) {
  const std::pair<std::string, std::string> cases[] = {
      {R"("use_sliding_window": true, "sliding_window": 8, "max_window_layers": 0)",
       "DIR: Qwen3MoeForCausalLM has a sliding window of 8 tokens in layer 0, which nibble does "
       "not "
       "serve yet"},
      {R"("hidden_act": "gelu")",
       "DIR/config.json: \"hidden_act\" is \"gelu\"; the experts' activation is silu"},
      {R"("rope_scaling": {"type": "longrope", "factor": 2})",
       "DIR/config.json: rope_scaling: \"type\" is \"longrope\"; it must be one of default, "
       "linear, "
       "yarn"},
      {R"("rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8})",
       "DIR/config.json: rope_parameters: \"rope_type\" is \"llama3\"; it must be one of default, "
       "linear, yarn"},
      {R"("rope_scaling": {"rope_type": "yarn", "factor": 4, "mscale": 1})",
       "DIR/config.json: rope_scaling: \"mscale\" of yarn is not supported"},
      {R"("rope_scaling": {"rope_type": "linear"})",
       "DIR/config.json: rope_scaling: \"factor\" is missing"},
      {R"("partial_rotary_factor": 0.5)",
       "DIR/config.json: \"partial_rotary_factor\" is not 1; heads are rotated whole"},
      {R"("rms_norm_eps": -1)", "DIR/config.json: \"rms_norm_eps\" is -1; it must be at least 0"},
      {R"("rope_theta": 0)", "DIR/config.json: \"rope_theta\" is 0; it must be greater than 1"},
  };
  for (const auto& [field, message] : cases) EXPECT_EQ(refusal_of_field(field), message);
}

TEST(LoadModel, TakesTheFieldsThatItKnows) {
  EXPECT_EQ(refusal_of_field(R"("hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1000000,
                                "rope_scaling": null)"),
            "");
  EXPECT_EQ(refusal_of_field(R"("rope_scaling": {"type": "linear", "factor": 2})"), "");
  EXPECT_EQ(refusal_of_field(R"("rope_scaling": {"rope_type": "yarn", "factor": 2,
                                "original_max_position_embeddings": 32, "beta_fast": 32})"),
            "");
}

TEST(LoadModel, RefusesAModelWithoutAContext) {
  EXPECT_EQ(refusal([](TinyCheckpoint& checkpoint) {
              replace(checkpoint.config, "\"max_position_embeddings\": 64, ", "");
            }),
            "DIR: config.json has no max_position_embeddings; give the longest context");
}

TEST(LoadModel, RefusesEmbeddingsThatAreNotBf16) {
  EXPECT_NE(refusal([](TinyCheckpoint& checkpoint) {
              checkpoint.remove("model.embed_tokens.weight");
              checkpoint.nvfp4("model.embed_tokens", 8, 32, true, 1.0F / 2688, 0.25F);
            }).find("embeddings in nvfp4 are not supported"),
            std::string::npos);
}

TEST(LoadModel, RefusesQueriesAndKeysOfDifferentForms) {
  EXPECT_NE(refusal([](TinyCheckpoint& checkpoint) {
              for (const char* part : {"weight", "weight_scale", "weight_scale_2", "input_scale"}) {
                checkpoint.remove(std::string("model.layers.0.self_attn.k_proj.") + part);
              }
              checkpoint.bf16("model.layers.0.self_attn.k_proj.weight", {16, 32});
            }).find("k_proj: a nvfp4 matrix of 32 columns cannot stand above a bf16 matrix of 32"),
            std::string::npos);
}

// A layer fewer than the files hold is another model, and its text looks like one.
TEST(LoadModel, RefusesALayerThatTheConfigurationDoesNotCount) {
  EXPECT_NE(refusal([](TinyCheckpoint& checkpoint) {
              checkpoint.bf16("model.layers.9.input_layernorm.weight", {32});
            }).find("model.layers.9: is in the checkpoint, but config.json names"),
            std::string::npos);
}

}  // namespace
}  // namespace nibble::engine
