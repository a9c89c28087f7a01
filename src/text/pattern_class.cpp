#include "text/pattern_class.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>
#include <vector>

#include "text/unicode_additions.h"

namespace nibble::text {
namespace {

struct ClassName {
  std::string_view name;
  std::string_view positive;  // members in PCRE2
  std::string_view negative;  // members of the complement; "" when it has no such form
};

// Oniguruma 6.9, doc/RE: \s is White_Space (PCRE2's has U+180E too), \d is Decimal_Number, \w is
// letters, marks, decimal numbers, connectors, and other alphabetic characters, which are among the
// additions. PCRE2's \p{Han} goes by script extensions, Oniguruma's by scripts.
// "word" is \w of Rust's regex, which looks at the neighbours of added tokens.
constexpr ClassName kSpecial[] = {
    {"s", "\\p{White_Space}", "\\P{White_Space}"},
    {"d", "\\p{Nd}", "\\P{Nd}"},
    {"w", "\\p{L}\\p{M}\\p{Nd}\\p{Pc}", ""},
    {"word", "\\p{L}\\p{M}\\p{Nd}\\p{Pc}", ""},
    {"Han", "\\p{sc:Han}", "\\P{sc:Han}"},
    {"Hiragana", "\\p{sc:Hiragana}", "\\P{sc:Hiragana}"},
    {"Katakana", "\\p{sc:Katakana}", "\\P{sc:Katakana}"},
};

// General categories: not the unassigned (C, Cn), which additions would have to be taken from, and
// not Mn and Mc, between which a character has moved.
constexpr std::string_view kCategories[] = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd",
    "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp"};

const ClassName* find_special(std::string_view name) {
  const auto* found = std::find_if(std::begin(kSpecial), std::end(kSpecial),
                                   [&](const ClassName& known) { return known.name == name; });
  return found == std::end(kSpecial) ? nullptr : found;
}

bool is_category(std::string_view name) {
  return std::find(std::begin(kCategories), std::end(kCategories), name) != std::end(kCategories);
}

bool belongs(const AddedCharacters& added, std::string_view name) {
  if (name == "d") return added.name == "Nd";
  const bool group = name.size() == 1 && is_category(name);
  return group ? is_category(added.name) && added.name.front() == name.front() : added.name == name;
}

using CodePoints = std::pair<char32_t, char32_t>;

// What Unicode has gained in the class: sorted, neighbours joined.
std::vector<CodePoints> additions(std::string_view name) {
  std::vector<CodePoints> found;
  for (const AddedCharacters& added : added_characters()) {
    if (belongs(added, name)) found.emplace_back(added.first, added.last);
  }
  std::sort(found.begin(), found.end());
  std::vector<CodePoints> joined;
  for (const CodePoints& range : found) {
    if (!joined.empty() && joined.back().second + 1 == range.first) {
      joined.back().second = range.second;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

}  // namespace

bool is_class_name(std::string_view name) {
  return is_category(name) || find_special(name) != nullptr;
}

std::optional<std::string> class_members(std::string_view name, bool negated) {
  if (!is_class_name(name)) return std::nullopt;
  const ClassName* special = find_special(name);
  const std::vector<CodePoints> added = additions(name);
  if (negated) {
    if (!added.empty() || (special != nullptr && special->negative.empty())) return std::nullopt;
    return special != nullptr ? std::string(special->negative) : fmt::format("\\P{{{}}}", name);
  }
  std::string members =
      special != nullptr ? std::string(special->positive) : fmt::format("\\p{{{}}}", name);
  for (const auto& [first, last] : added) {
    members += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<unsigned>(first),
                           static_cast<unsigned>(last));
  }
  return members;
}

}  // namespace nibble::text
