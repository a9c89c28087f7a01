#include "base/text.h"

#include <algorithm>
#include <cstdint>
#include <fmt/core.h>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/utf8.h"

namespace nibble {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// What counts when names are compared: "RTX PRO-6000" and "rtx_pro6000" are the same.
std::string essence(std::string_view name) {
  std::string kept;
  for (const char c : to_lower(name)) {
    if (c != '-' && c != '_' && !is_space(c)) kept += c;
  }
  return kept;
}

// Whether the runs of letters and of digits of `name` stand in `text` in their order.
bool holds_runs_in_order(std::string_view text, std::string_view name) {
  std::size_t from = 0;
  for (std::size_t start = 0; start < name.size();) {
    std::size_t end = start + 1;
    while (end < name.size() && is_digit(name[end]) == is_digit(name[start])) ++end;
    const std::size_t found = text.find(name.substr(start, end - start), from);
    if (found == std::string_view::npos) return false;
    from = found + (end - start);
    start = end;
  }
  return true;
}

std::string digits_of(std::string_view text) {
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits), is_digit);
  return digits;
}

// How a candidate resembles a name, from the nearest on. Sizes and versions carry meaning: a name
// whose digits differ ("rtx-5090" for "rtx6000") is rarely what was meant, however few the edits.
enum class Likeness { kFewEdits, kContains, kHoldsRuns, kFewEditsOtherDigits };
using Nearness = std::pair<Likeness, std::size_t>;  // with the edits or the difference in length

std::optional<Nearness> nearness(std::string_view name, std::string_view candidate) {
  constexpr std::size_t kShortestPart = 3;  // shorter pieces occur in almost any name
  const std::size_t limit = name.size() / 3;
  const std::size_t distance = edit_distance(name, candidate, limit);
  const bool few_edits = distance <= limit;
  if (few_edits && digits_of(name) == digits_of(candidate)) {
    return Nearness{Likeness::kFewEdits, distance};
  }
  const std::size_t longer = std::max(name.size(), candidate.size());
  const std::size_t difference = longer - std::min(name.size(), candidate.size());
  const bool within = name.size() >= 2 && candidate.find(name) != std::string_view::npos;
  const bool around =
      candidate.size() >= kShortestPart && name.find(candidate) != std::string_view::npos;
  if (within || around) return Nearness{Likeness::kContains, difference};
  if (name.size() >= kShortestPart && holds_runs_in_order(candidate, name)) {
    return Nearness{Likeness::kHoldsRuns, difference};
  }
  if (few_edits) return Nearness{Likeness::kFewEditsOtherDigits, distance};
  return std::nullopt;
}

// End of the set that opens at pattern[open] (the index of its ']'), or npos: then '[' is literal.
std::size_t set_end(std::string_view pattern, std::size_t open) {
  std::size_t index = open + 1;
  if (index < pattern.size() && (pattern[index] == '!' || pattern[index] == '^')) ++index;
  return pattern.find(']', index + 1);  // a ']' that stands first belongs to the set
}

bool set_contains(std::string_view set, char c) {
  const bool complement = set[0] == '!' || set[0] == '^';
  if (complement) set.remove_prefix(1);
  bool found = false;
  for (std::size_t index = 0; index < set.size(); ++index) {
    if (index + 2 < set.size() && set[index + 1] == '-') {
      found = found || (set[index] <= c && c <= set[index + 2]);
      index += 2;
    } else {
      found = found || set[index] == c;
    }
  }
  return found != complement;
}

// Matches the one element at pattern[index] against `c`; the index after it, or npos.
std::size_t match_one(std::string_view pattern, std::size_t index, char c) {
  if (pattern[index] == '[') {
    const std::size_t end = set_end(pattern, index);
    if (end != std::string_view::npos) {
      const std::string_view set = pattern.substr(index + 1, end - index - 1);
      return set_contains(set, c) ? end + 1 : std::string_view::npos;
    }
  }
  return pattern[index] == '?' || pattern[index] == c ? index + 1 : std::string_view::npos;
}

// Length of the ANSI sequence "ESC [ ... letter" that starts the text; 0 when none does.
std::size_t ansi_length(std::string_view text) {
  if (text.size() < 3 || text[0] != '\x1b' || text[1] != '[') return 0;
  std::size_t length = 2;
  while (length < text.size() && text[length] >= ' ' && text[length] <= '?') ++length;
  return length < text.size() ? length + 1 : 0;
}

// The code point at text[index] and its bytes; a faulty sequence counts as one character, nullopt.
std::optional<char32_t> decode(std::string_view text, std::size_t index, std::size_t& length) {
  const Utf8Sequence sequence = first_sequence(text.substr(index));
  length = sequence.length;
  return sequence.complete ? std::optional(next_character(text, index)) : std::nullopt;
}

bool is_control(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0);
}

bool is_zero_width(char32_t point) {
  static constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x0300, 0x036F}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200D},
      {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}};
  return std::any_of(std::begin(kRanges), std::end(kRanges), [point](const auto& range) {
    return range.first <= point && point <= range.second;
  });
}

// Format characters are not seen and change what is: they turn the direction of the text around
// them (U+202E), hide, or break the line. Unicode's category Cf, and U+2028 and U+2029.
bool is_format(char32_t point) {
  static constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x00AD, 0x00AD},   {0x0600, 0x0605},   {0x061C, 0x061C},   {0x06DD, 0x06DD},
      {0x070F, 0x070F},   {0x0890, 0x0891},   {0x08E2, 0x08E2},   {0x180E, 0x180E},
      {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},   {0xFEFF, 0xFEFF},
      {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F},
      {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE007F}};
  return std::any_of(std::begin(kRanges), std::end(kRanges), [point](const auto& range) {
    return range.first <= point && point <= range.second;
  });
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t end = text.find(separator); end != std::string_view::npos;
       end = text.find(separator, start)) {
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  parts.emplace_back(text.substr(start));
  return parts;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string joined;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    if (index > 0) joined += separator;
    joined += parts[index];
  }
  return joined;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string printable(std::string_view text, std::size_t most) {
  std::vector<std::string> characters;
  for (std::size_t index = 0, length = 0; index < text.size(); index += length) {
    const std::optional<char32_t> point = decode(text, index, length);
    const bool shown = point && !is_control(*point) && !is_format(*point);
    characters.emplace_back(shown ? text.substr(index, length) : "?");
  }
  if (characters.size() > most) {
    constexpr std::size_t kEllipsis = 3;
    const std::size_t kept = most > kEllipsis ? most - kEllipsis : 0;
    const auto tail = static_cast<std::ptrdiff_t>(kept / 2);
    const auto head = static_cast<std::ptrdiff_t>(kept - kept / 2);
    characters.erase(characters.begin() + head, characters.end() - tail);
    characters.insert(characters.begin() + head, "...");
  }
  return join(characters, "");
}

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (a.size() < b.size()) std::swap(a, b);
  if (a.size() - b.size() > limit) return limit + 1;
  // Rows of the table of distances between prefixes; row[j] belongs to b's first j bytes.
  std::vector<std::size_t> row(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> before_last(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  std::size_t smallest_last = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    std::size_t smallest = row[0];
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = last[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({replaced, row[j] + 1, last[j + 1] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before_last[j - 1] + 1);
      smallest = std::min(smallest, row[j + 1]);
    }
    // A later row is never smaller than the smaller of two neighbours.
    if (std::min(smallest, smallest_last) > limit) return limit + 1;
    smallest_last = smallest;
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return std::min(last.back(), limit + 1);
}

std::vector<std::string> nearest_names(std::string_view name,
                                       std::span<const std::string> candidates, std::size_t most) {
  const std::string wanted = essence(name);
  if (wanted.empty()) return {};
  std::vector<std::pair<Nearness, std::size_t>> near;  // candidate's index keeps equals in order
  for (std::size_t index = 0; index < candidates.size(); ++index) {
    const std::string candidate = essence(candidates[index]);
    if (const auto how = nearness(wanted, candidate)) near.emplace_back(*how, index);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> names;
  for (const auto& [how, index] : near) {
    if (names.size() < most) names.push_back(candidates[index]);
  }
  return names;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const std::vector<std::string> names = nearest_names(name, candidates);
  if (names.empty()) return "";
  if (names.size() == 1) return fmt::format("; did you mean {}?", names[0]);
  const std::span<const std::string> first(names.data(), names.size() - 1);
  return fmt::format("; did you mean {} or {}?", join(first, ", "), names.back());
}

bool glob_match(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t after_star = kNone;  // where to resume when the last '*' must take one byte more
  std::size_t star_text = 0;       // what that '*' has taken ends here
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      star_text = t;
      continue;
    }
    const std::size_t next = p < pattern.size() ? match_one(pattern, p, text[t]) : kNone;
    if (next != kNone) {
      p = next;
      ++t;
    } else if (after_star != kNone) {
      p = after_star;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::size_t display_width(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t index = 0, length = 0; index < text.size(); index += length) {
    length = ansi_length(text.substr(index));
    if (length > 0) continue;
    const std::optional<char32_t> point = decode(text, index, length);
    if (!point || !is_zero_width(*point)) ++columns;
  }
  return columns;
}

}  // namespace nibble
