// The regular expressions of quantization configs ("re:.*mlp[.]gate$"), matched in time linear in
// the text, so that no configuration can make the program hang.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Regex regex, Regex::compile(".*self_attn.*"));
//   regex.matches_start("model.layers.0.self_attn.o_proj");   // as Python's re.match
//
// Literals, '.', classes, groups, alternatives, * + ? {m,n}, ^ and $; look-around, backreferences
// and \b are refused.
#pragma once

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
  static Result<Regex> compile(std::string_view pattern);

  // Whether some prefix of `text` matches; '$' asks for the end of the text.
  bool matches_start(std::string_view text) const;
  const std::string& pattern() const { return pattern_; }
  std::size_t size() const { return code_.size(); }  // matching costs at most this a character

  // One step of the machine. Jumps are relative, so that code can be copied.
  struct Step {
    enum class Op { kClass, kSplit, kJump, kStart, kEnd, kMatch } op = Op::kMatch;
    std::int32_t first = 0;   // kSplit, kJump
    std::int32_t second = 0;  // kSplit
    std::bitset<256> accepts;  // kClass
  };

 private:
  std::string pattern_;
  std::vector<Step> code_;
};

}  // namespace nibble
