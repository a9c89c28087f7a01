#include "text/jinja/unicode.h"

#include <array>
#include <cstdint>
#include <utf8proc.h>
#include <vector>

#include "base/utf8.h"

namespace nibble::text::jinja {
namespace {

std::int32_t code(char32_t character) {
  return static_cast<std::int32_t>(character);
}

utf8proc_category_t category(char32_t character) {
  return utf8proc_category(code(character));
}

std::vector<char32_t> characters_of(std::string_view text) {
  std::vector<char32_t> characters;
  characters.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) characters.push_back(next_character(text, at));
  return characters;
}

bool contains(std::string_view characters, char32_t wanted) {
  for (std::size_t at = 0; at < characters.size();) {
    if (next_character(characters, at) == wanted) return true;
  }
  return false;
}

bool is_cased(char32_t character) {
  const utf8proc_category_t kind = category(character);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
         kind == UTF8PROC_CATEGORY_LT || utf8proc_toupper(code(character)) != code(character) ||
         utf8proc_tolower(code(character)) != code(character);
}

bool is_case_ignorable(char32_t character) {
  const utf8proc_category_t kind = category(character);
  const bool punctuation = character == '\'' || character == '.' || character == ':' ||
                           character == '^' || character == '`' || character == 0xA8 ||
                           character == 0xAD || character == 0xB7 || character == 0x2019;
  return punctuation || kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
         kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_LM ||
         kind == UTF8PROC_CATEGORY_SK;
}

// Some characters become several in capitals (ß, ﬁ, ΐ): those whose case folding is several and
// that are no capitals themselves.
std::vector<char32_t> expansion(char32_t character) {
  if (category(character) == UTF8PROC_CATEGORY_LU || character < 0x80) return {};
  std::array<std::int32_t, 8> folded{};
  int last_class = 0;
  const auto count = utf8proc_decompose_char(code(character), folded.data(),
                                             static_cast<std::ptrdiff_t>(folded.size()),
                                             UTF8PROC_CASEFOLD, &last_class);
  if (count < 2 || count > static_cast<std::ptrdiff_t>(folded.size())) return {};
  std::vector<char32_t> characters;
  for (std::ptrdiff_t index = 0; index < count; ++index) {
    characters.push_back(static_cast<char32_t>(folded[static_cast<std::size_t>(index)]));
  }
  return characters;
}

void append_upper(std::string& out, char32_t character) {
  const std::vector<char32_t> several = expansion(character);
  if (several.empty()) {
    append_character(out, static_cast<char32_t>(utf8proc_toupper(code(character))));
    return;
  }
  for (const char32_t one : several) {
    append_character(out, static_cast<char32_t>(utf8proc_toupper(code(one))));
  }
}

void append_title(std::string& out, char32_t character) {
  const auto simple = static_cast<char32_t>(utf8proc_totitle(code(character)));
  const std::vector<char32_t> several = expansion(character);
  const bool is_title = category(character) == UTF8PROC_CATEGORY_LT;
  const bool is_sharp_s = character == 0xDF;  // whose capital ẞ begins no word
  if (is_title || several.empty() || (simple != character && !is_sharp_s)) {
    append_character(out, is_title ? character : simple);
    return;
  }
  append_character(out, static_cast<char32_t>(utf8proc_totitle(code(several[0]))));
  bool started = is_cased(several[0]);
  for (std::size_t index = 1; index < several.size(); ++index) {
    char32_t one = several[index];
    // The iota under a Greek vowel stays there.
    if (one == 0x3B9 && character >= 0x1F80 && character <= 0x1FFF) one = 0x345;
    append_character(out, started ? one : static_cast<char32_t>(utf8proc_totitle(code(one))));
    started = started || is_cased(one);
  }
}

// Σ is ς at the end of a word.
bool ends_word(const std::vector<char32_t>& characters, std::size_t index) {
  std::size_t before = index;
  while (before > 0 && is_case_ignorable(characters[before - 1])) --before;
  if (before == 0 || !is_cased(characters[before - 1])) return false;
  std::size_t after = index + 1;
  while (after < characters.size() && is_case_ignorable(characters[after])) ++after;
  return after == characters.size() || !is_cased(characters[after]);
}

void append_lower(std::string& out, const std::vector<char32_t>& characters, std::size_t index) {
  const char32_t character = characters[index];
  if (character == 0x3A3) {
    append_character(out, ends_word(characters, index) ? 0x3C2 : 0x3C3);
  } else if (character == 0x130) {
    out += "i\u0307";
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_tolower(code(character))));
  }
}

}  // namespace

bool is_space(char32_t character) {
  return (character >= 9 && character <= 13) || (character >= 28 && character <= 32) ||
         character == 0x85 || character == 0xA0 || character == 0x1680 ||
         (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
         character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

bool is_printable(char32_t character) {
  if (character == ' ') return true;
  switch (category(character)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_letter(char32_t character) {
  const utf8proc_category_t kind = category(character);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

// Numeric_Type=Digit beside the decimal ones: superscripts, subscripts and numbers in circles.
bool is_digit(char32_t character) {
  if (category(character) == UTF8PROC_CATEGORY_ND) return true;
  const auto within = [character](char32_t first, char32_t last) {
    return character >= first && character <= last;
  };
  return character == 0xB2 || character == 0xB3 || character == 0xB9 || character == 0x2070 ||
         within(0x2074, 0x2079) || within(0x2080, 0x2089) || within(0x1369, 0x1371) ||
         character == 0x19DA || within(0x2460, 0x2468) || within(0x2474, 0x247C) ||
         within(0x2488, 0x2490) || character == 0x24EA || within(0x24F5, 0x24FD) ||
         character == 0x24FF || within(0x2776, 0x277E) || within(0x2780, 0x2788) ||
         within(0x278A, 0x2792) || within(0x10A40, 0x10A43) || within(0x10E60, 0x10E68) ||
         within(0x11052, 0x1105A) || within(0x1F100, 0x1F10A);
}

bool is_letter_or_number(char32_t character) {
  const utf8proc_category_t kind = category(character);
  return is_letter(character) || kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Unicode's Other_Lowercase and Other_Uppercase: cased, but of another category.
constexpr std::array<Range, 26> kOtherLower = {
    {{0xAA, 0xAA},       {0xBA, 0xBA},      {0x2B0, 0x2B8},     {0x2C0, 0x2C1},
     {0x2E0, 0x2E4},     {0x345, 0x345},    {0x37A, 0x37A},     {0x10FC, 0x10FC},
     {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},  {0x1D9B, 0x1DBF},   {0x2071, 0x2071},
     {0x207F, 0x207F},   {0x2090, 0x209C},  {0x2170, 0x217F},   {0x24D0, 0x24E9},
     {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},  {0xA770, 0xA770},   {0xA7F8, 0xA7F9},
     {0xAB5C, 0xAB5F},   {0xAB69, 0xAB69},  {0x10780, 0x10780}, {0x10783, 0x10785},
     {0x10787, 0x107B0}, {0x107B2, 0x107BA}}};
constexpr std::array<Range, 5> kOtherUpper = {{{0x2160, 0x216F},
                                               {0x24B6, 0x24CF},
                                               {0x1F130, 0x1F149},
                                               {0x1F150, 0x1F169},
                                               {0x1F170, 0x1F189}}};

template <std::size_t size>
bool is_among(const std::array<Range, size>& ranges, char32_t character) {
  for (const Range& range : ranges) {
    if (character >= range.first && character <= range.last) return true;
  }
  return false;
}

bool is_lower(char32_t character) {
  return category(character) == UTF8PROC_CATEGORY_LL || is_among(kOtherLower, character);
}

bool is_upper(char32_t character) {
  return category(character) == UTF8PROC_CATEGORY_LU || is_among(kOtherUpper, character);
}

// True where there is a cased character, and each is as wanted.
bool all_cased(std::string_view text, bool wants_lower) {
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t character = next_character(text, at);
    if (category(character) == UTF8PROC_CATEGORY_LT) return false;
    if (wants_lower ? is_upper(character) : is_lower(character)) return false;
    found = found || (wants_lower ? is_lower(character) : is_upper(character));
  }
  return found;
}

}  // namespace

bool is_lower(std::string_view text) {
  return all_cased(text, true);
}

bool is_upper(std::string_view text) {
  return all_cased(text, false);
}

std::size_t length(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) static_cast<void>(next_character(text, at));
  return at;
}

std::string_view strip_start(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_space(next_character(text, next))) break;
    at = next;
  }
  return text.substr(at);
}

std::string_view strip_start(std::string_view text, std::string_view characters) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    if (!contains(characters, next_character(text, next))) break;
    at = next;
  }
  return text.substr(at);
}

namespace {

// Where the last character of a text that is not empty starts.
std::size_t last_start(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

std::string_view strip_end(std::string_view text) {
  while (!text.empty()) {
    const std::size_t start = last_start(text);
    std::size_t at = start;
    if (!is_space(next_character(text, at))) break;
    text = text.substr(0, start);
  }
  return text;
}

std::string_view strip_end(std::string_view text, std::string_view characters) {
  while (!text.empty()) {
    const std::size_t start = last_start(text);
    std::size_t at = start;
    if (!contains(characters, next_character(text, at))) break;
    text = text.substr(0, start);
  }
  return text;
}

std::string upper(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) append_upper(out, next_character(text, at));
  return out;
}

std::string lower(std::string_view text) {
  const std::vector<char32_t> characters = characters_of(text);
  std::string out;
  for (std::size_t index = 0; index < characters.size(); ++index) {
    append_lower(out, characters, index);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  const std::vector<char32_t> characters = characters_of(text);
  std::string out;
  for (std::size_t index = 0; index < characters.size(); ++index) {
    if (index == 0) {
      append_title(out, characters[index]);
    } else {
      append_lower(out, characters, index);
    }
  }
  return out;
}

std::string title(std::string_view text) {
  const std::vector<char32_t> characters = characters_of(text);
  std::string out;
  bool after_cased = false;
  for (std::size_t index = 0; index < characters.size(); ++index) {
    if (after_cased) {
      append_lower(out, characters, index);
    } else {
      append_title(out, characters[index]);
    }
    after_cased = is_cased(characters[index]);
  }
  return out;
}

}  // namespace nibble::text::jinja
