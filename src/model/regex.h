// The regular expressions of quantization configs ("re:.*mlp[.]gate$"), matched in time linear in
// the text, so that no configuration can make the program hang.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Regex regex, Regex::compile(".*self_attn.*"));
//   regex.matches_start("model.layers.0.self_attn.o_proj");   // as Python's re.match
//
// Literals, '.', classes, groups, alternatives, * + ? {m,n}, ^ and $; look-around, backreferences
// and \b are refused.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nibble {

class Regex {
 public:
  // Places of a pattern that take one character; more are refused.
  static constexpr std::size_t kMaxPlaces = 256;

  static Result<Regex> compile(std::string_view pattern);

  // Whether some prefix of `text` matches; '$' asks for the end of the text.
  bool matches_start(std::string_view text) const;
  const std::string& pattern() const { return pattern_; }
  std::size_t size() const { return places_.size() + 1; }  // a character costs at most this

 private:
  using Places = std::array<std::uint64_t, kMaxPlaces / 64>;  // a set of places

  // A Glushkov automaton: its states are the places of the pattern.
  struct Place {
    std::bitset<257> accepts;  // characters, and 256 for the end of the text
    Places next{};
    bool last = false;  // a match may end behind it
  };

  std::string pattern_;
  std::vector<Place> places_;
  Places first_{};
  bool matches_nothing_ = false;  // the empty prefix matches

  friend class RegexBuilder;
};

}  // namespace nibble
