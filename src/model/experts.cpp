#include "model/experts.h"

#include <algorithm>
#include <fmt/core.h>

#include "base/text.h"
#include "model/fields.h"

namespace nibble {
namespace {

// Fields that only models with experts set above 0.
struct CountField {
  std::string_view key;
  const NumberRange& range;
};
constexpr CountField kCountFields[] = {
    {"num_experts_per_tok", bounds::kExperts},
    {"experts_per_token", bounds::kExperts},
    {"moe_topk", bounds::kExperts},
    {"moe_intermediate_size", bounds::kWidth},
    {"n_shared_experts", bounds::kCount},
    {"num_shared_experts", bounds::kCount},
    {"shared_expert_intermediate_size", bounds::kWidth},
    {"shared_intermediate_size", bounds::kWidth},
};

bool is_sparse_entry(const Json& entry) {
  if (entry.is_string()) return entry.as_string() == "sparse";
  return entry.is_number() && entry.as_number() != 0;
}

// Lists with one entry a layer: a single layer with experts is enough.
bool lists_experts(ObjectReader& reader, std::string_view key) {
  const Json* list = reader.any(key);
  return list != nullptr && list->is_array() &&
         std::any_of(list->as_array().begin(), list->as_array().end(), is_sparse_entry);
}

}  // namespace

std::optional<std::string> sign_of_experts(ObjectReader& reader, const Family& family,
                                           const std::vector<std::string>& names,
                                           std::int64_t layers) {
  for (const CountField& field : kCountFields) {
    const std::int64_t value = either(reader, {field.key}, field.range).value_or(0);
    if (value > 0) return fmt::format("\"{}\" is {}", field.key, value);
  }
  // A dense prefix of all layers leaves none for experts.
  const std::int64_t prefix = either(reader, {"first_k_dense_replace"}, bounds::kCount).value_or(0);
  if (prefix > 0 && prefix < layers) {
    return fmt::format("\"first_k_dense_replace\" is {}", prefix);
  }
  for (const std::string_view key : {"mlp_layer_types", "moe_layer_freq"}) {
    if (lists_experts(reader, key)) return fmt::format("\"{}\" has layers with experts", key);
  }
  const Json* numbered = reader.any("moe_layers");
  if (numbered != nullptr && numbered->is_array() && !numbered->as_array().empty()) {
    return "\"moe_layers\" names layers";
  }
  for (const std::string& name : names) {
    if (to_lower(name).find("moe") != std::string::npos) {
      return fmt::format("the architecture is {}", name);
    }
  }
  if (family.always_sparse()) {
    return fmt::format("every model of type {} has experts", family.model_type);
  }
  return std::nullopt;
}

std::string_view expert_count_field(const Family& family) {
  if (family.model_type.starts_with("qwen")) return "num_experts";
  if (family.layout != Family::Layout::kPlain) return "num_local_experts";
  return "n_routed_experts";
}

}  // namespace nibble
