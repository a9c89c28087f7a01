#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>

#include "model/config.h"
#include "model/spec.h"

namespace nibble {
namespace {

ModelSpec catalog_model(std::string_view name) {
  Result<ModelSpec> model = load_model(name);
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  return model.ok() ? std::move(*model) : ModelSpec{};
}

ModelSpec parsed_model(std::string_view text) {
  const Result<Json> json = Json::parse(text, "test");
  EXPECT_TRUE(json.ok()) << (json.ok() ? "" : json.error().message);
  Result<ModelSpec> model = parse_model(*json, nullptr, "test");
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
  return model.ok() ? std::move(*model) : ModelSpec{};
}

// Parameters of one layer by part, norms and biases apart.
std::map<Part, double> by_part(const std::vector<Weight>& weights) {
  std::map<Part, double> parts;
  for (const Weight& weight : weights) parts[weight.part] += weight.parameters();
  return parts;
}

// GLM-5: hidden 6144, 64 heads, q_lora 2048, kv_lora 512, nope 192, rope 64, v 256.
//   q_a      2048 x 6144            =  12,582,912
//   q_b      64*(192+64) x 2048     =  33,554,432
//   kv_a     (512+64) x 6144        =   3,538,944
//   kv_b     64*(192+256) x 512     =  14,680,064
//   o        6144 x 64*256          = 100,663,296
//   attention                       = 165,019,648
//   indexer  32*128 x 2048 + 128 x 6144 + 32 x 6144 = 8,388,608 + 786,432 + 196,608 = 9,371,648
//   one expert 3 x 6144 x 2048      =  37,748,736; shared expert the same
//   router   256 x 6144             =   1,572,864
//   dense    3 x 6144 x 12288       = 226,492,416
//   embedding and lm_head 154880 x 6144 = 951,582,720 each
// total  = 78*(165,019,648 + 9,371,648) + 3*226,492,416
//          + 75*(257*37,748,736 + 1,572,864) + 2*951,582,720      = 743,910,014,976
// active = 78*174,391,296 + 3*226,492,416 + 75*(9*37,748,736 + 1,572,864) + 951,582,720
//                                                                 =  40,831,942,656
// So the published 743.9 includes the embedding and lm_head but no MTP layer, and 40.8 includes
// lm_head but not the embedding. Norms and biases come on top:
//   a layer: 2*6144 + 2048 + 512 + 2*128 = 15,104; router bias 256; final norm 6144
//   78*15,104 + 75*256 + 6144 = 1,203,456
TEST(Weights, Glm5WorkedByHand) {
  const ModelSpec model = catalog_model("glm-5");
  const std::map<Part, double> dense = by_part(layer_weights(model, 0));
  EXPECT_EQ(dense.at(Part::kQA), 12582912);
  EXPECT_EQ(dense.at(Part::kQB), 33554432);
  EXPECT_EQ(dense.at(Part::kKvA), 3538944);
  EXPECT_EQ(dense.at(Part::kKvB), 14680064);
  EXPECT_EQ(dense.at(Part::kOut), 100663296);
  EXPECT_EQ(dense.at(Part::kIndexerQB), 8388608);
  EXPECT_EQ(dense.at(Part::kIndexerK), 786432);
  EXPECT_EQ(dense.at(Part::kIndexerWeights), 196608);
  EXPECT_EQ(dense.at(Part::kDenseGateUp) + dense.at(Part::kDenseDown), 226492416);
  EXPECT_EQ(dense.at(Part::kSmall), 15104);
  EXPECT_FALSE(dense.contains(Part::kRouter));
  const std::map<Part, double> moe = by_part(layer_weights(model, 3));
  EXPECT_EQ(moe.at(Part::kExpertGateUp) + moe.at(Part::kExpertDown), 256.0 * 37748736);
  EXPECT_EQ(moe.at(Part::kSharedGateUp) + moe.at(Part::kSharedDown), 37748736);
  EXPECT_EQ(moe.at(Part::kRouter), 1572864);
  EXPECT_FALSE(moe.contains(Part::kDenseDown));
  const ParameterCount count = count_parameters(model);
  EXPECT_EQ(count.total, 743910014976.0 + 1203456);
  EXPECT_EQ(count.active, 40831942656.0 + 1203456);
  EXPECT_EQ(count.embedding, 951582720);
}

// DeepSeek-V3: hidden 7168, 128 heads, q_lora 1536, kv_lora 512, nope 128, rope 64, v 128.
//   attention 1536*7168 + 24576*1536 + 576*7168 + 32768*512 + 7168*16384
//           = 11,010,048 + 37,748,736 + 4,128,768 + 16,777,216 + 117,440,512 = 187,105,280
//   dense 3*7168*18432 = 396,361,728; expert 3*7168*2048 = 44,040,192; router 256*7168 = 1,835,008
//   embedding and lm_head 129280*7168 = 926,679,040 each
// total  = 61*187,105,280 + 3*396,361,728 + 58*(257*44,040,192 + 1,835,008) + 2*926,679,040
//        = 671,025,397,760
// active = 61*187,105,280 + 3*396,361,728 + 58*(9*44,040,192 + 1,835,008) + 926,679,040
//        = 36,624,596,992
// small: 61*(2*7168 + 1536 + 512) + 58*256 + 7168 = 1,021,440
TEST(Weights, DeepSeekWorkedByHand) {
  const ModelSpec model = catalog_model("deepseek-v3");
  const ParameterCount count = count_parameters(model);
  EXPECT_EQ(count.total, 671025397760.0 + 1021440);
  EXPECT_EQ(count.active, 36624596992.0 + 1021440);
  // One MTP layer: attention, experts and eh_proj 7168 x 14336 = 102,760,448:
  // 187,105,280 + 257*44,040,192 + 1,835,008 + 102,760,448 = 11,610,030,080, and
  // 5*7168 + 1536 + 512 + 256 = 38,144 of norms and bias. DeepSeek's README_WEIGHTS says
  // "11.5B unique parameters".
  EXPECT_EQ(count.mtp, 11610030080.0 + 38144);
  EXPECT_NEAR(count.mtp / 11.5e9, 1, 0.02);
}

// 117B and 5.1B in OpenAI's words. hidden 2880; 64 heads and 8 KV heads of 64; 128 experts of 2880.
//   attention 2*4096*2880 + 2*512*2880 = 26,542,080; biases 4096 + 2*512 + 2880 = 8000; sinks 64
//   expert 3*2880*2880 = 24,883,200, biases 2*2880 + 2880 = 8640; router 128*2880 + 128
//   norms 2*2880; outer 2*201088*2880 + 2880
TEST(Weights, GptOssCountsBiasesAndSinks) {
  const ParameterCount count = count_parameters(catalog_model("gpt-oss-120b"));
  const double layer = 26542080 + 8000 + 64 + 128 * 2880 + 128 + 2 * 2880;
  const double outer = 201088.0 * 2880;
  EXPECT_EQ(count.total, 36 * (layer + 128.0 * (24883200 + 8640)) + 2 * outer + 2880);
  EXPECT_DOUBLE_EQ(count.active, 36 * (layer + 4.0 * (24883200 + 8640)) + outer + 2880);
}

// MiniMax-M2's norm spans all heads: 48*128 + 8*128 = 7168 numbers a layer; with two norms of 3072
// and a routing bias of 256.
TEST(Weights, NormOverAllHeads) {
  const std::map<Part, double> parts = by_part(layer_weights(catalog_model("minimax-m2"), 0));
  EXPECT_EQ(parts.at(Part::kSmall), 7168 + 2 * 3072 + 256);
}

std::set<std::string> modules(const std::vector<Weight>& weights) {
  std::set<std::string> names;
  for (const Weight& weight : weights) {
    if (weight.part != Part::kSmall) names.insert(weight.module);
  }
  return names;
}

TEST(Weights, CarryTheNamesOfTheCheckpoint) {
  const std::string glm = "model.layers.3.";
  EXPECT_EQ(modules(layer_weights(catalog_model("glm-5"), 3)),
            (std::set<std::string>{
                glm + "self_attn.q_a_proj", glm + "self_attn.q_b_proj",
                glm + "self_attn.kv_a_proj_with_mqa", glm + "self_attn.kv_b_proj",
                glm + "self_attn.o_proj", glm + "self_attn.indexer.wq_b",
                glm + "self_attn.indexer.wk", glm + "self_attn.indexer.weights_proj",
                glm + "mlp.gate", glm + "mlp.experts.0.gate_proj", glm + "mlp.experts.0.down_proj",
                glm + "mlp.shared_experts.gate_proj", glm + "mlp.shared_experts.down_proj"}));
  const std::string oss = "model.layers.0.";
  EXPECT_EQ(modules(layer_weights(catalog_model("gpt-oss-20b"), 0)),
            (std::set<std::string>{oss + "self_attn.q_proj", oss + "self_attn.k_proj",
                                   oss + "self_attn.v_proj", oss + "self_attn.o_proj",
                                   oss + "mlp.router", oss + "mlp.experts"}));
  const std::string llama = "language_model.model.layers.1.";
  EXPECT_EQ(modules(layer_weights(catalog_model("llama-4-maverick"), 1)),
            (std::set<std::string>{llama + "self_attn.q_proj", llama + "self_attn.k_proj",
                                   llama + "self_attn.v_proj", llama + "self_attn.o_proj",
                                   llama + "feed_forward.router", llama + "feed_forward.experts",
                                   llama + "feed_forward.shared_expert.gate_proj",
                                   llama + "feed_forward.shared_expert.down_proj"}));
  EXPECT_EQ(modules(outer_weights(catalog_model("llama-4-maverick"))),
            (std::set<std::string>{"language_model.model.embed_tokens", "language_model.lm_head"}));
  EXPECT_TRUE(modules(layer_weights(catalog_model("minimax-m2"), 0))
                  .contains("model.layers.0.block_sparse_moe.experts.0.w1"));
  EXPECT_TRUE(modules(mtp_weights(catalog_model("glm-5"))).contains("model.layers.78.eh_proj"));
  EXPECT_TRUE(modules(mtp_weights(catalog_model("glm-5.2-nvfp4")))
                  .contains("model.layers.78.self_attn.indexer.wq_b"));
}

// hidden 8, 2 heads of 4, vocabulary 10: embedding 80; layer 4*64 + 3*8*16 = 640 and norms 16;
// final norm 8.
constexpr std::string_view kDense =
    R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 10,
        "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 64,
        "tie_word_embeddings": TIED})";
std::string dense(const char* tied) {
  std::string text(kDense);
  return text.replace(text.find("TIED"), 4, tied);
}

TEST(Weights, TiedEmbeddingsAreStoredOnceAndReadAsHead) {
  const ParameterCount untied = count_parameters(parsed_model(dense("false")));
  EXPECT_EQ(untied.total, 80 + 640 + 16 + 8 + 80);
  EXPECT_EQ(untied.active, 640 + 16 + 8 + 80);
  const ModelSpec model = parsed_model(dense("true"));
  const ParameterCount tied = count_parameters(model);
  EXPECT_EQ(tied.total, 80 + 640 + 16 + 8);
  EXPECT_EQ(tied.active, untied.active);
  EXPECT_EQ(checkpoint_bytes(model), 2 * (80 + 640 + 16 + 8));
  EXPECT_EQ(outer_weights(model).size(), 3u);
}

// Qwen3-8B, a dense model: 36 layers, hidden 4096, 32 heads and 8 KV heads of 128, width 12288.
//   layer: 2*4096*4096 + 2*1024*4096 + 3*4096*12288 + 2*128 + 2*4096
//        = 33,554,432 + 8,388,608 + 150,994,944 + 256 + 8192 = 192,946,432
//   36*192,946,432 + 2*151936*4096 + 4096 = 8,190,735,360,
// which is the parameter count of the published checkpoint (16,381,470,720 bytes of bf16).
TEST(Weights, DenseModelWithoutExperts) {
  const ModelSpec model = parsed_model(
      R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096,
          "num_hidden_layers": 36, "vocab_size": 151936, "num_attention_heads": 32,
          "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
          "max_position_embeddings": 40960, "sliding_window": null, "use_sliding_window": false,
          "max_window_layers": 36, "tie_word_embeddings": false})");
  const ParameterCount count = count_parameters(model);
  EXPECT_EQ(count.total, 8190735360.0);
  EXPECT_EQ(checkpoint_bytes(model), 16381470720.0);
  EXPECT_EQ(count.active, count.total - 151936.0 * 4096);
  EXPECT_FALSE(model.moe.has_value());
  EXPECT_EQ(count.mtp, 0);
  EXPECT_TRUE(mtp_weights(model).empty());
}

TEST(Weights, CheckpointBytesFollowTheFormats) {
  // One expert matrix of glm-5-nvfp4: 2048*6144*(1/2 + 1/16) = 7,077,888 bytes; 75 layers of 256
  // experts of three. The rest is bf16: 743,911,218,432 - 75*256*37,748,736 = 19,135,487,232
  // numbers.
  const double experts = 75.0 * 256 * 3 * 7077888;
  EXPECT_EQ(checkpoint_bytes(catalog_model("glm-5-nvfp4")), experts + 2 * 19135487232.0);
}

TEST(AttentionSpan, TokensRead) {
  EXPECT_EQ((AttentionSpan{SpanKind::kFull, 0}.tokens_read(5000)), 5000);
  EXPECT_EQ((AttentionSpan{SpanKind::kWindow, 128}.tokens_read(100)), 100);
  EXPECT_EQ((AttentionSpan{SpanKind::kWindow, 128}.tokens_read(5000)), 128);
  EXPECT_EQ((AttentionSpan{SpanKind::kChunked, 8192}.tokens_read(8192)), 8192);
  // Behind the first chunk a query is anywhere in its own: half of it on average.
  EXPECT_EQ((AttentionSpan{SpanKind::kChunked, 8192}.tokens_read(100000)), 4096);
}

}  // namespace
}  // namespace nibble
