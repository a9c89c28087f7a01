// Writes JSON straight into a buffer: events of a stream are a few constant pieces and one text.
//
//   append_json_string(out, "say \"hi\"");   // "say \"hi\""
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nibble::api {

// With its quotes. Valid UTF-8 stands as it is, broken bytes become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

void append_json_integer(std::string& out, std::int64_t value);
void append_json_integers(std::string& out, std::span<const std::int32_t> values);  // [1,2,3]

}  // namespace nibble::api
