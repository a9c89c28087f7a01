// Lists of module names as quantization configs write them, compiled so that asking is cheap.
//
//   ModulePatterns patterns;
//   NIBBLE_RETURN_IF_ERROR(patterns.add("lm_head"));            // a name, wherever it stands in a
//   path NIBBLE_RETURN_IF_ERROR(patterns.add("model.layers.3.self_attn*"));    // shell wildcards
//   NIBBLE_RETURN_IF_ERROR(patterns.add("re:.*mlp.gate$"));     // Python's re.match
//   patterns.matches("model.layers.3.self_attn.q_a_proj");      // true
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/regex.h"
#include "base/result.h"

namespace nibble {

class ModulePatterns {
 public:
  // A name covers each module whose dotted path contains it as whole components: "gate" covers
  // model.layers.0.mlp.gate but not ...gate_proj, "model.layers.3.mlp" all below it. A wildcard
  // pattern covers what it matches and all below that. Refuses lists so long that asking would take
  // for ever; a pattern that names its layer costs nothing for the other layers.
  Result<> add(std::string_view pattern);
  bool matches(std::string_view module) const;
  bool empty() const { return texts_.empty(); }
  // At most how many characters are compared when `asks` modules of each of `layers` layers are
  // asked for; regular expressions, whose work nobody can tell from their text, count as a
  // thousand.
  double steps(std::int64_t layers, double asks) const;
  // Matches every regular expression against every module, as long as `seconds` (CPU time) last:
  // takes what it used from them. The expression at which they ran out, or that gave up; else
  // nullptr.
  const std::string* slow_regex(const std::vector<std::string>& modules, double& seconds) const;
  const std::vector<std::string>& texts() const { return texts_; }  // as they were added

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  struct Wildcard {
    std::string pattern;
    std::string below;        // pattern + ".*", unless the pattern ends in a star
    std::size_t literal = 0;  // characters before the first wildcard, compared first
  };

  bool names_match(std::string_view module) const;
  static bool any_matches(const std::vector<Wildcard>& wildcards, std::string_view module);

  std::vector<std::string> texts_;
  std::unordered_set<std::string, Hash, std::equal_to<>> names_;
  std::unordered_map<int, std::vector<Wildcard>> of_layer_;  // "model.layers.3.mlp*"
  std::vector<Wildcard> broad_;                              // "*mlp.gate", "model.layers.3*"
  std::vector<Regex> regexes_;
};

// The number between "layers." and a dot: 3 of "model.layers.3.mlp".
std::optional<int> layer_number(std::string_view path);

// Whether a module is (part of) the routed experts: ".experts." or ".experts", not
// "shared_experts".
bool is_routed_expert(std::string_view module);

}  // namespace nibble
