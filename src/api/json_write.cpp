#include "api/json_write.h"

#include <fmt/format.h>

#include "api/json_scan.h"

namespace nibble::api {
namespace {

// The byte at the front of the text and, of a multi-byte character, those that belong to it.
std::size_t append_escaped(std::string& out, std::string_view text) {
  const char c = text.front();
  switch (c) {
    case '"':
      out += "\\\"";
      return 1;
    case '\\':
      out += "\\\\";
      return 1;
    case '\n':
      out += "\\n";
      return 1;
    case '\r':
      out += "\\r";
      return 1;
    case '\t':
      out += "\\t";
      return 1;
    default:
      break;
  }
  if (static_cast<unsigned char>(c) < 0x20) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    return 1;
  }
  const std::size_t length = utf8_length(text);
  if (length == 0) {
    out += "\xEF\xBF\xBD";
    return 1;
  }
  out.append(text.substr(0, length));
  return length;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const std::size_t plain = plain_json_length(text);
    out.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (!text.empty()) text.remove_prefix(append_escaped(out, text));
  }
  out += '"';
}

void append_json_integer(std::string& out, std::int64_t value) {
  const fmt::format_int digits(value);
  out.append(digits.data(), digits.size());
}

void append_json_integers(std::string& out, std::span<const std::int32_t> values) {
  out += '[';
  for (std::size_t index = 0; index < values.size(); ++index) {
    if (index > 0) out += ',';
    append_json_integer(out, values[index]);
  }
  out += ']';
}

}  // namespace nibble::api
