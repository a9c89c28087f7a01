#include "net/headers.h"

#include <algorithm>

#include "base/text.h"

namespace nibble::net {
namespace {

bool is_token_byte(char byte) {
  const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
  const bool digit = byte >= '0' && byte <= '9';
  return letter || digit ||
         std::string_view("!#$%&'*+-.^_`|~").find(byte) != std::string_view::npos;
}

bool is_value_byte(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return byte == '\t' || (code >= 0x20 && code != 0x7f);
}

}  // namespace

std::optional<std::string_view> find_header(const Headers& headers, std::string_view name) {
  const std::string wanted = to_lower(name);
  for (const auto& [field, value] : headers) {
    if (to_lower(field) == wanted) return value;
  }
  return std::nullopt;
}

bool valid_header(std::string_view name, std::string_view value) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_token_byte) &&
         std::all_of(value.begin(), value.end(), is_value_byte);
}

}  // namespace nibble::net
