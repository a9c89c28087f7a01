#include "model/module_pattern.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/text.h"

namespace nibble {

namespace {

// More than real lists hold; the work of a whole model is bounded by steps().
constexpr std::size_t kMaxLength = 512;
constexpr std::size_t kMaxBroad = 512;
constexpr std::size_t kMaxRegexes = 64;

// Of this thread: neighbours on a busy machine do not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

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

double ModulePatterns::steps(std::int64_t layers, double asks) const {
  constexpr double kModuleLength =
      72;                              // language_model.model.layers.99.block_sparse_moe.experts...
  constexpr double kNameSteps = 1500;  // 28 look-ups of some 50 characters
  constexpr double kRegexSteps = 1000;
  // A star is extended by one character at a time: the pattern's rest is read again for each.
  const auto of_wildcard = [](const Wildcard& wildcard) {
    const double rest = static_cast<double>(wildcard.pattern.size() - wildcard.literal) + 1;
    return 8 + rest * kModuleLength * (wildcard.below.empty() ? 1 : 2);
  };
  double one = kRegexSteps * static_cast<double>(regexes_.size());
  if (!names_.empty()) one += kNameSteps;
  for (const Wildcard& wildcard : broad_) one += of_wildcard(wildcard);
  double total = one * asks * static_cast<double>(layers);
  for (const auto& [layer, wildcards] : of_layer_) {
    if (layer >= layers) continue;
    for (const Wildcard& wildcard : wildcards) total += asks * of_wildcard(wildcard);
  }
  return total;
}

const std::string* ModulePatterns::slow_regex(const std::vector<std::string>& modules,
                                              double& seconds) const {
  if (regexes_.empty()) return nullptr;
  const double start = cpu_seconds();
  const double allowed = seconds;
  for (const Regex& regex : regexes_) {
    for (const std::string& module : modules) {
      (void)regex.matches_start(module);
      seconds = allowed - (cpu_seconds() - start);
      if (seconds < 0 || regex.gave_up()) return &regex.pattern();
    }
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
