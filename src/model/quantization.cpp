#include "model/quantization.h"

#include <fmt/core.h>

#include <algorithm>

namespace nibble {
namespace {

// "model.layers.12.mlp.gate" -> "model.layers.*.mlp.gate", so that a list with one entry a layer
// reads as one.
std::string fold_layer_number(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = name.find(kLayers);
  if (at == std::string_view::npos) return std::string(name);
  const std::size_t digits = at + kLayers.size();
  std::size_t end = digits;
  while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
  if (end == digits || end == name.size() || name[end] != '.') return std::string(name);
  return std::string(name.substr(0, digits)) + "*" + std::string(name.substr(end));
}

// At most `most` different patterns, then how many more there are.
std::string list_patterns(const std::vector<std::string>& texts, std::size_t most) {
  std::vector<std::string> folded;
  for (const std::string& text : texts) {
    std::string name = fold_layer_number(text);
    if (std::find(folded.begin(), folded.end(), name) == folded.end() && folded.size() <= 64) {
      folded.push_back(std::move(name));
    }
  }
  std::string line;
  for (std::size_t i = 0; i < folded.size() && i < most; ++i) {
    line += (i == 0 ? "" : ", ") + folded[i];
  }
  if (folded.size() > most) line += fmt::format(" and {} more", folded.size() - most);
  return line;
}

std::string describe(const ModuleFormat& format) {
  return fmt::format("{} x {}", to_string(format.weights), to_string(format.activations));
}

}  // namespace

bool Quantization::is_left_alone(std::string_view module) const {
  const std::size_t dot = module.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? module : module.substr(dot + 1);
  return std::find(left_alone_.begin(), left_alone_.end(), last) != left_alone_.end();
}

ModuleFormat Quantization::format_of(std::string_view module) const {
  if (rules_.empty() || excluded_.matches(module)) return base_;
  for (const Rule& rule : rules_) {
    if (rule.named.matches(module)) return rule.format;
    if (rule.all == Class::kNone || is_left_alone(module)) continue;
    if (rule.all == Class::kLinear || is_routed_expert(module)) return rule.format;
  }
  return base_;
}

std::string Quantization::summary() const {
  if (rules_.empty()) return fmt::format("{}, not quantized", to_string(base_.weights));
  std::string line;
  for (const Rule& rule : rules_) {
    std::string scope = list_patterns(rule.named.texts(), 4);
    if (rule.all == Class::kLinear) scope += scope.empty() ? "linear layers" : " and linear layers";
    if (rule.all == Class::kRoutedExperts) {
      scope += scope.empty() ? "routed experts" : " and routed experts";
    }
    line += fmt::format("{}{} on {}", line.empty() ? "" : "; ", describe(rule.format), scope);
  }
  line += fmt::format(" ({})", method_);
  if (!excluded_.empty()) line += ", except " + list_patterns(excluded_.texts(), 6);
  if (kv_) line += fmt::format("; KV cache {}", to_string(*kv_));
  return line;
}

}  // namespace nibble
