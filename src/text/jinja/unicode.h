// Text as Python's str sees it: counted in characters, with Unicode's white space and cases.
//
//   upper("straße");        // "STRASSE"
//   strip_end("a \u00a0");  // "a"
//   length("Grüße");        // 5
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nibble::text::jinja {

bool is_space(char32_t character);             // str.isspace()
bool is_printable(char32_t character);         // str.isprintable()
bool is_letter(char32_t character);            // str.isalpha()
bool is_digit(char32_t character);             // str.isdigit()
bool is_letter_or_number(char32_t character);  // str.isalnum()

bool is_lower(std::string_view text);  // str.islower()
bool is_upper(std::string_view text);  // str.isupper()

std::size_t length(std::string_view text);
// The byte at which character `index` starts; the size of the text when it has fewer.
std::size_t byte_offset(std::string_view text, std::size_t index);

std::string_view strip_start(std::string_view text);
std::string_view strip_end(std::string_view text);
// Without any of `characters` at the start, at the end.
std::string_view strip_start(std::string_view text, std::string_view characters);
std::string_view strip_end(std::string_view text, std::string_view characters);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);  // str.title()

}  // namespace nibble::text::jinja
