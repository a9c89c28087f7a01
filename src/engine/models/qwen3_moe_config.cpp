// What config.json says beyond the ModelSpec, and what of a ModelSpec this model does not do.
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "base/names.h"
#include "checkpoint/checkpoint.h"
#include "engine/models/qwen3_moe.h"

namespace nibble::engine {
namespace {

constexpr std::size_t kMostConfigBytes = std::size_t{64} << 20;

// Every feature that a checkpoint may want and this model has not, as the sentence says it.
std::optional<std::string> unsupported_attention(const ModelSpec& spec) {
  const AttentionSpec& attention = spec.attention;
  if (attention.kind == AttentionKind::kMla) return "multi-head latent attention (MLA)";
  if (attention.indexer) return "sparse attention by an index";
  if (attention.sinks) return "attention sinks";
  if (attention.qk_norm_whole) return "a norm over all heads of queries and keys";
  if (attention.qk_norm && !attention.qk_norm_weights) return "norms of heads without weights";
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const AttentionSpan& span = spec.layers[layer].span;
    if (span.kind == SpanKind::kFull) continue;
    return fmt::format("{} of {} tokens in layer {}",
                       span.kind == SpanKind::kWindow ? "a sliding window" : "chunked attention",
                       span.tokens, layer);
  }
  return std::nullopt;
}

std::optional<std::string> unsupported_experts(const ModelSpec& spec) {
  if (!spec.moe) return std::nullopt;
  const RouterSpec& router = spec.moe->router;
  if (router.kind != RouterKind::kSoftmax) return "a router with sigmoid scores";
  if (router.correction_bias) return "a router with correction biases";
  if (router.linear_bias) return "a router with biases";
  if (router.groups > 1) return "a router with groups of experts";
  if (spec.moe->expert_bias) return "experts with biases";
  if (spec.moe->shared_intermediate > 0 && !spec.names.shared_gate) {
    return "a shared expert without a gate";
  }
  return std::nullopt;
}

constexpr Named<RopeScaling> kScalings[] = {{"default", RopeScaling::kNone},
                                            {"linear", RopeScaling::kLinear},
                                            {"yarn", RopeScaling::kYarn}};

void read_yarn(ObjectReader& reader, const ModelSpec& spec, RopeConfig& rope) {
  rope.original_context = reader.number("original_max_position_embeddings", {.above = 0})
                              .value_or(static_cast<double>(spec.max_context));
  rope.beta_fast = reader.number("beta_fast", {.above = 0}).value_or(rope.beta_fast);
  rope.beta_slow = reader.number("beta_slow", {.above = 0}).value_or(rope.beta_slow);
  rope.attention_factor = reader.number("attention_factor", {.above = 0}).value_or(0);
  rope.truncate = reader.boolean("truncate").value_or(true);
  for (const std::string_view key : {"mscale", "mscale_all_dim"}) {
    if (reader.has(key)) reader.fault_at(key, "of yarn is not supported");
  }
}

// `scaling`: "rope_parameters", or "rope_scaling" of older files, whose theta stands outside.
Result<> read_scaling(const Json& scaling, const std::string& where, const ModelSpec& spec,
                      RopeConfig& rope) {
  ObjectReader reader(scaling, where);
  rope.theta = reader.number("rope_theta", {.above = 1}).value_or(rope.theta);
  read_choice(reader, reader.has("rope_type") ? "rope_type" : "type", kScalings, rope.scaling);
  if (rope.scaling != RopeScaling::kNone) rope.factor = reader.require_number("factor", {.min = 1});
  if (rope.scaling == RopeScaling::kYarn) read_yarn(reader, spec, rope);
  if (reader.number("partial_rotary_factor").value_or(1) != 1) {
    reader.fault_at("partial_rotary_factor", "is not 1; heads are rotated whole");
  }
  return reader.finish_lenient();
}

Result<> read_rope(ObjectReader& reader, const ModelSpec& spec, RopeConfig& rope) {
  rope.head_dim = spec.attention.head_dim;
  rope.theta = reader.number("rope_theta", {.above = 1}).value_or(10000);
  if (reader.number("partial_rotary_factor").value_or(1) != 1) {
    reader.fault_at("partial_rotary_factor", "is not 1; heads are rotated whole");
  }
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const Json* scaling = reader.object(key);
    if (scaling == nullptr) continue;
    NIBBLE_RETURN_IF_ERROR(
        read_scaling(*scaling, fmt::format("{}: {}", reader.where(), key), spec, rope));
  }
  return {};
}

Result<> read_fields(const Checkpoint& checkpoint, Qwen3MoeConfig& config) {
  const std::filesystem::path path = std::filesystem::path(checkpoint.path()) / "config.json";
  NIBBLE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostConfigBytes));
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(text, path.string()));
  ObjectReader reader(json, path.string());
  config.epsilon =
      static_cast<float>(reader.number("rms_norm_eps", {.min = 0, .max = 1}).value_or(1e-6));
  const std::string activation = reader.string("hidden_act").value_or("silu");
  if (activation != "silu") {
    reader.fault_at("hidden_act", fmt::format("is \"{}\"; the experts' activation is silu",
                                              printable(activation)));
  }
  NIBBLE_RETURN_IF_ERROR(read_rope(reader, *checkpoint.model(), config.rope));
  return reader.finish_lenient();
}

Result<> check_options(const ModelOptions& options) {
  if (options.kv_format != Format::kFp32 && options.kv_format != Format::kBf16) {
    return input_error("a KV cache in {} is not supported; choose fp32 or bf16",
                       to_string(options.kv_format));
  }
  if (!is_usable(options.isa)) {
    return input_error("this processor has no {} instructions", to_string(options.isa));
  }
  for (const Format format : {Format::kFp32, Format::kBf16, Format::kInt8, Format::kNvfp4}) {
    if (options.activations == format) return {};
  }
  return input_error("activations in {} are not supported; choose fp32, bf16, int8 or nvfp4",
                     to_string(options.activations));
}

}  // namespace

Result<Qwen3MoeConfig> read_qwen3_moe_config(const Checkpoint& checkpoint,
                                             const ModelOptions& options) {
  NIBBLE_RETURN_IF_ERROR(check_options(options));
  const ModelSpec& spec = *checkpoint.model();
  for (const auto& feature : {unsupported_attention(spec), unsupported_experts(spec)}) {
    if (!feature) continue;
    return input_error("{}: {} has {}, which nibble does not serve yet", checkpoint.path(),
                       spec.architecture, *feature);
  }
  if (spec.max_context < 1) {
    return input_error("{}: config.json has no max_position_embeddings; give the longest context",
                       checkpoint.path());
  }
  if (spec.attention.head_dim > kMostHeadDim) {
    return input_error("{}: heads of {} values are not supported, at most {}", checkpoint.path(),
                       spec.attention.head_dim, kMostHeadDim);
  }
  Qwen3MoeConfig config;
  config.hidden = spec.hidden;
  config.heads = spec.attention.heads;
  config.kv_heads = spec.attention.kv_heads;
  config.head_dim = spec.attention.head_dim;
  config.layers = static_cast<std::int64_t>(spec.layers.size());
  config.options = options;
  NIBBLE_RETURN_IF_ERROR(read_fields(checkpoint, config));
  config.info = {.architecture = spec.architecture,
                 .vocabulary = spec.vocabulary,
                 .max_context = spec.max_context,
                 .kv_bytes_per_token = kv_bytes_per_token({.layers = config.layers,
                                                           .kv_heads = config.kv_heads,
                                                           .head_dim = config.head_dim,
                                                           .format = options.kv_format})};
  return config;
}

}  // namespace nibble::engine
