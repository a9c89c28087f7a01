// What the tests of this room share: the files that Hugging Face's tokenizers wrote, and their
// hash.
//
//   std::ifstream golden(golden_path("properties.txt"));
//   fmt::format("{:016x}", fnv(bytes));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nibble::text {

inline std::string golden_path(std::string_view name) {
  return std::string(NIBBLE_SOURCE_DIR "/tests/golden/tokenizers/").append(name);
}

// FNV-1a of 64 bits, as tools/oracle/unicode_additions.py has it.
inline std::uint64_t fnv(std::string_view bytes) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const char byte : bytes) {
    value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  }
  return value;
}

}  // namespace nibble::text
