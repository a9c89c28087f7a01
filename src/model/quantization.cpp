#include "model/quantization.h"

#include <algorithm>
#include <fmt/core.h>
#include <map>
#include <utility>

namespace nibble {
namespace {

// A pattern with its layer number taken out: "model.layers." + 12 + ".mlp.gate".
struct Folded {
  std::string before, after;
  std::vector<int> layers;  // none: the pattern has no layer number, and is `before` alone
};

Folded fold(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = name.find(kLayers);
  if (at == std::string_view::npos) return {std::string(name), "", {}};
  const std::size_t digits = at + kLayers.size();
  std::size_t end = digits;
  int layer = 0;
  while (end < name.size() && name[end] >= '0' && name[end] <= '9' && end < digits + 6) {
    layer = layer * 10 + (name[end++] - '0');
  }
  if (end == digits) return {std::string(name), "", {}};
  return {std::string(name.substr(0, digits)), std::string(name.substr(end)), {layer}};
}

// {0, 1, 2, 5} -> "{0-2,5}", a single number as itself.
std::string number_set(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  if (numbers.size() == 1) return std::to_string(numbers.front());
  std::string text;
  constexpr int kMostRuns = 4;
  int runs = 0;
  for (std::size_t i = 0; i < numbers.size(); ++runs) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] <= numbers[last] + 1) ++last;
    if (runs == kMostRuns) {
      text += ",...";
      break;
    }
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (numbers[last] > numbers[i]) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return "{" + text + "}";
}

// A list with one entry a layer reads as one pattern; at most `most` patterns, then how many more.
std::string list_patterns(const std::vector<std::string>& texts, std::size_t most) {
  std::vector<Folded> patterns;
  std::map<std::pair<std::string, std::string>, std::size_t> seen;
  for (const std::string& text : texts) {
    Folded folded = fold(text);
    const auto [entry, is_new] = seen.try_emplace({folded.before, folded.after}, patterns.size());
    if (is_new) {
      patterns.push_back(std::move(folded));
    } else if (!folded.layers.empty()) {
      patterns[entry->second].layers.push_back(folded.layers.front());
    }
  }
  std::string line;
  for (std::size_t i = 0; i < patterns.size() && i < most; ++i) {
    const Folded& pattern = patterns[i];
    line += (i == 0 ? "" : ", ") + pattern.before;
    if (!pattern.layers.empty()) line += number_set(pattern.layers) + pattern.after;
  }
  if (patterns.size() > most) line += fmt::format(" and {} more", patterns.size() - most);
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

const std::string* Quantization::slow_regex(const std::vector<std::string>& modules) const {
  double seconds = 0.2;  // honest lists take a hundredth of it
  if (const std::string* slow = excluded_.slow_regex(modules, seconds)) return slow;
  for (const Rule& rule : rules_) {
    if (const std::string* slow = rule.named.slow_regex(modules, seconds)) return slow;
  }
  return nullptr;
}

// Loading a model asks for every module of every layer, about twenty a layer.
Result<> Quantization::check_work(std::int64_t layers, std::string_view where) const {
  constexpr double kAsks = 20;
  constexpr double kMaxSteps = 2e8;  // some tenths of a second; the longest real list takes 2e7
  double steps = excluded_.steps(layers, kAsks);
  for (const Rule& rule : rules_) steps += rule.named.steps(layers, kAsks);
  if (steps <= kMaxSteps) return {};
  return input_error(
      "{}: matching its module patterns against {} layers takes up to {:.1e} steps, more than the "
      "{:.0e} that nibble spends; list fewer or shorter patterns, or whole module names",
      where, layers, steps, kMaxSteps);
}

const Quantization::Rule* Quantization::rule_of(std::string_view module) const {
  if (rules_.empty() || excluded_.matches(module)) return nullptr;
  for (const Rule& rule : rules_) {
    if (rule.named.matches(module)) return &rule;
    if (rule.all == Class::kNone || is_left_alone(module)) continue;
    if (rule.all == Class::kLinear || is_routed_expert(module)) return &rule;
  }
  return nullptr;
}

ModuleFormat Quantization::format_of(std::string_view module) const {
  const Rule* rule = rule_of(module);
  return rule != nullptr ? rule->format : base_;
}

std::optional<std::int64_t> Quantization::group_size_of(std::string_view module) const {
  const Rule* rule = rule_of(module);
  return rule != nullptr ? rule->group_size : std::nullopt;
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
