#include "report/escape.h"

#include <algorithm>
#include <cstddef>

namespace nibble {
namespace {

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line;
}

// Whether the character at `at` would be read as markup. Underscores inside words ("gate_up") are
// plain in every dialect that GitHub, GitLab and Pandoc speak, and stay readable without backslash.
bool is_markdown_markup(std::string_view line, std::size_t at) {
  const char c = line[at];
  if (std::string_view("\\`*[]<>|~$").find(c) != std::string_view::npos) return true;
  const bool before = at > 0 && is_word(line[at - 1]);
  const bool after = at + 1 < line.size() && is_word(line[at + 1]);
  if (c == '_') return !(before && after);
  if (c == '&') return after || (at + 1 < line.size() && line[at + 1] == '#');  // "&lt;", "&#60;"
  return false;
}

// Where a list, heading or rule marker that opens the line ends ("#", "-", "12."), or 0. A marker
// stands before a space: "-0.83" and "12.5 ms" are plain numbers.
std::size_t opening_marker(std::string_view line) {
  const std::size_t start = line.find_first_not_of(' ');
  if (start == std::string_view::npos) return 0;
  std::size_t end = start;
  if (std::string_view("#-+").find(line[start]) != std::string_view::npos) {
    while (end < line.size() && line[end] == line[start]) ++end;
  } else {
    end = line.find_first_not_of("0123456789", start);
    if (end == std::string_view::npos || end == start) return 0;
    if (line[end] != '.' && line[end] != ')') return 0;
    ++end;
  }
  return end == line.size() || line[end] == ' ' ? end : 0;
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string script_json(const Json& json) {
  std::string escaped;
  for (const char c : json.dump(0)) {
    switch (c) {
      case '<':
        escaped += "\\u003c";
        break;
      case '>':
        escaped += "\\u003e";
        break;
      case '&':
        escaped += "\\u0026";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string markdown_escape(std::string_view text) {
  const std::string line = one_line(text);
  const std::size_t marker = opening_marker(line);
  std::string escaped;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (at + 1 == marker || is_markdown_markup(line, at)) escaped += '\\';
    escaped += line[at];
  }
  return escaped;
}

std::string markdown_code(std::string_view text) {
  const std::string line = one_line(text);
  // The fence is one backquote longer than the longest run inside.
  std::size_t longest = 0;
  std::size_t run = 0;
  for (const char c : line) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  const std::string pad = longest > 0 ? " " : "";
  return fence + pad + line + pad + fence;
}

}  // namespace nibble
