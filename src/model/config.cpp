#include "model/config.h"

#include <algorithm>
#include <array>
#include <fmt/core.h>

#include "model/experts.h"
#include "model/family.h"
#include "model/fields.h"
#include "model/layers.h"

namespace nibble {
namespace {

constexpr std::array<std::string_view, 3> kExpertCounts = {"n_routed_experts", "num_experts",
                                                           "num_local_experts"};

// Multimodal models keep the language model's fields in an object of their own.
struct Nested {
  std::string_view key;
  const Json* json = nullptr;
};

Nested language_part(const Json& config) {
  if (config.find("hidden_size") != nullptr) return {"", &config};
  for (const std::string_view key : {"text_config", "llm_config", "language_config"}) {
    const Json* found = config.find(key);
    if (found != nullptr && found->is_object()) return {key, found};
  }
  return {"", &config};
}

// A field of the language model's object, else of the whole file's.
const Json* inner_or_outer(const Json& inner, const Json& outer, std::string_view key) {
  const Json* found = inner.find(key);
  if (found == nullptr || found->is_null()) found = outer.find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::string text_field(const Json& inner, const Json& outer, std::string_view key) {
  const Json* found = inner_or_outer(inner, outer, key);
  return found != nullptr && found->is_string() ? found->as_string() : "";
}

struct ExpertPair {
  std::string counted;
  std::string other;
};

class ModelParser {
 public:
  ModelParser(const Json& config, std::string_view where, std::string_view hf_where)
      : outer_(config),
        part_(language_part(config)),
        file_(where),
        hf_file_(hf_where),
        reader_(*part_.json,
                part_.key.empty() ? std::string(where) : fmt::format("{}: {}", where, part_.key)) {}

  Result<ModelSpec> parse(const Json* hf_quant_config, std::string name);

 private:
  void read_identity();
  void read_sizes();
  void read_attention();
  void read_mla();
  void read_indexer();
  void read_heads();
  void read_head_dim();
  void read_experts();
  void require_no_experts(std::optional<std::int64_t> count);
  void read_shared_experts();
  void read_router();
  Result<> read_quantization(const Json* hf_quant_config);
  void check_experts_alike();
  std::vector<ExpertPair> expert_pairs(std::size_t layer) const;
  Result<> check_patterns();

  bool flag(std::string_view key) { return reader_.boolean(key).value_or(false); }

  const Json& outer_;
  Nested part_;
  std::string file_;
  std::string hf_file_;
  ObjectReader reader_;
  Family family_;
  std::int64_t layers_ = 0;
  ModelSpec spec_;
};

void ModelParser::read_identity() {
  const std::string type = text_field(*part_.json, outer_, "model_type");
  const Json* architectures = inner_or_outer(outer_, *part_.json, "architectures");
  spec_.architecture = type;
  if (architectures != nullptr && architectures->is_array() && !architectures->as_array().empty() &&
      architectures->as_array().front().is_string()) {
    spec_.architecture = architectures->as_array().front().as_string();
  }
  if (const Family* known = find_family(type)) {
    family_ = *known;
  } else {
    spec_.warnings.push_back(
        fmt::format("{}: model_type \"{}\" is not known; the model is read by its fields alone, so "
                    "biases and norms may be missed",
                    file_, type));
  }
  spec_.names = module_names(family_.layout);
  if (part_.key.empty()) return;
  // Qwen's multimodal checkpoints put the language model inside "model.", all others outside.
  spec_.names.prefix = type.starts_with("qwen") ? "model.language_model." : "language_model.model.";
  if (outer_.find("vision_config") != nullptr) {
    spec_.warnings.push_back(
        fmt::format("{}: the vision part is not counted, only the language model", file_));
  }
}

void ModelParser::read_sizes() {
  spec_.hidden = reader_.require_integer("hidden_size", bounds::kHidden);
  layers_ = reader_.require_integer("num_hidden_layers", bounds::kLayers);
  spec_.vocabulary = reader_.require_integer("vocab_size", bounds::kVocabulary);
  spec_.max_context = reader_.integer("max_position_embeddings", bounds::kTokens).value_or(0);
  const Json* tied = inner_or_outer(*part_.json, outer_, "tie_word_embeddings");
  spec_.tied_embeddings = tied != nullptr && tied->is_bool() && tied->as_bool();
  spec_.mtp_layers =
      either(reader_, {"num_nextn_predict_layers", "mtp_num_hidden_layers"}, bounds::kCount)
          .value_or(0);
  if (reader_.has("mtp_num_hidden_layers")) spec_.names.mtp_prefix = "mtp.layers.";
}

void ModelParser::read_attention() {
  AttentionSpec& attention = spec_.attention;
  attention.heads = reader_.require_integer("num_attention_heads", bounds::kHeads);
  const std::int64_t latent = reader_.integer("kv_lora_rank", bounds::kWidth).value_or(0);
  if (latent > 0) {
    attention.kv_lora_rank = latent;
    read_mla();
  } else {
    read_heads();
  }
}

void ModelParser::read_mla() {
  AttentionSpec& attention = spec_.attention;
  attention.kind = AttentionKind::kMla;
  attention.q_lora_rank = reader_.integer("q_lora_rank", bounds::kWidth).value_or(0);
  attention.qk_nope_head_dim = reader_.require_integer("qk_nope_head_dim", bounds::kHeadDim);
  attention.qk_rope_head_dim = reader_.require_integer("qk_rope_head_dim", bounds::kHeadDim);
  attention.v_head_dim = reader_.require_integer("v_head_dim", bounds::kHeadDim);
  read_indexer();
}

void ModelParser::read_indexer() {
  const auto top_k = reader_.integer("index_topk", bounds::kTokens);
  if (!top_k && family_.index_heads == 0) return;
  if (!top_k) {
    spec_.warnings.push_back(
        fmt::format("{}: \"index_topk\" is missing; the sparse attention of {} is assumed to have "
                    "its defaults, 2048 tokens and {} heads of 128",
                    file_, spec_.architecture, family_.index_heads));
  }
  const std::int64_t default_heads = family_.index_heads > 0 ? family_.index_heads : 64;
  spec_.attention.indexer =
      IndexerSpec{.heads = reader_.integer("index_n_heads", bounds::kHeads).value_or(default_heads),
                  .head_dim = reader_.integer("index_head_dim", bounds::kHeadDim).value_or(128),
                  .top_k = top_k.value_or(2048)};
}

void ModelParser::read_head_dim() {
  AttentionSpec& attention = spec_.attention;
  const std::int64_t heads = attention.heads;
  constexpr std::string_view kWhyEven = "rotary embeddings need an even number";
  if (const auto head_dim = reader_.integer("head_dim", bounds::kHeadDim)) {
    attention.head_dim = *head_dim;
    if (*head_dim % 2 != 0)
      reader_.fault_at("head_dim", fmt::format("is {}; {}", *head_dim, kWhyEven));
    return;
  }
  if (spec_.hidden % heads != 0) {
    reader_.fault_at("head_dim",
                     fmt::format("is missing, and hidden_size, {}, is not a multiple of "
                                 "num_attention_heads, {}",
                                 spec_.hidden, heads));
    return;
  }
  attention.head_dim = spec_.hidden / heads;
  if (attention.head_dim % 2 != 0) {
    reader_.fault_at("head_dim",
                     fmt::format("is missing, and hidden_size / num_attention_heads = {} / {} = {} "
                                 "is odd; {}",
                                 spec_.hidden, heads, attention.head_dim, kWhyEven));
  }
}

void ModelParser::read_heads() {
  AttentionSpec& attention = spec_.attention;
  const std::int64_t heads = attention.heads;
  attention.kv_heads = reader_.integer("num_key_value_heads", bounds::kHeads).value_or(heads);
  if (heads < 1 || attention.kv_heads < 1) return;  // already a fault
  if (heads % attention.kv_heads != 0) {
    reader_.fault_at("num_key_value_heads",
                     fmt::format("is {}, which does not divide num_attention_heads, {}",
                                 attention.kv_heads, heads));
  }
  attention.kind = heads == attention.kv_heads ? AttentionKind::kMha : AttentionKind::kGqa;
  read_head_dim();
  const bool bias = flag("attention_bias");
  attention.qkv_bias = bias || family_.qkv_bias || flag("qkv_bias");
  attention.output_bias = bias && family_.output_bias;
  attention.qk_norm = family_.qk_norm || flag("use_qk_norm");
  attention.qk_norm_whole = family_.model_type == "minimax_m2";
  attention.qk_norm_weights = family_.layout != Family::Layout::kFeedForward;
  attention.sinks = family_.layout == Family::Layout::kFused;
}

// Without a count the model is dense; a configuration that speaks of experts must then be broken.
void ModelParser::require_no_experts(std::optional<std::int64_t> count) {
  const std::vector<std::string> names = {spec_.architecture,
                                          text_field(*part_.json, outer_, "model_type")};
  const auto sign = sign_of_experts(reader_, family_, names, layers_);
  if (!sign) return;
  std::string_view key = expert_count_field(family_);
  for (const std::string_view name : kExpertCounts) {
    if (count && reader_.has(name)) key = name;
  }
  reader_.fault_at(key, fmt::format("is {}, but {}; give the number of routed experts",
                                    count ? "0" : "missing", *sign));
}

void ModelParser::read_experts() {
  const auto experts =
      either(reader_, {kExpertCounts[0], kExpertCounts[1], kExpertCounts[2]}, bounds::kExperts);
  if (experts.value_or(0) == 0) {
    require_no_experts(experts);
    return;
  }
  MoeSpec moe;
  moe.experts = *experts;
  const auto top_k =
      either(reader_, {"num_experts_per_tok", "experts_per_token", "moe_topk"}, bounds::kExperts);
  if (top_k.value_or(0) == 0) {
    reader_.fault_at("num_experts_per_tok",
                     fmt::format("is missing, but the model has {} experts", moe.experts));
  } else if (*top_k > moe.experts) {
    reader_.fault_at("num_experts_per_tok",
                     fmt::format("is {}, more than the {} experts", *top_k, moe.experts));
  }
  moe.top_k = top_k.value_or(1);
  auto width = either(reader_, {"moe_intermediate_size"}, bounds::kWidth);
  if (!width) width = either(reader_, {"intermediate_size"}, bounds::kWidth);
  if (width.value_or(0) == 0) {
    reader_.fault_at("moe_intermediate_size", "is missing, and so is intermediate_size");
  }
  moe.intermediate = width.value_or(0);
  moe.expert_bias = family_.layout == Family::Layout::kFused;
  spec_.moe = moe;
  read_shared_experts();
  read_router();
}

void ModelParser::read_shared_experts() {
  MoeSpec& moe = *spec_.moe;
  const auto count = either(reader_, {"n_shared_experts", "num_shared_experts"}, bounds::kCount);
  const auto width = either(
      reader_, {"shared_expert_intermediate_size", "shared_intermediate_size"}, bounds::kWidth);
  if (width.value_or(0) > 0) {  // of all shared experts together
    moe.shared_experts = std::max<std::int64_t>(count.value_or(1), 1);
    moe.shared_intermediate = *width;
    return;
  }
  // Llama-4's code has one shared expert without a field that says so.
  const bool always_one = family_.layout == Family::Layout::kFeedForward;
  moe.shared_experts = count.value_or(always_one ? 1 : 0);
  moe.shared_intermediate = moe.shared_experts * moe.intermediate;
}

void ModelParser::read_router() {
  RouterSpec& router = spec_.moe->router;
  const std::string scoring =
      reader_.string("scoring_func").value_or(family_.sigmoid ? "sigmoid" : "softmax");
  router.kind = scoring == "sigmoid" ? RouterKind::kSigmoid : RouterKind::kSoftmax;
  const auto method = reader_.string("topk_method");
  router.correction_bias = reader_.boolean("use_routing_bias")
                               .value_or(method ? *method == "noaux_tc" : family_.correction_bias);
  router.renormalise = flag("norm_topk_prob");
  router.linear_bias = family_.layout == Family::Layout::kFused;
  router.groups = reader_.integer("n_group", {.min = 1, .max = 65536}).value_or(1);
  router.top_groups = reader_.integer("topk_group", {.min = 1, .max = 65536}).value_or(1);
  if (router.top_groups > router.groups) {
    reader_.fault_at("topk_group",
                     fmt::format("is {}, more than n_group, {}", router.top_groups, router.groups));
  }
}

Result<> ModelParser::read_quantization(const Json* hf_quant_config) {
  std::string type = text_field(*part_.json, outer_, "torch_dtype");
  if (type.empty()) type = text_field(*part_.json, outer_, "dtype");
  Format base = Format::kBf16;
  if (type == "float16") base = Format::kFp16;
  if (type == "float32") base = Format::kFp32;
  const Json* config = inner_or_outer(outer_, *part_.json, "quantization_config");
  NIBBLE_ASSIGN_OR_RETURN(
      spec_.quantization,
      Quantization::parse(config, hf_quant_config, base,
                          fmt::format("{}: quantization_config", file_), hf_file_,
                          layers_ + spec_.mtp_layers, spec_.warnings));
  return {};
}

// The modules of layer `i` whose formats must be alike, because the first of each pair is counted
// for both; empty when the layer's experts are one module.
std::vector<ExpertPair> ModelParser::expert_pairs(std::size_t i) const {
  if (!spec_.moe || spec_.names.fused_experts || !spec_.layers[i].moe) return {};
  const std::string up = spec_.names.gate == "w1" ? "w3" : "up_proj";
  const std::string experts =
      fmt::format("{}layers.{}.{}.experts.", spec_.names.prefix, i, spec_.names.block);
  const std::string last = std::to_string(spec_.moe->experts - 1);
  const std::string first_gate = experts + "0." + spec_.names.gate;
  const std::string first_down = experts + "0." + spec_.names.down;
  return {{first_gate, experts + "0." + up},
          {first_gate, experts + last + "." + spec_.names.gate},
          {first_down, experts + last + "." + spec_.names.down}};
}

void ModelParser::check_experts_alike() {
  for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
    for (const auto& [counted, other] : expert_pairs(i)) {
      const Format ours = spec_.quantization.format_of(counted).weights;
      const Format theirs = spec_.quantization.format_of(other).weights;
      if (ours == theirs) continue;
      spec_.warnings.push_back(
          fmt::format("{} is {} but {} is {}; all experts are counted as the first", counted,
                      to_string(ours), other, to_string(theirs)));
      return;
    }
  }
}

// Asks for every module once: a pattern that takes for ever must not decide a format in silence.
Result<> ModelParser::check_patterns() {
  ModelSpec plain = spec_;
  plain.quantization = Quantization();  // the names alone, without asking for their formats
  std::vector<std::string> modules;
  const auto collect = [&](const std::vector<Weight>& weights) {
    for (const Weight& weight : weights) {
      if (weight.part != Part::kSmall) modules.push_back(weight.module);
    }
  };
  for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
    collect(layer_weights(plain, i));
    for (const ExpertPair& pair : expert_pairs(i)) modules.push_back(pair.other);
  }
  collect(outer_weights(plain));
  collect(mtp_weights(plain));
  if (const std::string* pattern = spec_.quantization.slow_regex(modules)) {
    return input_error(
        "{}: quantization_config: the regular expression \"{}\" takes too long to match; "
        "write it with fewer repetitions, or list module names",
        file_, *pattern);
  }
  return {};
}

Result<ModelSpec> ModelParser::parse(const Json* hf_quant_config, std::string name) {
  NIBBLE_RETURN_IF_ERROR(reader_.finish_lenient());
  spec_.name = name;
  spec_.title = std::move(name);
  spec_.source = file_;
  read_identity();
  read_sizes();
  read_attention();
  NIBBLE_RETURN_IF_ERROR(reader_.finish_lenient());
  read_experts();
  NIBBLE_RETURN_IF_ERROR(reader_.finish_lenient());
  spec_.layers = read_layers(reader_, spec_, family_, layers_);
  NIBBLE_RETURN_IF_ERROR(reader_.finish_lenient());
  NIBBLE_RETURN_IF_ERROR(read_quantization(hf_quant_config));
  NIBBLE_RETURN_IF_ERROR(check_patterns());
  check_experts_alike();
  return std::move(spec_);
}

}  // namespace

Result<ModelSpec> parse_model(const Json& config, const Json* hf_quant_config, std::string name,
                              std::string_view where, std::string_view hf_where) {
  return ModelParser(config, where, hf_where).parse(hf_quant_config, std::move(name));
}

}  // namespace nibble
