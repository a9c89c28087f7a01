#include "model/module_pattern.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace nibble {

namespace {

// More than real lists hold; asking the longest list for every module of 1000 layers takes seconds.
constexpr std::size_t kMaxLength = 512;
constexpr std::size_t kMaxBroad = 512;
constexpr std::size_t kMaxRegexes = 64;

}  // namespace

std::optional<int> layer_number(std::string_view path) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = path.find(kLayers);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t end = at + kLayers.size();
  int number = 0;
  for (; end < path.size() && path[end] >= '0' && path[end] <= '9'; ++end) {
    if (number > 100000) return std::nullopt;
    number = number * 10 + (path[end] - '0');
  }
  if (end == at + kLayers.size() || end == path.size() || path[end] != '.') return std::nullopt;
  return number;
}

Result<> ModulePatterns::add(std::string_view pattern) {
  if (pattern.size() > kMaxLength) {
    return input_error("a module pattern has {} characters; at most {} are read", pattern.size(),
                       kMaxLength);
  }
  texts_.emplace_back(pattern);
  if (pattern.starts_with("re:")) {
    NIBBLE_ASSIGN_OR_RETURN(Regex regex, Regex::compile(pattern.substr(3)));
    if (regexes_.size() == kMaxRegexes) {
      return input_error("the list has more than {} regular expressions", kMaxRegexes);
    }
    regexes_.push_back(std::move(regex));
    return {};
  }
  const std::size_t literal = pattern.find_first_of("*?[");
  if (literal == std::string_view::npos) {
    names_.emplace(pattern);
    return {};
  }
  Wildcard wildcard{std::string(pattern), "", literal};
  if (!pattern.ends_with('*')) wildcard.below = wildcard.pattern + ".*";
  // A pattern with "layers.3." in it, outside of sets, covers modules of layer 3 alone.
  const std::optional<int> layer =
      pattern.find('[') == std::string_view::npos ? layer_number(pattern) : std::nullopt;
  if (layer) {
    of_layer_[*layer].push_back(std::move(wildcard));
    return {};
  }
  if (broad_.size() == kMaxBroad) {
    return input_error("the list has more than {} wildcard patterns that name no layer", kMaxBroad);
  }
  broad_.push_back(std::move(wildcard));
  return {};
}

const std::string* ModulePatterns::gave_up() const {
  for (const Regex& regex : regexes_) {
    if (regex.gave_up()) return &regex.pattern();
  }
  return nullptr;
}

bool ModulePatterns::any_matches(const std::vector<Wildcard>& wildcards, std::string_view module) {
  for (const Wildcard& wildcard : wildcards) {
    const std::string_view literal = std::string_view(wildcard.pattern).substr(0, wildcard.literal);
    if (!module.starts_with(literal)) continue;
    if (glob_match(wildcard.pattern, module)) return true;
    if (!wildcard.below.empty() && glob_match(wildcard.below, module)) return true;
  }
  return false;
}

bool ModulePatterns::matches(std::string_view module) const {
  if (!names_.empty() && names_match(module)) return true;
  if (!of_layer_.empty()) {
    const std::optional<int> layer = layer_number(module);
    const auto found = layer ? of_layer_.find(*layer) : of_layer_.end();
    if (found != of_layer_.end() && any_matches(found->second, module)) return true;
  }
  return any_matches(broad_, module) ||
         std::any_of(regexes_.begin(), regexes_.end(),
                     [module](const Regex& regex) { return regex.matches_start(module); });
}

// Looks up every run of whole components: a path has about 7, so at most 28 of them.
bool ModulePatterns::names_match(std::string_view module) const {
  constexpr std::size_t kMaxComponents = 16;
  std::array<std::size_t, kMaxComponents> starts{};
  std::size_t count = 0;
  for (std::size_t at = 0; count < kMaxComponents; ++count) {
    starts[count] = at;
    const std::size_t dot = module.find('.', at);
    if (dot == std::string_view::npos) {
      ++count;
      break;
    }
    at = dot + 1;
  }
  for (std::size_t first = 0; first < count; ++first) {
    for (std::size_t next = first + 1; next <= count; ++next) {
      const std::size_t end = next == count ? module.size() : starts[next] - 1;
      if (names_.contains(module.substr(starts[first], end - starts[first]))) return true;
    }
  }
  return false;
}

bool is_routed_expert(std::string_view module) {
  return module.find(".experts.") != std::string_view::npos || module.ends_with(".experts");
}

}  // namespace nibble
