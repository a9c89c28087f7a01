#include "text/jinja/escapes.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "base/utf8.h"

namespace nibble::text::jinja {
namespace {

struct Escape {
  std::string text;
  std::size_t length = 0;  // of the escape in the source, backslash included
};

std::optional<std::string_view> simple_escape(char byte) {
  switch (byte) {
    case '\n':
      return "";
    case '\\':
      return "\\";
    case '\'':
      return "'";
    case '"':
      return "\"";
    case 'a':
      return "\a";
    case 'b':
      return "\b";
    case 'f':
      return "\f";
    case 'n':
      return "\n";
    case 'r':
      return "\r";
    case 't':
      return "\t";
    case 'v':
      return "\v";
    default:
      return std::nullopt;
  }
}

// A number of up to `most` digits in `base`, at `text[start]`.
std::optional<Escape> numbered(std::string_view text, std::size_t start, std::size_t most,
                               int base) {
  const std::string_view digits = text.substr(start, most);
  std::uint32_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  const auto used = static_cast<std::size_t>(parsed.ptr - digits.data());
  const bool whole = base == 8 ? used > 0 : used == most;
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (parsed.ec != std::errc() || !whole || surrogate || value > 0x10FFFF) return std::nullopt;
  Escape escape;
  append_character(escape.text, static_cast<char32_t>(value));
  escape.length = start + used;
  return escape;
}

// `text` starts with a backslash.
std::optional<Escape> escape_at(std::string_view text) {
  const char kind = text.size() > 1 ? text[1] : '\0';
  if (const auto simple = simple_escape(kind)) return Escape{std::string(*simple), 2};
  if (kind == 'x') return numbered(text, 2, 2, 16);
  if (kind == 'u') return numbered(text, 2, 4, 16);
  if (kind == 'U') return numbered(text, 2, 8, 16);
  if (kind >= '0' && kind <= '7') return numbered(text, 1, 3, 8);
  if (kind == 'N' || text.size() < 2 || static_cast<unsigned char>(kind) >= 0x80) {
    return std::nullopt;
  }
  return Escape{std::string(text.substr(0, 2)), 2};  // Python keeps what it does not know
}

}  // namespace

Result<std::string> unescape(std::string_view quoted) {
  std::string out;
  while (!quoted.empty()) {
    const std::size_t plain = quoted.find('\\');
    out += quoted.substr(0, plain);
    if (plain == std::string_view::npos) break;
    quoted.remove_prefix(plain);
    const std::optional<Escape> escape = escape_at(quoted);
    if (!escape) return input_error("this text has an escape that is not supported");
    out += escape->text;
    quoted.remove_prefix(escape->length);
  }
  return out;
}

}  // namespace nibble::text::jinja
