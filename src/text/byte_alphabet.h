// The byte-level alphabet of GPT-2: tokenizer.json writes each byte of a token as one character, so
// that a vocabulary of bytes is text. Printable Latin-1 stands for itself, the other 68 bytes for
// the characters from U+0100 on ("Ġ", U+0120, is a space).
//
//   bytes_of("Ġhello");     // " hello"
//   bytes_of("<｜end｜>");   // nullopt: U+FF5C stands for no byte
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nibble::text {

std::optional<std::uint8_t> byte_of(char32_t character);
char32_t character_of(std::uint8_t byte);

// The bytes that valid UTF-8 text in the alphabet stands for; nullopt when a character is none of
// it.
std::optional<std::string> bytes_of(std::string_view text);

}  // namespace nibble::text
