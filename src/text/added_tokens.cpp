#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "text/pattern_class.h"

namespace nibble::text {
namespace {

// Unicode's property White_Space (PropList.txt), which has not changed since Unicode 6.3.
bool is_white_space(char32_t character) {
  return (character >= 0x09 && character <= 0x0D) || character == 0x20 || character == 0x85 ||
         character == 0xA0 || character == 0x1680 || (character >= 0x2000 && character <= 0x200A) ||
         character == 0x2028 || character == 0x2029 || character == 0x202F || character == 0x205F ||
         character == 0x3000;
}

// Where the character that ends at byte `end` begins.
std::size_t start_of_last(std::string_view text, std::size_t end) {
  std::size_t start = end - 1;
  while (start > 0 && (static_cast<std::uint8_t>(text[start]) & 0xC0) == 0x80) --start;
  return start;
}

std::size_t white_space_begin(std::string_view text, std::size_t end, std::size_t least) {
  while (end > least) {
    const std::size_t start = start_of_last(text, end);
    std::size_t at = start;
    if (!is_white_space(next_character(text, at))) break;
    end = start;
  }
  return std::max(end, least);
}

std::size_t white_space_end(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  for (std::size_t at = begin; at < text.size(); end = at) {
    if (!is_white_space(next_character(text, at))) break;
  }
  return end;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens, SearchRegex word)
    : tokens_(std::move(tokens)), word_(std::move(word)), nodes_(1) {
  for (std::size_t index = 0; index < tokens_.size(); ++index) insert(index);
}

Result<AddedTokenFinder> AddedTokenFinder::make(std::vector<AddedToken> tokens) {
  const std::string members = class_members("word", false).value_or("");
  NIBBLE_ASSIGN_OR_RETURN(SearchRegex word, SearchRegex::compile("[" + members + "]"));
  return AddedTokenFinder(std::move(tokens), std::move(word));
}

void AddedTokenFinder::insert(std::size_t index) {
  const std::string& content = tokens_[index].content;
  NIBBLE_CHECK(!content.empty());
  begins_[static_cast<std::uint8_t>(content.front())] = true;
  std::uint32_t node = 0;
  for (const char byte : content) {
    const std::uint64_t edge = std::uint64_t{node} << 8 | static_cast<std::uint8_t>(byte);
    const auto [found, added] = edges_.emplace(edge, static_cast<std::uint32_t>(nodes_.size()));
    if (added) nodes_.emplace_back();
    node = found->second;
  }
  // Of two tokens that normalize to the same text the first is found.
  if (nodes_[node].token < 0) nodes_[node].token = static_cast<std::int32_t>(index);
}

std::optional<AddedTokenFinder::Found> AddedTokenFinder::next(std::string_view text,
                                                              std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<std::uint8_t>(text[begin])]) continue;
    std::optional<Found> longest;
    std::uint32_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      const std::uint64_t edge = std::uint64_t{node} << 8 | static_cast<std::uint8_t>(text[at]);
      const auto found = edges_.find(edge);
      if (found == edges_.end()) break;
      node = found->second;
      if (nodes_[node].token < 0) continue;
      longest = Found{begin, at + 1, &tokens_[static_cast<std::size_t>(nodes_[node].token)]};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

bool AddedTokenFinder::is_word(std::string_view character) const {
  SearchRegex::Workspace workspace;
  const auto match = word_.find(character, 0, workspace);
  return match.ok() && match->has_value();
}

bool AddedTokenFinder::is_within_word(std::string_view text, const Found& found) const {
  if (found.begin > 0) {
    const std::size_t start = start_of_last(text, found.begin);
    if (is_word(text.substr(start, found.begin - start))) return true;
  }
  if (found.end == text.size()) return false;
  std::size_t end = found.end;
  static_cast<void>(next_character(text, end));
  return is_word(text.substr(found.end, end - found.end));
}

void AddedTokenFinder::find(std::string_view text, std::vector<Part>& parts) const {
  std::size_t reached = 0;      // everything before it is in a part
  std::size_t space_begin = 0;  // the white space looked at last: never looked at again
  std::size_t space_end = 0;
  std::size_t from = 0;
  while (const std::optional<Found> found = next(text, from)) {
    from = found->end;
    if (found->token->single_word && is_within_word(text, *found)) continue;
    std::size_t begin = found->begin;
    std::size_t end = found->end;
    if (found->token->lstrip) begin = std::max(white_space_begin(text, begin, reached), reached);
    if (found->token->rstrip) {
      const bool known = end >= space_begin && end < space_end;
      if (!known) space_end = white_space_end(text, end);
      if (!known) space_begin = end;
      end = std::max(end, space_end);
    }
    if (reached < begin) parts.push_back({std::nullopt, text.substr(reached, begin - reached)});
    parts.push_back({found->token->id, {}});
    reached = end;
  }
  if (reached < text.size()) parts.push_back({std::nullopt, text.substr(reached)});
}

}  // namespace nibble::text
