#include "base/utf8.h"

#include <fstream>
#include <gtest/gtest.h>

namespace nibble {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
  }
  return bytes;
}

TEST(Utf8, CharactersGoThereAndBack) {
  for (const char32_t character : {0x0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF}) {
    std::string text;
    append_character(text, character);
    std::size_t at = 0;
    EXPECT_EQ(next_character(text, at), character);
    EXPECT_EQ(at, text.size());
    EXPECT_TRUE(is_valid_utf8(text));
  }
}

// Unicode 15, table 3-7.
TEST(Utf8, WhatIsNoCharacterIsNotValid) {
  for (const char* bytes :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE4\xB8", "\xC3", "a\xFF"}) {
    EXPECT_FALSE(is_valid_utf8(bytes));
  }
}

// Whole, and as a stream in single bytes.
TEST(Utf8, FaultyBytesAreReplacedAsByPython) {
  std::ifstream golden(NIBBLE_SOURCE_DIR "/tests/golden/tokenizers/invalid.txt");
  std::string line;
  std::size_t lines = 0;
  while (std::getline(golden, line)) {
    const std::size_t space = line.find(' ');
    const std::string bytes = from_hex(line.substr(0, space));
    const std::string expected = from_hex(line.substr(space + 1));
    EXPECT_EQ(make_valid(bytes), expected) << line;
    Utf8Stream stream;
    std::string out;
    for (const char byte : bytes) stream.feed({&byte, 1}, out);
    stream.finish(out);
    EXPECT_EQ(out, expected) << line;
    ++lines;
  }
  EXPECT_EQ(lines, 300u);
}

TEST(Utf8Stream, GivesACharacterWithItsLastByte) {
  Utf8Stream stream;
  std::string out;
  stream.feed("a\xF0\x9F", out);
  EXPECT_EQ(out, "a");
  stream.feed("\x98", out);
  EXPECT_EQ(out, "a");
  stream.feed("\x80z", out);
  EXPECT_EQ(out, "a\xF0\x9F\x98\x80z");
  stream.feed("\xC3", out);
  stream.finish(out);
  stream.finish(out);  // nothing is left
  EXPECT_EQ(out, "a\xF0\x9F\x98\x80z\uFFFD");
}

}  // namespace
}  // namespace nibble
