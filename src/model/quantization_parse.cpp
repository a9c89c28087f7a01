// The dialects of quantization configs. Sources: ModelOpt's hf_quant_config.json and its newer form
// inside config.json, compressed-tensors' config_groups, transformers' fp8, mxfp4, awq and gptq.
#include <algorithm>
#include <fmt/core.h>

#include "base/text.h"
#include "model/algorithms.h"
#include "model/quantization.h"

namespace nibble {
namespace {

// Neither a router nor the embedding table is a linear layer that these tools convert.
const std::vector<std::string> kNeverConverted = {"gate", "router", "shared_expert_gate",
                                                  "embed_tokens"};
// transformers' quantizers keep the output layer too; of DeepSeek's fp8 checkpoints the indexer's
// head weights and the MTP projection are bf16 as well.
const std::vector<std::string> kKeptByFp8 = {"lm_head", "weights_proj", "eh_proj"};

// What config_groups beside a quant_algo state of the weights' blocks: a size unlike the format's
// where there is one, for that is what somebody must look at.
std::optional<std::int64_t> stated_group(const Json& groups, Format format) {
  std::optional<std::int64_t> stated;
  for (const auto& [name, group] : groups.as_object()) {
    const Json* weights = group.is_object() ? group.find("weights") : nullptr;
    const Json* size =
        weights != nullptr && weights->is_object() ? weights->find("group_size") : nullptr;
    if (size == nullptr || !size->is_integer()) continue;
    stated = size->as_integer();
    if (stated != block_size(format)) break;
  }
  return stated;
}

}  // namespace

class QuantizationParser {
 public:
  QuantizationParser(Format base, std::string where, std::vector<std::string>& warnings)
      : where_(std::move(where)), warnings_(warnings), out_(base) {
    out_.left_alone_ = kNeverConverted;
  }

  Result<Quantization> read_config(const Json& json);
  Result<Quantization> read_hf_quant_config(const Json& json);
  // Where the two files differ, in one sentence; "" when they agree.
  static std::string disagreement(const Quantization& config, const Quantization& hf);

 private:
  Result<> read_modelopt(const Json& json);
  Result<> read_compressed_tensors(const Json& json);
  Result<> read_fp8(const Json& json);
  Result<> read_integer(const Json& json);
  Result<> read_quantized_layers(const Json& layers);
  Result<> read_groups(const Json& groups);
  Result<> read_targets(const Json& group, const std::string& where, ModuleFormat format);
  Result<> read_kv(const Json& json);
  Result<> exclude(ObjectReader& reader, std::string_view key);
  Result<ModuleFormat> group_format(const Json& group, const std::string& where);
  void cover(Quantization::Class all, ModuleFormat format,
             std::optional<std::int64_t> group_size = std::nullopt) {
    out_.rules_.push_back({{}, all, with_base(format), group_size});
  }
  void note_group_size(ModuleFormat format, std::optional<std::int64_t> group,
                       const std::string& where);
  void leave_alone(const std::vector<std::string>& names) {
    out_.left_alone_.insert(out_.left_alone_.end(), names.begin(), names.end());
  }
  ModuleFormat with_base(ModuleFormat format) const {
    if (format.activations == Format::kBf16) format.activations = out_.base_.activations;
    return format;
  }
  Quantization finish();

  std::string where_;
  std::vector<std::string>& warnings_;
  Quantization out_;
};

// Rules that name modules are more specific than those of a whole class.
Quantization QuantizationParser::finish() {
  std::stable_partition(out_.rules_.begin(), out_.rules_.end(), [](const Quantization::Rule& rule) {
    return rule.all == Quantization::Class::kNone;
  });
  return std::move(out_);
}

Result<Quantization> QuantizationParser::read_config(const Json& json) {
  ObjectReader reader(json, where_);
  const std::string method =
      reader.string("quant_method")
          .value_or(reader.has("config_groups") ? "compressed-tensors" : "modelopt");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  out_.method_ = method;
  if (method.starts_with("modelopt")) {
    out_.method_ = "modelopt";
    NIBBLE_RETURN_IF_ERROR(read_modelopt(json));
  } else if (method == "compressed-tensors") {
    NIBBLE_RETURN_IF_ERROR(read_compressed_tensors(json));
  } else if (method == "fp8") {
    NIBBLE_RETURN_IF_ERROR(read_fp8(json));
  } else if (method == "mxfp4") {
    // transformers converts the fused experts alone, and computes in bf16.
    cover(Quantization::Class::kRoutedExperts, {Format::kMxfp4, Format::kBf16});
    NIBBLE_RETURN_IF_ERROR(exclude(reader, "modules_to_not_convert"));
  } else if (method == "awq" || method == "gptq") {
    NIBBLE_RETURN_IF_ERROR(read_integer(json));
  } else {
    return input_error(
        "{}: quant_method \"{}\" is not one that nibble reads; it reads modelopt, "
        "compressed-tensors, fp8, mxfp4, awq and gptq",
        where_, method);
  }
  return finish();
}

Result<Quantization> QuantizationParser::read_hf_quant_config(const Json& json) {
  ObjectReader reader(json, where_);
  const Json* quantization = reader.object("quantization");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  out_.method_ = "modelopt";
  if (quantization != nullptr) where_ += ": quantization";
  NIBBLE_RETURN_IF_ERROR(read_modelopt(quantization != nullptr ? *quantization : json));
  return finish();
}

Result<> QuantizationParser::read_modelopt(const Json& json) {
  if (const Json* inner = json.find("quantization"); inner != nullptr && inner->is_object()) {
    return read_modelopt(*inner);  // the old form, pasted into config.json
  }
  ObjectReader reader(json, where_);
  const std::optional<std::string> name = reader.string("quant_algo");
  std::optional<std::int64_t> group = reader.integer("group_size");
  const Json* layers = reader.object("quantized_layers");
  const Json* groups = reader.object("config_groups");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  NIBBLE_RETURN_IF_ERROR(exclude(reader, "exclude_modules"));
  NIBBLE_RETURN_IF_ERROR(exclude(reader, "ignore"));
  NIBBLE_RETURN_IF_ERROR(read_kv(json));
  if (layers != nullptr && !layers->as_object().empty()) return read_quantized_layers(*layers);
  if (name && *name != "MIXED_PRECISION") {
    NIBBLE_ASSIGN_OR_RETURN(ModuleFormat format, algorithm_format(*name, where_));
    if (!group && groups != nullptr) group = stated_group(*groups, format.weights);
    note_group_size(format, group, where_);
    if (groups != nullptr && groups->as_object().size() == 1) {
      const Json& only = groups->as_object().front().second;
      const Json* input = only.find("input_activations");
      if (input != nullptr && input->is_null()) format.activations = Format::kBf16;
    }
    cover(Quantization::Class::kLinear, format, group);
    return {};
  }
  if (groups != nullptr) return read_groups(*groups);
  if (name) {
    return input_error("{}: MIXED_PRECISION needs \"quantized_layers\" or \"config_groups\"",
                       where_);
  }
  if (!out_.kv_)
    warnings_.push_back(fmt::format("{} quantizes nothing: it has no quant_algo", where_));
  return {};
}

// The format has its own size of blocks, and is counted with that; who holds the file against the
// claim learns of it by group_size_of.
void QuantizationParser::note_group_size(ModuleFormat format, std::optional<std::int64_t> group,
                                         const std::string& where) {
  const std::optional<std::int64_t> own = block_size(format.weights);
  if (!own || !group || *group == *own) return;
  warnings_.push_back(
      fmt::format("{}: \"group_size\" is {}, but {} has groups of {}, and is counted so", where,
                  *group, to_string(format.weights), *own));
}

// {"model.layers.0.mlp.experts.0.gate_proj": {"quant_algo": "NVFP4", "group_size": 16}, ...}
Result<> QuantizationParser::read_quantized_layers(const Json& layers) {
  for (const auto& [module, entry] : layers.as_object()) {
    const std::string where = fmt::format("{}: quantized_layers: {}", where_, module);
    ObjectReader reader(entry, where);
    const std::string name = reader.require_string("quant_algo");
    const std::optional<std::int64_t> group = reader.integer("group_size");
    NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
    NIBBLE_ASSIGN_OR_RETURN(ModuleFormat format, algorithm_format(name, where));
    format = with_base(format);
    auto rule = std::find_if(out_.rules_.begin(), out_.rules_.end(), [&](const auto& known) {
      return known.format == format && known.group_size == group;
    });
    if (rule == out_.rules_.end()) {
      note_group_size(format, group, where);
      rule = out_.rules_.insert(rule, {{}, Quantization::Class::kNone, format, group});
    }
    NIBBLE_RETURN_IF_ERROR(rule->named.add(module));
  }
  return {};
}

Result<> QuantizationParser::read_compressed_tensors(const Json& json) {
  ObjectReader reader(json, where_);
  const Json* groups = reader.object("config_groups");
  if (groups == nullptr) reader.fault_at("config_groups", "is missing");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  NIBBLE_RETURN_IF_ERROR(exclude(reader, "ignore"));
  NIBBLE_RETURN_IF_ERROR(read_kv(json));
  return read_groups(*groups);
}

Result<> QuantizationParser::read_groups(const Json& groups) {
  constexpr std::size_t kMaxGroups = 256;  // each is a rule that every module is asked for
  if (groups.as_object().size() > kMaxGroups) {
    return input_error("{}: \"config_groups\" has {} groups; at most {} are read", where_,
                       groups.as_object().size(), kMaxGroups);
  }
  for (const auto& [name, group] : groups.as_object()) {
    const std::string where = fmt::format("{}: config_groups: {}", where_, name);
    NIBBLE_ASSIGN_OR_RETURN(const ModuleFormat format, group_format(group, where));
    NIBBLE_RETURN_IF_ERROR(read_targets(group, where, with_base(format)));
  }
  return {};
}

Result<> QuantizationParser::read_targets(const Json& group, const std::string& where,
                                          ModuleFormat format) {
  ObjectReader reader(group, where);
  const Json* targets = reader.array("targets");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (targets == nullptr) {  // ModelOpt leaves them out when there is one group
    cover(Quantization::Class::kLinear, format);
    return {};
  }
  Quantization::Rule named{{}, Quantization::Class::kNone, format};
  for (const Json& target : targets->as_array()) {
    if (!target.is_string()) {
      return input_error("{}: \"targets\" must hold strings, found {}", where, target.kind_name());
    }
    const std::string& text = target.as_string();
    const bool is_class = !text.empty() && text.front() >= 'A' && text.front() <= 'Z';
    if (!is_class) {
      NIBBLE_RETURN_IF_ERROR(named.named.add(text));
    } else if (text == "Linear") {
      cover(Quantization::Class::kLinear, format);
    } else if (text.find("Expert") != std::string::npos || text.find("MoE") != std::string::npos) {
      cover(Quantization::Class::kRoutedExperts, format);
    } else {
      warnings_.push_back(fmt::format(
          "{}: target \"{}\" is a class that nibble does not know; ignored", where, text));
    }
  }
  if (!named.named.empty()) out_.rules_.push_back(std::move(named));
  return {};
}

Result<ModuleFormat> QuantizationParser::group_format(const Json& group, const std::string& where) {
  ObjectReader reader(group, where);
  const Json* weights = reader.object("weights");
  const Json* input = reader.object("input_activations");
  if (weights == nullptr) reader.fault_at("weights", "is missing");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  ModuleFormat format;
  NIBBLE_ASSIGN_OR_RETURN(format.weights, tensor_format(*weights, TensorRole::kWeights,
                                                        where + ": weights", warnings_));
  if (input != nullptr) {
    NIBBLE_ASSIGN_OR_RETURN(
        format.activations,
        tensor_format(*input, TensorRole::kActivations, where + ": input_activations", warnings_));
  }
  return format;
}

Result<> QuantizationParser::read_fp8(const Json& json) {
  ObjectReader reader(json, where_);
  const std::optional<std::vector<double>> block =
      reader.numbers("weight_block_size", {.above = 0});
  const std::optional<std::string> moe = reader.string("moe_quant_algo");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (block && *block != std::vector<double>{128, 128}) {
    return input_error(
        "{}: \"weight_block_size\" is not [128, 128], the only one that nibble knows", where_);
  }
  if (moe) {
    NIBBLE_ASSIGN_OR_RETURN(const ModuleFormat format, algorithm_format(*moe, where_));
    cover(Quantization::Class::kRoutedExperts, format);
  }
  cover(Quantization::Class::kLinear, {block ? Format::kFp8Block128 : Format::kFp8, Format::kFp8});
  leave_alone(kKeptByFp8);
  NIBBLE_RETURN_IF_ERROR(exclude(reader, "modules_to_not_convert"));
  NIBBLE_RETURN_IF_ERROR(exclude(reader, "ignored_layers"));
  return exclude(reader, "ignore");
}

Result<> QuantizationParser::read_integer(const Json& json) {
  ObjectReader reader(json, where_);
  const std::int64_t bits = reader.integer("bits").value_or(reader.integer("w_bit").value_or(4));
  const std::int64_t group = reader.integer("group_size").value_or(128);
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (bits != 4 && bits != 8) {
    return input_error("{}: \"bits\" is {}; nibble knows 4 and 8", where_, bits);
  }
  if (bits == 4) note_integer_groups(group, where_, warnings_);
  cover(Quantization::Class::kLinear,
        {bits == 4 ? Format::kInt4Group128 : Format::kInt8, Format::kBf16});
  leave_alone({"lm_head"});
  return exclude(reader, "modules_to_not_convert");
}

// "kv_cache_quant_algo": "FP8", or "kv_cache_scheme": {"num_bits": 8, "type": "float"}.
Result<> QuantizationParser::read_kv(const Json& json) {
  ObjectReader reader(json, where_);
  const std::optional<std::string> name = reader.string("kv_cache_quant_algo");
  const Json* scheme = reader.object("kv_cache_scheme");
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (scheme != nullptr) {
    NIBBLE_ASSIGN_OR_RETURN(out_.kv_, tensor_format(*scheme, TensorRole::kActivations,
                                                    where_ + ": kv_cache_scheme", warnings_));
  } else if (name) {
    if (const auto known = algorithm_format(*name, where_); known.ok()) {
      out_.kv_ = known->weights;
    } else if (*name == "INT8") {
      out_.kv_ = Format::kInt8;
    } else if (to_lower(*name) != "none") {
      warnings_.push_back(
          fmt::format("{}: kv_cache_quant_algo \"{}\" is not known; ignored", where_, *name));
    }
  }
  return {};
}

Result<> QuantizationParser::exclude(ObjectReader& reader, std::string_view key) {
  const Json* list = reader.array(key);
  NIBBLE_RETURN_IF_ERROR(reader.finish_lenient());
  if (list == nullptr) return {};
  for (const Json& item : list->as_array()) {
    if (!item.is_string()) {
      return input_error("{}: \"{}\" must hold strings, found {}", where_, key, item.kind_name());
    }
    if (auto added = out_.excluded_.add(item.as_string()); !added.ok()) {
      return added.error().within(fmt::format("{}: \"{}\"", where_, key));
    }
  }
  return {};
}

namespace {

std::vector<std::string> compared_modules() {
  // One module of each kind, in a dense, a middle and a late layer: what the lists mean is
  // compared, not how they are written.
  std::vector<std::string> modules = {"lm_head"};
  for (const int layer : {0, 5, 20}) {
    for (const char* module : {"self_attn.q_proj", "self_attn.q_a_proj", "self_attn.o_proj",
                               "mlp.gate_proj", "mlp.experts.0.gate_proj",
                               "mlp.shared_experts.gate_proj", "mlp.shared_expert.gate_proj"}) {
      modules.push_back(fmt::format("model.layers.{}.{}", layer, module));
    }
  }
  return modules;
}

}  // namespace

std::string QuantizationParser::disagreement(const Quantization& config, const Quantization& hf) {
  // Regular expressions that are slow here are refused when the whole model is asked for.
  const std::vector<std::string> modules = compared_modules();
  if (config.slow_regex(modules) != nullptr || hf.slow_regex(modules) != nullptr) return "";
  for (const std::string& module : modules) {
    const ModuleFormat ours = config.format_of(module);
    const ModuleFormat theirs = hf.format_of(module);
    if (ours == theirs) continue;
    return fmt::format(
        "config.json says that {} is {} x {}, hf_quant_config.json says {} x {}; config.json is "
        "followed",
        module, to_string(ours.weights), to_string(ours.activations), to_string(theirs.weights),
        to_string(theirs.activations));
  }
  if (config.kv_ && hf.kv_ && *config.kv_ != *hf.kv_) {
    return fmt::format(
        "config.json says that the KV cache is {}, hf_quant_config.json says {}; config.json is "
        "followed",
        to_string(*config.kv_), to_string(*hf.kv_));
  }
  return "";
}

Result<Quantization> Quantization::parse(const Json* quantization_config,
                                         const Json* hf_quant_config, Format base,
                                         std::string_view where, std::string_view hf_where,
                                         std::int64_t layers, std::vector<std::string>& warnings) {
  std::optional<Quantization> config, hf;
  if (quantization_config != nullptr) {
    QuantizationParser parser(base, std::string(where), warnings);
    NIBBLE_ASSIGN_OR_RETURN(config, parser.read_config(*quantization_config));
    NIBBLE_RETURN_IF_ERROR(config->check_work(layers, where));
  }
  if (hf_quant_config != nullptr) {
    QuantizationParser parser(base, std::string(hf_where), warnings);
    NIBBLE_ASSIGN_OR_RETURN(hf, parser.read_hf_quant_config(*hf_quant_config));
    NIBBLE_RETURN_IF_ERROR(hf->check_work(layers, hf_where));
  }
  if (config && hf) {
    std::string text = QuantizationParser::disagreement(*config, *hf);
    if (!text.empty()) warnings.push_back(std::move(text));
    if (!config->kv_) config->kv_ = hf->kv_;
  }
  if (config) return std::move(*config);
  if (hf) return std::move(*hf);
  return Quantization(base);
}

}  // namespace nibble
