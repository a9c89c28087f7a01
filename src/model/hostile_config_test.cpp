// Configurations that contradict themselves or would take too long to read.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <string>

#include "model/config.h"
#include "model/test_configs.h"

namespace nibble {
namespace {

// A model that speaks of experts but not of their number must not be counted as a dense one.
TEST(HostileConfig, ExpertsWithoutACountAreAFault) {
  struct Case {
    const char* fields;
    const char* sign;
  };
  const Case cases[] = {
      {R"({"num_experts_per_tok": 8})", "\"num_experts_per_tok\" is 8"},
      {R"({"experts_per_token": 4})", "\"experts_per_token\" is 4"},
      {R"({"moe_topk": [2, 2, 2, 2]})", "\"moe_topk\" is 2"},
      {R"({"moe_intermediate_size": 32})", "\"moe_intermediate_size\" is 32"},
      {R"({"n_shared_experts": 1})", "\"n_shared_experts\" is 1"},
      {R"({"num_shared_experts": 1})", "\"num_shared_experts\" is 1"},
      {R"({"shared_expert_intermediate_size": 48})", "\"shared_expert_intermediate_size\" is 48"},
      {R"({"first_k_dense_replace": 1})", "\"first_k_dense_replace\" is 1"},
      {R"({"mlp_layer_types": ["dense", "sparse", "dense", "dense"]})", "\"mlp_layer_types\" has"},
      {R"({"moe_layer_freq": [0, 0, 0, 1]})", "\"moe_layer_freq\" has layers with experts"},
      {R"({"moe_layers": [0]})", "\"moe_layers\" names layers"},
      {R"({"architectures": ["Qwen3MoeForCausalLM"]})", "the architecture is Qwen3MoeForCausalLM"},
  };
  for (const Case& c : cases) {
    for (const char* count : {"{}", R"({"num_experts": 0})", R"({"num_experts": null})"}) {
      const std::string message = fault(with(with(dense(), c.fields), count));
      const bool zero = std::string_view(count).find('0') != std::string_view::npos;
      EXPECT_EQ(message.find(fmt::format("config.json: \"num_experts\" is {}, but {}",
                                         zero ? "0" : "missing", c.sign)),
                0u)
          << c.fields << count << "\n"
          << message;
    }
  }
  EXPECT_EQ(
      fault(with(dense(), R"({"model_type": "glm_moe_dsa"})")),
      "config.json: \"n_routed_experts\" is missing, but the architecture is glm_moe_dsa; give "
      "the number of routed experts");
  EXPECT_EQ(fault(with(dense(), R"({"model_type": "gpt_oss"})")),
            "config.json: \"num_local_experts\" is missing, but every model of type gpt_oss has "
            "experts; give the number of routed experts");
  // The zero is named where it stands, not where the family would have put it.
  EXPECT_EQ(fault(with(dense(), R"({"num_local_experts": 0, "num_experts_per_tok": 2})")),
            "config.json: \"num_local_experts\" is 0, but \"num_experts_per_tok\" is 2; give the "
            "number of routed experts");
}

TEST(HostileConfig, ZerosOfSharedConfigClassesAreDense) {
  for (const char* fields :
       {"{}", R"({"num_experts_per_tok": null})", R"({"num_experts_per_tok": 0})",
        R"({"num_experts": 0})", R"({"num_experts": 0, "num_experts_per_tok": 0})",
        R"({"n_routed_experts": null, "n_shared_experts": null, "moe_intermediate_size": 0})",
        R"({"first_k_dense_replace": 4})", R"({"moe_layer_freq": 1, "decoder_sparse_step": 1})",
        R"({"mlp_layer_types": ["dense", "dense", "dense", "dense"]})", R"({"moe_layers": []})"}) {
    EXPECT_FALSE(parse(with(dense(), fields)).moe) << fields;
    EXPECT_EQ(expert_layers(parse(with(dense(), fields))), "0000") << fields;
  }
}

// 60 / 4 = 15: nobody gave a head_dim, so the message shows where the 15 comes from.
TEST(HostileConfig, AnOddDerivedHeadDimIsNotCalledGiven) {
  EXPECT_EQ(
      fault(with(dense(), R"({"hidden_size": 60})")),
      "config.json: \"head_dim\" is missing, and hidden_size / num_attention_heads = 60 / 4 = "
      "15 is odd; rotary embeddings need an even number");
}

TEST(HostileConfig, APatternThatTakesForEverIsRefused) {
  // Two nested repetitions over a name of 40 letters and dots: 2^40 ways to fail.
  const Json config = with(dense(), R"({"quantization_config": {"quant_method": "modelopt",
      "quant_algo": "NVFP4", "ignore": ["re:(.+)+[!?]$"]}})");
  const Result<ModelSpec> model = parse_model(config, nullptr, "m");
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("(.+)+[!?]$"), std::string::npos) << model.error().message;
}

// A list of `count` patterns of `length` characters that match nothing, as the `ignore` list of a
// 1000-layer model.
Json hostile(std::size_t count, std::size_t length) {
  Json list = Json::array();
  for (std::size_t i = 0; i < count; ++i) {
    list.push("*" + std::string(length - 4, 'a') + fmt::format("{:03}", i));
  }
  const Json quantization =
      Json::object().set("quant_method", "modelopt").set("quant_algo", "NVFP4").set("ignore", list);
  return with(dense(), R"({"num_hidden_layers": 1000})").set("quantization_config", quantization);
}

// 20 modules x 1000 layers x patterns x (8 + 2 x 72 characters x (length + 1)) steps: 2 of 20 are
// 1.2e8 and fine, 512 of 500 are 7.4e11.
TEST(HostileConfig, ListsThatTakeTooLongForAllLayersAreRefused) {
  EXPECT_EQ(parse(hostile(2, 20)).layers.size(), 1000u);
  const std::string message = fault(hostile(512, 500));
  EXPECT_EQ(
      message,
      "config.json: quantization_config: matching its module patterns against 1000 layers takes "
      "up to 7.4e+11 steps, more than the 2e+08 that nibble spends; list fewer or shorter "
      "patterns, or whole module names");
}

// Each match stays below the bound of a single one (three stars over 40 characters: some 10^4
// steps), but those of 6,000 modules together do not.
TEST(HostileConfig, RegularExpressionsThatAreSlowTogetherAreRefused) {
  Json list = Json::array();
  for (int i = 0; i < 9; ++i) list.push(fmt::format("re:.*.*.*[!?]{}", i));
  const Json quantization =
      Json::object().set("quant_method", "modelopt").set("quant_algo", "NVFP4").set("ignore", list);
  const Json config =
      with(dense(), R"({"num_hidden_layers": 1000})").set("quantization_config", quantization);
  EXPECT_NE(fault(config).find("takes too long to match"), std::string::npos);
}

TEST(HostileConfig, TooManyGroupsAreRefused) {
  Json groups = Json::object();
  for (int i = 0; i < 257; ++i) groups.set(std::to_string(i), Json::object());
  const Json quantization =
      Json::object().set("quant_method", "compressed-tensors").set("config_groups", groups);
  EXPECT_NE(fault(with(dense(), "{}").set("quantization_config", quantization))
                .find("\"config_groups\" has 257 groups; at most 256 are read"),
            std::string::npos);
}

}  // namespace
}  // namespace nibble
