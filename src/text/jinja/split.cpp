#include "text/jinja/split.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/unicode.h"

namespace nibble::text::jinja {
namespace {

bool ends_line(char32_t character) {
  return (character >= 0x0A && character <= 0x0D) || (character >= 0x1C && character <= 0x1E) ||
         character == 0x85 || character == 0x2028 || character == 0x2029;
}

// The first word of text that starts with one.
std::string_view first_word(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    if (is_space(next_character(text, next))) break;
    at = next;
  }
  return text.substr(0, at);
}

std::string_view last_word(std::string_view text) {
  std::size_t start = text.size();
  while (start > 0) {
    std::size_t before = start - 1;
    while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
    std::size_t at = before;
    if (is_space(next_character(text, at))) break;
    start = before;
  }
  return text.substr(start);
}

}  // namespace

std::vector<std::string_view> split_text(std::string_view text, std::string_view separator,
                                         std::int64_t most, bool from_end) {
  std::vector<std::string_view> parts;
  for (; most != 0; --most) {
    const std::size_t at = from_end ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(from_end ? text.substr(at + separator.size()) : text.substr(0, at));
    text = from_end ? text.substr(0, at) : text.substr(at + separator.size());
  }
  parts.push_back(text);
  if (from_end) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_space(std::string_view text, std::int64_t most, bool from_end) {
  std::vector<std::string_view> parts;
  text = from_end ? strip_end(text) : strip_start(text);
  for (; most != 0 && !text.empty(); --most) {
    const std::string_view word = from_end ? last_word(text) : first_word(text);
    parts.push_back(word);
    text = from_end ? strip_end(text.substr(0, text.size() - word.size()))
                    : strip_start(text.substr(word.size()));
  }
  if (!text.empty()) parts.push_back(text);
  if (from_end) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t character = next_character(text, at);
    if (!ends_line(character)) continue;
    if (character == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string replace(Machine& machine, std::string_view text, std::string_view from,
                    std::string_view to, std::int64_t most) {
  std::string out;
  if (!machine.can_search(text.size(), from.size())) return out;
  if (from.empty()) {  // before each character, and at the end
    for (std::size_t at = 0; most != 0 && machine.can_make(out.size()); --most) {
      out += to;
      if (at == text.size()) return out;
      const std::size_t start = at;
      static_cast<void>(next_character(text, at));
      out += text.substr(start, at - start);
      if (most == 1) return out.append(text.substr(at));
    }
    return most == 0 ? std::string(text) : out;
  }
  for (; most != 0 && machine.can_make(out.size()); --most) {
    const std::size_t at = text.find(from);
    if (at == std::string_view::npos) break;
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

}  // namespace nibble::text::jinja
