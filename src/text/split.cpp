#include "text/split.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "text/pattern.h"

namespace nibble::text {

const std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

// One match after the other. An empty match right behind another match is passed over, as
// Oniguruma's iterator does it.
class Matches {
 public:
  Matches(const SearchRegex& regex, std::string_view text, SearchRegex::Workspace& workspace)
      : regex_(regex), text_(text), workspace_(workspace) {}

  Result<std::optional<SearchRegex::Match>> next() {
    while (from_ <= text_.size()) {
      NIBBLE_ASSIGN_OR_RETURN(const auto match, regex_.find(text_, from_, workspace_));
      if (!match) break;
      const bool again = match->begin == match->end && last_end_ == match->end;
      from_ = match->end;
      last_end_ = match->end;
      if (!again) return match;
      if (from_ == text_.size()) break;
      static_cast<void>(next_character(text_, from_));
    }
    from_ = text_.size() + 1;
    return std::optional<SearchRegex::Match>();
  }

 private:
  const SearchRegex& regex_;
  std::string_view text_;
  SearchRegex::Workspace& workspace_;
  std::size_t from_ = 0;
  std::optional<std::size_t> last_end_;
};

}  // namespace

struct SplitRule::Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_match = false;
};

SplitRule::SplitRule(SearchRegex regex, SplitBehavior behavior, bool invert)
    : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

Result<SplitRule> SplitRule::make(std::string_view pattern, SplitBehavior behavior, bool invert) {
  NIBBLE_ASSIGN_OR_RETURN(const std::string translated, translate_pattern(pattern));
  NIBBLE_ASSIGN_OR_RETURN(SearchRegex regex, SearchRegex::compile(translated));
  return SplitRule(std::move(regex), behavior, invert);
}

// Matches and what lies between them, in order.
Result<std::vector<SplitRule::Span>> SplitRule::spans(std::string_view text,
                                                      SearchRegex::Workspace& workspace) const {
  std::vector<Span> found;
  std::size_t reached = 0;
  Matches matches(regex_, text, workspace);
  while (true) {
    NIBBLE_ASSIGN_OR_RETURN(const auto match, matches.next());
    if (!match) break;
    if (match->begin > reached) found.push_back({reached, match->begin, invert_});
    found.push_back({match->begin, match->end, !invert_});
    reached = match->end;
  }
  if (reached < text.size()) found.push_back({reached, text.size(), invert_});
  return found;
}

Result<> SplitRule::isolate(std::string_view text, SearchRegex::Workspace& workspace,
                            std::vector<std::string_view>& pieces) const {
  std::size_t reached = 0;
  Matches matches(regex_, text, workspace);
  while (true) {
    NIBBLE_ASSIGN_OR_RETURN(const auto match, matches.next());
    if (!match) break;
    if (match->begin > reached) pieces.push_back(text.substr(reached, match->begin - reached));
    if (match->end > match->begin) {
      pieces.push_back(text.substr(match->begin, match->end - match->begin));
    }
    reached = match->end;
  }
  if (reached < text.size()) pieces.push_back(text.substr(reached));
  return {};
}

namespace {

// A match joins the span before it, unless that one is a match too. Backwards over reversed spans
// this is "merged with next".
template <class Iterator, class Join>
auto join_matches(Iterator first, Iterator last, Join join) {
  std::vector<typename std::iterator_traits<Iterator>::value_type> joined;
  bool after_match = false;
  for (auto span = first; span != last; ++span) {
    if (span->is_match && !after_match && !joined.empty()) {
      join(joined.back(), *span);
    } else {
      joined.push_back(*span);
    }
    after_match = span->is_match;
  }
  return joined;
}

}  // namespace

Result<> SplitRule::apply(std::string_view text, SearchRegex::Workspace& workspace,
                          std::vector<std::string_view>& pieces) const {
  // Isolated needs no list of spans: which of them are matches does not matter.
  if (behavior_ == SplitBehavior::kIsolated) return isolate(text, workspace, pieces);
  NIBBLE_ASSIGN_OR_RETURN(std::vector<Span> found, spans(text, workspace));
  const auto append = [](Span& span, const Span& next) { span.end = next.end; };
  const auto prepend = [](Span& span, const Span& before) { span.begin = before.begin; };
  if (behavior_ == SplitBehavior::kRemoved) {
    std::erase_if(found, [](const Span& span) { return span.is_match; });
  } else if (behavior_ == SplitBehavior::kMergedWithPrevious) {
    found = join_matches(found.begin(), found.end(), append);
  } else if (behavior_ == SplitBehavior::kMergedWithNext) {
    found = join_matches(found.rbegin(), found.rend(), prepend);
    std::reverse(found.begin(), found.end());
  } else {
    std::vector<Span> joined;
    for (const Span& span : found) {
      if (!joined.empty() && joined.back().is_match == span.is_match) {
        joined.back().end = span.end;
      } else {
        joined.push_back(span);
      }
    }
    found = std::move(joined);
  }
  for (const Span& span : found) {
    if (span.end > span.begin) pieces.push_back(text.substr(span.begin, span.end - span.begin));
  }
  return {};
}

}  // namespace nibble::text
