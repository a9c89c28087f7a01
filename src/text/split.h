// Cuts text into the pieces that are then merged each for itself: the pre_tokenizer of
// tokenizer.json.
//
//   NIBBLE_ASSIGN_OR_RETURN(SplitRule rule, SplitRule::make("\\p{N}{1,3}",
//   SplitBehavior::kIsolated,
//                                                           false));
//   splitter.split("a1234", workspace, pieces);   // "a", "123", "4"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/regex.h"
#include "base/result.h"

namespace nibble::text {

// What becomes of a match of the pattern, as Hugging Face's tokenizers name it.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// The GPT-2 pattern, which ByteLevel splits by with use_regex.
extern const std::string_view kByteLevelPattern;

class SplitRule {
 public:
  // `pattern` in the words of tokenizer.json (text/pattern.h); `invert` takes what lies between
  // matches for the matches.
  static Result<SplitRule> make(std::string_view pattern, SplitBehavior behavior, bool invert);

  // Appends the pieces of `text`, which are never empty.
  Result<> apply(std::string_view text, SearchRegex::Workspace& workspace,
                 std::vector<std::string_view>& pieces) const;

 private:
  struct Span;
  SplitRule(SearchRegex regex, SplitBehavior behavior, bool invert);
  Result<std::vector<Span>> spans(std::string_view text, SearchRegex::Workspace& workspace) const;
  Result<> isolate(std::string_view text, SearchRegex::Workspace& workspace,
                   std::vector<std::string_view>& pieces) const;

  SearchRegex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

}  // namespace nibble::text
