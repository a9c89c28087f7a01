// Regular expressions as Python's `re` and Perl write them, by PCRE2, with a bound on the work of a
// match, so that no pattern of a file can make the program hang.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Regex regex, Regex::compile(".*self_attn.*"));
//   regex.matches_start("model.layers.0.self_attn.o_proj");   // as Python's re.match
//
//   NIBBLE_ASSIGN_OR_RETURN(const SearchRegex words, SearchRegex::compile("\\p{L}+"));
//   SearchRegex::Workspace workspace;
//   words.find("grüße an alle", 0, workspace);   // 0 to 7: bytes, one match after the other
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
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

// Searches UTF-8 text by characters and Unicode classes. Compiled to machine code where the
// processor allows it; one object may be used by many threads.
class SearchRegex {
 public:
  struct Match {
    std::size_t begin = 0;  // bytes
    std::size_t end = 0;
  };
  // What a search needs beside the pattern; one a thread, for any number of patterns.
  class Workspace {
   public:
    Workspace();
    Workspace(Workspace&&) noexcept;
    Workspace& operator=(Workspace&&) noexcept;
    ~Workspace();

   private:
    friend class SearchRegex;
    struct Memory;
    std::unique_ptr<Memory> memory_;
  };

  // The error names the pattern and the place of its fault.
  static Result<SearchRegex> compile(std::string_view pattern);

  // The first match that begins at byte `from` or later. `text` must be valid UTF-8 and `from` lie
  // between two characters of it. An error when the bound on the work, some steps for each byte of
  // the text, is exceeded.
  Result<std::optional<Match>> find(std::string_view text, std::size_t from,
                                    Workspace& workspace) const;

 private:
  struct Code;
  explicit SearchRegex(std::shared_ptr<const Code> code);

  std::shared_ptr<const Code> code_;
};

}  // namespace nibble
