// The weights of a model, one by one, under the names that checkpoints give them.
#include <fmt/core.h>
#include <utility>

#include "model/spec.h"

namespace nibble {
namespace {

// Collects weights below one prefix ("model.layers.3.").
class Collector {
 public:
  Collector(const ModelSpec& model, std::string prefix)
      : model_(model), prefix_(std::move(prefix)) {}

  void matrix(Part part, const std::string& name, std::int64_t rows, std::int64_t columns,
              std::int64_t copies = 1) {
    std::string module = prefix_ + name;
    const ModuleFormat format = model_.quantization.format_of(module);
    weights_.push_back({.part = part,
                        .module = std::move(module),
                        .rows = rows,
                        .columns = columns,
                        .copies = copies,
                        .format = format.weights,
                        .activations = format.activations});
  }
  void small(const std::string& name, std::int64_t rows, std::int64_t copies = 1) {
    const ModuleFormat base = model_.quantization.base();
    weights_.push_back({.part = Part::kSmall,
                        .module = prefix_ + name,
                        .rows = rows,
                        .columns = 1,
                        .copies = copies,
                        .format = base.weights,
                        .activations = base.activations});
  }
  std::vector<Weight> take() { return std::move(weights_); }

 private:
  const ModelSpec& model_;
  std::string prefix_;
  std::vector<Weight> weights_;
};

void collect_mla(Collector& out, const AttentionSpec& a, std::int64_t hidden) {
  const std::int64_t query_rows = a.heads * (a.qk_nope_head_dim + a.qk_rope_head_dim);
  if (a.q_lora_rank > 0) {
    out.matrix(Part::kQA, "self_attn.q_a_proj", a.q_lora_rank, hidden);
    out.small("self_attn.q_a_layernorm", a.q_lora_rank);
    out.matrix(Part::kQB, "self_attn.q_b_proj", query_rows, a.q_lora_rank);
  } else {
    out.matrix(Part::kQ, "self_attn.q_proj", query_rows, hidden);
  }
  out.matrix(Part::kKvA, "self_attn.kv_a_proj_with_mqa", a.kv_lora_rank + a.qk_rope_head_dim,
             hidden);
  out.small("self_attn.kv_a_layernorm", a.kv_lora_rank);
  out.matrix(Part::kKvB, "self_attn.kv_b_proj", a.heads * (a.qk_nope_head_dim + a.v_head_dim),
             a.kv_lora_rank);
  out.matrix(Part::kOut, "self_attn.o_proj", hidden, a.heads * a.v_head_dim);
}

void collect_indexer(Collector& out, const AttentionSpec& a, std::int64_t hidden) {
  const std::int64_t query_columns = a.q_lora_rank > 0 ? a.q_lora_rank : hidden;
  out.matrix(Part::kIndexerQB, "self_attn.indexer.wq_b", a.indexer->heads * a.indexer->head_dim,
             query_columns);
  out.matrix(Part::kIndexerK, "self_attn.indexer.wk", a.indexer->head_dim, hidden);
  out.matrix(Part::kIndexerWeights, "self_attn.indexer.weights_proj", a.indexer->heads, hidden);
  out.small("self_attn.indexer.k_norm", 2 * a.indexer->head_dim);  // weight and bias
}

void collect_gqa(Collector& out, const AttentionSpec& a, std::int64_t hidden) {
  const std::int64_t query_rows = a.heads * a.head_dim;
  const std::int64_t key_rows = a.kv_heads * a.head_dim;
  out.matrix(Part::kQ, "self_attn.q_proj", query_rows, hidden);
  out.matrix(Part::kK, "self_attn.k_proj", key_rows, hidden);
  out.matrix(Part::kV, "self_attn.v_proj", key_rows, hidden);
  out.matrix(Part::kOut, "self_attn.o_proj", hidden, query_rows);
  if (a.qkv_bias) {
    out.small("self_attn.q_proj.bias", query_rows);
    out.small("self_attn.k_proj.bias", key_rows);
    out.small("self_attn.v_proj.bias", key_rows);
  }
  if (a.output_bias) out.small("self_attn.o_proj.bias", hidden);
  if (a.qk_norm && a.qk_norm_weights) {
    out.small("self_attn.q_norm", a.qk_norm_whole ? query_rows : a.head_dim);
    out.small("self_attn.k_norm", a.qk_norm_whole ? key_rows : a.head_dim);
  }
  if (a.sinks) out.small("self_attn.sinks", a.heads);
}

void collect_experts(Collector& out, const ModelSpec& model) {
  const MoeSpec& moe = *model.moe;
  const ModuleNames& names = model.names;
  const std::string block = names.block + ".";
  out.matrix(Part::kRouter, block + names.router, moe.experts, model.hidden);
  if (moe.router.linear_bias) out.small(block + names.router + ".bias", moe.experts);
  if (moe.router.correction_bias) {
    out.small(block + names.router + ".e_score_correction_bias", moe.experts);
  }
  const std::string expert = names.fused_experts ? block + "experts" : block + "experts.0.";
  out.matrix(Part::kExpertGateUp, names.fused_experts ? expert : expert + names.gate,
             2 * moe.intermediate, model.hidden, moe.experts);
  out.matrix(Part::kExpertDown, names.fused_experts ? expert : expert + names.down, model.hidden,
             moe.intermediate, moe.experts);
  if (moe.expert_bias) {
    out.small(block + "experts.bias", 2 * moe.intermediate + model.hidden, moe.experts);
  }
  if (moe.shared_intermediate > 0) {
    const std::string shared = block + names.shared + ".";
    out.matrix(Part::kSharedGateUp, shared + "gate_proj", 2 * moe.shared_intermediate,
               model.hidden);
    out.matrix(Part::kSharedDown, shared + "down_proj", model.hidden, moe.shared_intermediate);
    if (names.shared_gate) out.small(block + "shared_expert_gate", model.hidden);
  }
}

void collect_layer(Collector& out, const ModelSpec& model, const LayerSpec& layer) {
  if (model.attention.kind == AttentionKind::kMla) {
    collect_mla(out, model.attention, model.hidden);
  } else {
    collect_gqa(out, model.attention, model.hidden);
  }
  if (layer.indexer && model.attention.indexer) collect_indexer(out, model.attention, model.hidden);
  out.small("input_layernorm", model.hidden);
  out.small("post_attention_layernorm", model.hidden);
  if (layer.moe && model.moe) {
    collect_experts(out, model);
  } else {
    // The dense layers of block-sparse models keep the plain name.
    const std::string block =
        model.names.block == "block_sparse_moe" ? "mlp." : model.names.block + ".";
    out.matrix(Part::kDenseGateUp, block + "gate_proj", 2 * layer.dense_intermediate, model.hidden);
    out.matrix(Part::kDenseDown, block + "down_proj", model.hidden, layer.dense_intermediate);
  }
}

// Each weight that the checkpoint holds, without MTP layers.
template <class Visitor>
void for_each_stored(const ModelSpec& model, const Visitor& visit) {
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    for (const Weight& weight : layer_weights(model, layer)) visit(weight);
  }
  for (const Weight& weight : outer_weights(model)) {
    if (weight.part != Part::kLmHead || !model.tied_embeddings) visit(weight);
  }
}

}  // namespace

std::vector<Weight> layer_weights(const ModelSpec& model, std::size_t layer) {
  NIBBLE_CHECK(layer < model.layers.size());
  Collector out(model, fmt::format("{}layers.{}.", model.names.prefix, layer));
  collect_layer(out, model, model.layers[layer]);
  return out.take();
}

std::vector<Weight> outer_weights(const ModelSpec& model) {
  const std::string& prefix = model.names.prefix;
  // "language_model.model." -> "language_model.lm_head"; "model." and "model.language_model." ->
  // "lm_head".
  const std::size_t at = prefix.rfind("model.");
  const bool outside = prefix.starts_with("model.") || at == std::string::npos;
  Collector out(model, "");
  out.matrix(Part::kEmbedding, prefix + "embed_tokens", model.vocabulary, model.hidden);
  out.small(prefix + "norm", model.hidden);
  out.matrix(Part::kLmHead, outside ? "lm_head" : prefix.substr(0, at) + "lm_head",
             model.vocabulary, model.hidden);
  return out.take();
}

std::vector<Weight> mtp_weights(const ModelSpec& model) {
  std::vector<Weight> all;
  for (std::int64_t i = 0; i < model.mtp_layers; ++i) {
    const bool own = !model.names.mtp_prefix.empty();
    const std::int64_t number = own ? i : static_cast<std::int64_t>(model.layers.size()) + i;
    Collector out(model, own ? fmt::format("{}{}.", model.names.mtp_prefix, number)
                             : fmt::format("{}layers.{}.", model.names.prefix, number));
    out.small("enorm", model.hidden);
    out.small("hnorm", model.hidden);
    out.matrix(Part::kMtpProjection, "eh_proj", model.hidden, 2 * model.hidden);
    out.small("shared_head.norm", model.hidden);
    // An MTP layer is a layer of the kind that ends the stack, and always has its own indexer.
    LayerSpec layer = model.layers.empty() ? LayerSpec{} : model.layers.back();
    layer.indexer = model.attention.indexer.has_value();
    collect_layer(out, model, layer);
    std::vector<Weight> weights = out.take();
    all.insert(all.end(), std::make_move_iterator(weights.begin()),
               std::make_move_iterator(weights.end()));
  }
  return all;
}

ParameterCount count_parameters(const ModelSpec& model) {
  ParameterCount count;
  // A token uses top_k of the experts, with their biases, and all of the rest.
  const double used =
      model.moe ? static_cast<double>(model.moe->top_k) / static_cast<double>(model.moe->experts)
                : 1;
  for_each_stored(model, [&](const Weight& weight) {
    const double parameters = weight.parameters();
    count.total += parameters;
    if (weight.part == Part::kEmbedding) {
      count.embedding = parameters;
      if (model.tied_embeddings) count.active += parameters;  // it is the output layer too
    } else {
      count.active += weight.copies > 1 ? parameters * used : parameters;
    }
  });
  for (const Weight& weight : mtp_weights(model)) count.mtp += weight.parameters();
  return count;
}

double checkpoint_bytes(const ModelSpec& model) {
  double bytes = 0;
  for_each_stored(model, [&bytes](const Weight& weight) {
    bytes += static_cast<double>(weight.copies) * storage_bytes(weight.format,
                                                                static_cast<double>(weight.rows),
                                                                static_cast<double>(weight.columns))
                                                      .total();
  });
  return bytes;
}

}  // namespace nibble
