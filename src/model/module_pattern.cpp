#include "model/module_pattern.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace nibble {

Result<> ModulePatterns::add(std::string_view pattern) {
  texts_.emplace_back(pattern);
  if (pattern.starts_with("re:")) {
    NIBBLE_ASSIGN_OR_RETURN(Regex regex, Regex::compile(pattern.substr(3)));
    regexes_.push_back(std::move(regex));
    return {};
  }
  const std::size_t literal = pattern.find_first_of("*?[");
  if (literal == std::string_view::npos) {
    names_.emplace(pattern);
  } else {
    wildcards_.push_back({std::string(pattern), std::string(pattern) + ".*", literal});
  }
  return {};
}

bool ModulePatterns::matches(std::string_view module) const {
  if (!names_.empty() && names_match(module)) return true;
  for (const Wildcard& wildcard : wildcards_) {
    const std::string_view literal = std::string_view(wildcard.pattern).substr(0, wildcard.literal);
    if (!module.starts_with(literal)) continue;
    if (glob_match(wildcard.pattern, module) || glob_match(wildcard.below, module)) return true;
  }
  return std::any_of(regexes_.begin(), regexes_.end(),
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
