#include "text/normalize.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utf8proc.h>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace nibble::text {
namespace {

using CodePoint = utf8proc_int32_t;

constexpr auto kOptions =
    static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_DECOMPOSE);

// Every character below this is normalized, and composes with nothing before it.
constexpr char32_t kFirstToLookAt = 0x300;

int combining_class(CodePoint character) {
  return utf8proc_get_property(character)->combining_class;
}

void decompose(char32_t character, std::vector<CodePoint>& out) {
  constexpr std::size_t kMost = 32;  // a canonical decomposition has four characters at most
  CodePoint parts[kMost] = {};
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<CodePoint>(character), parts, kMost, kOptions, &boundary);
  NIBBLE_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(kMost));
  out.insert(out.end(), parts, parts + count);
}

// Sorts every run of combining marks by class and keeps the order of those of one class (Unicode
// 15, section 3.11, D108 and D109). utf8proc's own sorting takes quadratic time.
void order_marks(std::vector<CodePoint>& characters) {
  const auto is_mark = [](CodePoint character) { return combining_class(character) != 0; };
  auto at = characters.begin();
  while (at != characters.end()) {
    const auto first = std::find_if(at, characters.end(), is_mark);
    const auto last = std::find_if_not(first, characters.end(), is_mark);
    std::stable_sort(first, last, [](CodePoint a, CodePoint b) {
      return combining_class(a) < combining_class(b);
    });
    at = last;
  }
}

struct InertRange {
  char32_t first = 0;
  char32_t last = 0;
};

// The NFC of Hugging Face's tokenizers has tables of Unicode 10, ours are newer: the characters
// gained since that would be reordered or composed stay where they are, and nothing moves past
// them.
constexpr InertRange kInert[] = {
#include "text/unicode_inert.inc"
};

bool is_inert(char32_t character) {
  const InertRange* found =
      std::lower_bound(std::begin(kInert), std::end(kInert), character,
                       [](const InertRange& range, char32_t value) { return range.last < value; });
  return found != std::end(kInert) && found->first <= character;
}

// Normalizes what has been gathered and moves it to the output.
void flush(std::vector<CodePoint>& characters, std::string& out) {
  order_marks(characters);
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(
      characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), kOptions);
  NIBBLE_CHECK(count >= 0);
  characters.resize(static_cast<std::size_t>(count));
  for (const CodePoint character : characters) {
    append_character(out, static_cast<char32_t>(character));
  }
  characters.clear();
}

// Where the first character that could change begins; the character before it may compose with it.
std::size_t normalized_prefix(std::string_view text) {
  std::size_t before = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    if (next_character(text, at) >= kFirstToLookAt) return before;
    before = start;
  }
  return text.size();
}

}  // namespace

std::string nfc(std::string_view text) {
  const std::size_t kept = normalized_prefix(text);
  std::string out(text.substr(0, kept));
  if (kept == text.size()) return out;

  std::vector<CodePoint> characters;
  for (std::size_t at = kept; at < text.size();) {
    const char32_t character = next_character(text, at);
    if (is_inert(character)) {
      flush(characters, out);
      append_character(out, character);
    } else {
      decompose(character, characters);
    }
  }
  flush(characters, out);
  return out;
}

}  // namespace nibble::text
