// What a model is, as far as its arithmetic goes: layers in order, attention, experts, and the
// number format of every matrix. Read from a Hugging Face config.json (model/config.h).
//
//   NIBBLE_ASSIGN_OR_RETURN(const ModelSpec model, load_model("glm-5-nvfp4"));
//   const ParameterCount parameters = count_parameters(model);   // 743.9 B total, 40.8 B active
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/format.h"
#include "model/quantization.h"

namespace nibble {

enum class AttentionKind {
  kMha,  // one key/value head per query head
  kGqa,  // fewer key/value heads
  kMla,  // a latent of kv_lora_rank + qk_rope_head_dim per token, shared by all heads
};

// DeepSeek sparse attention: a small index picks `top_k` tokens that attention then reads.
struct IndexerSpec {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t top_k = 0;  // tokens
};

struct AttentionSpec {
  AttentionKind kind = AttentionKind::kGqa;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;      // MHA, GQA
  std::int64_t head_dim = 0;      // MHA, GQA
  std::int64_t q_lora_rank = 0;   // MLA; 0: queries are projected directly
  std::int64_t kv_lora_rank = 0;  // MLA
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  std::optional<IndexerSpec> indexer;
  bool qkv_bias = false;
  bool output_bias = false;
  bool qk_norm = false;
  bool qk_norm_whole = false;   // the norm's weights span all heads (MiniMax-M2), not one
  bool qk_norm_weights = true;  // false: the norm has no weights (Llama-4)
  bool sinks = false;           // one learned logit per head
};

enum class SpanKind { kFull, kWindow, kChunked };

// Which earlier tokens a layer attends to.
struct AttentionSpan {
  SpanKind kind = SpanKind::kFull;
  std::int64_t tokens = 0;  // window or chunk size; 0 for kFull
  // Tokens of KV read by one query at `context` tokens (mean over positions for chunks).
  double tokens_read(double context) const;
  friend bool operator==(const AttentionSpan&, const AttentionSpan&) = default;
};

enum class RouterKind { kSoftmax, kSigmoid };

struct RouterSpec {
  RouterKind kind = RouterKind::kSoftmax;
  bool correction_bias = false;  // e_score_correction_bias
  bool renormalise = false;      // norm_topk_prob
  bool linear_bias = false;      // gpt-oss
  std::int64_t groups = 1;       // n_group
  std::int64_t top_groups = 1;   // topk_group
};

struct MoeSpec {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t intermediate = 0;         // of one routed expert
  std::int64_t shared_experts = 0;       // always active
  std::int64_t shared_intermediate = 0;  // of all shared experts together
  bool expert_bias = false;              // gpt-oss
  RouterSpec router;
};

struct LayerSpec {
  AttentionSpan span;
  bool indexer = false;  // computes its own index (otherwise it shares or has none)
  bool sparse = false;   // attention reads only the indexer's top_k tokens
  bool moe = false;
  std::int64_t dense_intermediate = 0;  // when !moe
};

// How the checkpoint names a layer's modules; quantization rules match on these names.
struct ModuleNames {
  std::string prefix = "model.";  // "language_model.model." in multimodal checkpoints
  std::string mtp_prefix;         // "mtp.layers."; empty: MTP layers follow the main stack
  std::string block = "mlp";      // "block_sparse_moe", "feed_forward"
  std::string router = "gate";    // below `block`
  std::string shared = "shared_experts";
  std::string gate = "gate_proj", down = "down_proj";  // of an expert: "w1", "w2"
  bool fused_experts = false;                          // one module `block`.experts for all of them
  bool shared_gate = false;  // a gate of one row weighs the shared expert (Qwen2-MoE)
};

struct ModelSpec {
  std::string name;          // catalog name or the path's last part
  std::string title;         // as its makers write it
  std::string source;        // where the configuration comes from
  std::string architecture;  // architectures[0], or model_type
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  bool tied_embeddings = false;
  std::int64_t max_context = 0;  // tokens
  AttentionSpec attention;
  std::optional<MoeSpec> moe;
  std::vector<LayerSpec> layers;  // the main stack, in order; without MTP
  std::int64_t mtp_layers = 0;
  ModuleNames names;
  Quantization quantization;
  std::vector<std::string> warnings;  // what was odd in the configuration
};

// ---- the weights, one by one -------------------------------------------------------------------

enum class Part {
  kEmbedding,
  kLmHead,
  kQ,
  kK,
  kV,
  kQA,
  kQB,
  kKvA,
  kKvB,
  kOut,  // attention projections (MHA/GQA, MLA)
  kIndexerQB,
  kIndexerK,
  kIndexerWeights,  // DSA: wq_b, wk, weights_proj
  kRouter,
  kDenseGateUp,
  kDenseDown,
  kSharedGateUp,
  kSharedDown,
  kExpertGateUp,
  kExpertDown,
  kMtpProjection,
  kSmall,  // norms, biases, sinks: a vector of `rows` numbers
};

// One matrix [rows, columns] = [out features, in features], `copies` times (routed experts).
// Gate and up are one matrix of 2 x intermediate rows.
struct Weight {
  Part part = Part::kSmall;
  std::string module;  // Hugging Face module name, as quantization rules see it
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t copies = 1;
  Format format = Format::kBf16;       // as the checkpoint stores it
  Format activations = Format::kBf16;  // as the checkpoint's rules want the input
  double parameters() const {
    return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(copies);
  }
};

std::string_view to_string(Part part);
std::string_view to_string(AttentionKind kind);

std::vector<Weight> layer_weights(const ModelSpec& model, std::size_t layer);
// Embedding, final norm, lm_head. With tied embeddings both matrices are listed, although the
// checkpoint holds one: the table is looked up and also read whole as lm_head.
std::vector<Weight> outer_weights(const ModelSpec& model);
std::vector<Weight> mtp_weights(
    const ModelSpec& model);  // all MTP layers; they share the embedding

struct ParameterCount {
  double total = 0;      // without MTP layers; a tied embedding counts once
  double active = 0;     // used by one token; the embedding table is a lookup and not counted
  double embedding = 0;  // the table alone
  double mtp = 0;
};
ParameterCount count_parameters(const ModelSpec& model);

// Bytes of the whole checkpoint's weights by format, without MTP.
double checkpoint_bytes(const ModelSpec& model);

}  // namespace nibble
