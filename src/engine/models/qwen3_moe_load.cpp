// The weights of Qwen3-MoE, from a checkpoint whose binding has no faults.
#include <filesystem>
#include <fmt/core.h>
#include <utility>

#include "checkpoint/binding.h"
#include "checkpoint/load.h"
#include "engine/models/qwen3_moe.h"

namespace nibble::engine {
namespace {

class Loader {
 public:
  Loader(const Binding& binding, const Qwen3MoeConfig& config, ThreadPool& pool)
      : binding_(binding),
        spec_(*binding.checkpoint().model()),
        config_(config),
        options_{.activations = config.options.activations, .isa = config.options.isa},
        pool_(pool) {}

  Result<> load_outer(Qwen3MoeWeights& out);
  Result<Qwen3MoeLayer> load_layer(std::size_t number);

 private:
  Result<LoadedMatrix> matrix(const std::string& name);
  Result<std::vector<float>> vector(const std::string& name) {
    return load_vector(binding_.checkpoint(), name);
  }
  // One matrix, or several above each other that take the same input.
  Result<Linear> linear(const std::vector<std::string>& names, bool bias);
  Result<Mlp> mlp(const std::string& below);
  Result<> load_attention(const std::string& below, Qwen3MoeLayer& out);
  Result<> load_shared(const std::string& below, Qwen3MoeLayer& out);
  Result<MoeLayer> experts(std::size_t number, const std::string& below);

  const Binding& binding_;
  const ModelSpec& spec_;
  const Qwen3MoeConfig& config_;
  LinearOptions options_;
  ThreadPool& pool_;
};

Result<LoadedMatrix> Loader::matrix(const std::string& name) {
  const BoundMatrix* bound = binding_.find(name);
  if (bound == nullptr) {
    return input_error("{}: holds no matrix \"{}\"", binding_.checkpoint().path(), name);
  }
  return load_matrix(binding_.checkpoint(), *bound);
}

Result<Linear> Loader::linear(const std::vector<std::string>& names, bool bias) {
  NIBBLE_ASSIGN_OR_RETURN(LoadedMatrix all, matrix(names.front()));
  std::vector<float> biases;
  for (const std::string& name : names) {
    if (&name != &names.front()) {
      NIBBLE_ASSIGN_OR_RETURN(const LoadedMatrix next, matrix(name));
      Result<LoadedMatrix> stacked = stack_rows(all, next);
      if (!stacked.ok()) return stacked.error().within(name);
      all = std::move(*stacked);
    }
    if (!bias) continue;
    NIBBLE_ASSIGN_OR_RETURN(const std::vector<float> values, vector(name + ".bias"));
    biases.insert(biases.end(), values.begin(), values.end());
  }
  Result<Linear> made = Linear::make(all.matrix, std::move(biases), options_, pool_);
  if (!made.ok()) return made.error().within(names.front());
  return made;
}

Result<Mlp> Loader::mlp(const std::string& below) {
  Mlp mlp;
  NIBBLE_ASSIGN_OR_RETURN(mlp.gate_up, linear({below + "gate_proj", below + "up_proj"}, false));
  NIBBLE_ASSIGN_OR_RETURN(mlp.down, linear({below + "down_proj"}, false));
  return mlp;
}

Result<> Loader::load_attention(const std::string& below, Qwen3MoeLayer& out) {
  const AttentionSpec& attention = spec_.attention;
  NIBBLE_ASSIGN_OR_RETURN(
      out.qkv, linear({below + "q_proj", below + "k_proj", below + "v_proj"}, attention.qkv_bias));
  NIBBLE_ASSIGN_OR_RETURN(out.out, linear({below + "o_proj"}, attention.output_bias));
  if (!attention.qk_norm) return {};
  NIBBLE_ASSIGN_OR_RETURN(out.q_norm, vector(below + "q_norm.weight"));
  NIBBLE_ASSIGN_OR_RETURN(out.k_norm, vector(below + "k_norm.weight"));
  return {};
}

Result<MoeLayer> Loader::experts(std::size_t number, const std::string& below) {
  const MoeSpec& spec = *spec_.moe;
  std::vector<LoadedMatrix> gate_up;
  std::vector<LoadedMatrix> down;
  std::vector<QuantizedMatrix> gate_up_views;
  std::vector<QuantizedMatrix> down_views;
  for (std::int64_t number_of = 0; number_of < spec.experts; ++number_of) {
    NIBBLE_ASSIGN_OR_RETURN(LoadedExpert expert, load_expert(binding_, number, number_of));
    Result<LoadedMatrix> both = stack_rows(expert.gate, expert.up);
    if (!both.ok()) return both.error().within(fmt::format("{}experts.{}", below, number_of));
    gate_up.push_back(std::move(*both));
    down.push_back(std::move(expert.down));
    gate_up_views.push_back(gate_up.back().matrix);
    down_views.push_back(down.back().matrix);
  }
  NIBBLE_ASSIGN_OR_RETURN(const LoadedMatrix router, matrix(below + spec_.names.router));
  MoeConfig config{.hidden = spec_.hidden,
                   .intermediate = spec.intermediate,
                   .router = {.experts = spec.experts,
                              .top_k = spec.top_k,
                              .renormalise = spec.router.renormalise},
                   .activations = options_.activations,
                   .isa = options_.isa};
  const bool bf16 =
      gate_up_views.front().format == Format::kBf16 && down_views.front().format == Format::kBf16;
  if (bf16) {
    config.activations = Format::kFp32;
  } else {
    config.isa = config_.options.experts_isa.value_or(options_.isa);
    config.threads = config_.options.expert_threads;
  }
  std::vector<float> router_bias;
  if (config_.options.router_bias != 0) {
    router_bias.assign(static_cast<std::size_t>(spec.experts), 0);
    router_bias.front() = config_.options.router_bias;
  }
  Result<MoeLayer> made = MoeLayer::make(config,
                                         {.router = router.matrix,
                                          .router_bias = router_bias,
                                          .gate_up = gate_up_views,
                                          .down = down_views},
                                         pool_);
  if (!made.ok()) return made.error().within(below + "experts");
  return made;
}

Result<> Loader::load_shared(const std::string& below, Qwen3MoeLayer& out) {
  NIBBLE_ASSIGN_OR_RETURN(out.mlp, mlp(below + spec_.names.shared + "."));
  NIBBLE_ASSIGN_OR_RETURN(out.shared_gate, vector(below + "shared_expert_gate.weight"));
  return {};
}

Result<Qwen3MoeLayer> Loader::load_layer(std::size_t number) {
  const std::string below = fmt::format("{}layers.{}.", spec_.names.prefix, number);
  const std::string block = below + spec_.names.block + ".";
  Qwen3MoeLayer out;
  NIBBLE_ASSIGN_OR_RETURN(out.attention_norm, vector(below + "input_layernorm.weight"));
  NIBBLE_ASSIGN_OR_RETURN(out.ffn_norm, vector(below + "post_attention_layernorm.weight"));
  NIBBLE_RETURN_IF_ERROR(load_attention(below + "self_attn.", out));
  if (!spec_.layers[number].moe) {
    NIBBLE_ASSIGN_OR_RETURN(out.mlp, mlp(block));
    return out;
  }
  NIBBLE_ASSIGN_OR_RETURN(out.moe, experts(number, block));
  if (spec_.moe->shared_intermediate > 0) NIBBLE_RETURN_IF_ERROR(load_shared(block, out));
  return out;
}

Result<> Loader::load_outer(Qwen3MoeWeights& out) {
  const std::string table = spec_.names.prefix + "embed_tokens";
  NIBBLE_ASSIGN_OR_RETURN(const LoadedMatrix embedding, matrix(table));
  Result<Embedding> made = Embedding::make(embedding.matrix);
  if (!made.ok()) return made.error().within(table);
  out.embedding = std::move(*made);
  NIBBLE_ASSIGN_OR_RETURN(out.norm, vector(spec_.names.prefix + "norm.weight"));
  NIBBLE_ASSIGN_OR_RETURN(out.head, linear({spec_.tied_embeddings ? table : "lm_head"}, false));
  return {};
}

}  // namespace

Result<Qwen3MoeWeights> load_qwen3_moe(const Binding& binding, const ModelOptions& options,
                                       ThreadPool& pool) {
  Qwen3MoeWeights out;
  NIBBLE_ASSIGN_OR_RETURN(out.config, read_qwen3_moe_config(binding.checkpoint(), options));
  Result<Rope> rope = Rope::make(out.config.rope);
  if (!rope.ok()) return rope.error().within(binding.checkpoint().path());
  out.rope = std::move(*rope);
  Loader loader(binding, out.config, pool);
  NIBBLE_RETURN_IF_ERROR(loader.load_outer(out));
  for (std::size_t number = 0; number < static_cast<std::size_t>(out.config.layers); ++number) {
    NIBBLE_ASSIGN_OR_RETURN(Qwen3MoeLayer layer, loader.load_layer(number));
    out.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace nibble::engine
