// Regular expressions as Python's `re` and Perl write them, by PCRE2, with a bound on the work of a
// match, so that no pattern of a file can make the program hang.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Regex regex, Regex::compile(".*self_attn.*"));
//   regex.matches_start("model.layers.0.self_attn.o_proj");   // as Python's re.match
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nibble {

class Regex {
 public:
  // The error names the pattern and the place of its fault.
  static Result<Regex> compile(std::string_view pattern);

  // Whether some prefix of `text` matches. A match that exceeds the bound is given up on and
  // counts as none; gave_up() says whether that has happened.
  bool matches_start(std::string_view text) const;
  bool gave_up() const;
  const std::string& pattern() const { return pattern_; }

 private:
  struct Code;  // hides pcre2.h
  Regex(std::string pattern, std::shared_ptr<Code> code);

  std::string pattern_;
  std::shared_ptr<Code> code_;  // shared by copies: compiled once, never changed
};

}  // namespace nibble
