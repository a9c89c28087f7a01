#include "text/byte_alphabet.h"

#include <array>
#include <cstddef>

#include "base/utf8.h"

namespace nibble::text {
namespace {

constexpr std::size_t kAlphabetEnd = 0x144;  // 256 + the 68 bytes that do not stand for themselves

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters = {};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    characters[byte] = stands_for_itself(byte) ? byte : next++;
  }
  return characters;
}

constexpr std::array<char32_t, 256> kCharacters = make_characters();

constexpr std::array<std::int16_t, kAlphabetEnd> make_bytes() {
  std::array<std::int16_t, kAlphabetEnd> bytes = {};
  bytes.fill(-1);
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes[kCharacters[byte]] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<std::int16_t, kAlphabetEnd> kBytes = make_bytes();

}  // namespace

std::optional<std::uint8_t> byte_of(char32_t character) {
  if (character >= kAlphabetEnd || kBytes[character] < 0) return std::nullopt;
  return static_cast<std::uint8_t>(kBytes[character]);
}

char32_t character_of(std::uint8_t byte) {
  return kCharacters[byte];
}

std::optional<std::string> bytes_of(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::optional<std::uint8_t> byte = byte_of(next_character(text, at));
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

}  // namespace nibble::text
