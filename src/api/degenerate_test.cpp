#include "api/degenerate.h"

#include <gtest/gtest.h>

namespace nibble::api {
namespace {

std::string repeated(std::string_view unit, std::size_t times) {
  std::string text;
  while (times-- > 0) text += unit;
  return text;
}

constexpr const char* kProse =
    "The harbour lay quiet under a thin sheet of mist, and the boats that had come in during the "
    "night rocked so gently that their bells did not ring once before sunrise.";

TEST(Repetition, OneTokenOverAndOver) {
  const std::string text = repeated("!", 128);
  const auto found = find_repetition(text);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->unit, "!");
  EXPECT_EQ(found->times, 128u);
  EXPECT_EQ(found->covered, 128u);
  EXPECT_TRUE(find_repetition(repeated("!", 8)));
  EXPECT_FALSE(find_repetition(repeated("!", 7)));
}

TEST(Repetition, ShortPeriods) {
  const std::string text = repeated("the answer is ", 20);
  const auto found = find_repetition(text);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->unit.size(), 14u);
  EXPECT_EQ(found->times, 20u);
  const auto utf8 = find_repetition(repeated("\xE5\x95\x8A", 30));
  ASSERT_TRUE(utf8);
  EXPECT_EQ(utf8->unit.size(), 3u);
}

TEST(Repetition, LongestUnitAndOneLonger) {
  std::string unit;
  for (std::size_t index = 0; index < kMaxRepeatedBytes; ++index) {
    unit += static_cast<char>('0' + index);  // all different
  }
  EXPECT_TRUE(find_repetition(repeated(unit, 9)));
  EXPECT_FALSE(find_repetition(repeated(unit + "x", 9)));
}

TEST(Repetition, ProseIsNone) {
  EXPECT_FALSE(find_repetition(kProse));
  EXPECT_FALSE(find_repetition(""));
  EXPECT_FALSE(find_repetition("a"));
  EXPECT_FALSE(
      find_repetition("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19"));
}

TEST(Repetition, MoreThanHalfOfTheTextWhereverItLies) {
  const std::string prose = kProse;
  const std::string run = repeated("no ", 80);  // 240 bytes against 164 of prose
  EXPECT_TRUE(find_repetition(prose + run));
  EXPECT_TRUE(find_repetition(run + prose));
  EXPECT_TRUE(find_repetition(prose.substr(0, 80) + run + prose.substr(80)));
  EXPECT_FALSE(find_repetition(prose + repeated("no ", 50)));  // 150 bytes: less than half
}

// Every place and length of a run within other text, against the definition.
TEST(Repetition, AgreesWithTheDefinitionEverywhere) {
  for (std::size_t period = 1; period <= 4; ++period) {
    for (std::size_t before = 0; before <= 40; ++before) {
      for (std::size_t length = 8 * period; length <= 40; ++length) {
        for (const std::size_t after : {0, 1, 5, 20}) {
          std::string text;
          for (std::size_t index = 0; index < before; ++index)
            text += static_cast<char>('!' + index);
          for (std::size_t index = 0; index < length; ++index) {
            text += "wxyz"[index % period];
          }
          for (std::size_t index = 0; index < after; ++index)
            text += static_cast<char>('A' + index);
          const bool expected = 2 * length > before + length + after;
          EXPECT_EQ(find_repetition(text).has_value(), expected) << text;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nibble::api
