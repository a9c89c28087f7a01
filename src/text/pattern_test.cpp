#include "text/pattern.h"

#include <fstream>
#include <gtest/gtest.h>

#include "base/regex.h"
#include "base/utf8.h"
#include "text/golden_test.h"
#include "text/pattern_class.h"

namespace nibble::text {
namespace {

std::string translated(std::string_view pattern) {
  const Result<std::string> result = translate_pattern(pattern);
  EXPECT_TRUE(result.ok()) << pattern << ": " << (result.ok() ? "" : result.error().message);
  return result.ok() ? *result : "";
}

// What one search finds in the text, or "none".
std::string first(std::string_view pattern, const std::string& text) {
  const Result<SearchRegex> regex = SearchRegex::compile(translated(pattern));
  EXPECT_TRUE(regex.ok()) << pattern << ": " << (regex.ok() ? "" : regex.error().message);
  if (!regex.ok()) return "";
  SearchRegex::Workspace workspace;
  const auto match = regex->find(text, 0, workspace);
  EXPECT_TRUE(match.ok());
  if (!match.ok() || !match->has_value()) return "none";
  return text.substr((*match)->begin, (*match)->end - (*match)->begin);
}

TEST(Pattern, WhatTheEnginesAgreeOnStays) {
  EXPECT_EQ(translated("a+b*?c?+"), "a+b*?c?+");
  EXPECT_EQ(translated("(?:a|b){1,3}"), "(?:a|b){1,3}");
  EXPECT_EQ(translated("a(?!b)(?=c)(?<=a)(?<!d)(?>e)"), "a(?!b)(?=c)(?<=a)(?<!d)(?>e)");
  EXPECT_EQ(translated("\\s"), "[\\p{White_Space}]");
  EXPECT_EQ(translated("\\S"), "[^\\p{White_Space}]");
  EXPECT_EQ(translated("\\p{Lt}"), "[\\p{Lt}]");
  EXPECT_EQ(translated("\\P{Lt}"), "[^\\p{Lt}]");
  EXPECT_EQ(translated("\\p{^Lt}"), "[^\\p{Lt}]");
}

// Oniguruma 6.9, doc/RE, and as Hugging Face's tokenizers 0.23 splits.
TEST(Pattern, DifferencesAreBridged) {
  EXPECT_EQ(first("a{1,2}+", "aaaaab"), "aaaaa");      // a repeated interval, not a possessive one
  EXPECT_EQ(first("xa{1,2}+a", "xaaaaab"), "xaaaaa");  // and it gives back
  EXPECT_EQ(first("\\s", "\xE1\xA0\x8E"), "none");     // U+180E is no white space
  EXPECT_EQ(first("\\s", "\xC2\x85"), "\xC2\x85");
  EXPECT_EQ(first("\\v", "\n\v"), "\v");
  EXPECT_EQ(first(".+", "\n\rab\n"), "\rab");
  EXPECT_EQ(first("\\w+", "!e\xCC\x81_1"), "e\xCC\x81_1");
  EXPECT_EQ(first("[\\x{4E00}-\\u9FA5]+", "a世界"), "世界");
  EXPECT_EQ(first("(?i:'S)", "'\xC5\xBF"), "'\xC5\xBF");  // U+017F is a small s
}

TEST(Pattern, BracketsHoldCharactersRangesAndClasses) {
  EXPECT_EQ(first("[^\\r\\n\\p{L}]+", "ab \t1\n"), " \t1");
  EXPECT_EQ(first("[-a]+", "b-a"), "-a");
  EXPECT_EQ(first("[a-]+", "b-a"), "-a");
  EXPECT_EQ(first("[^-a]+", "-ab"), "b");
  EXPECT_EQ(first("[\\[-\\]]+", "a[\\]"), "[\\]");
  EXPECT_EQ(first("[&~(]+", "a&(~"), "&(~");
  EXPECT_EQ(first("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+", "a.^Bc"), "^Bc");
}

TEST(Pattern, WhatIsTakenDifferentlyIsRefused) {
  for (const char* pattern : {"^a",
                              "a$",
                              "\\Aa",
                              "a\\z",
                              "\\bword",
                              "(a)\\1",
                              "(?i)a",
                              "(?m:a)",
                              "(?<name>a)",
                              "(?#a)",
                              "(*FAIL)",
                              "\\h",
                              "\\R",
                              "\\X",
                              "\\K",
                              "\\C",
                              "\\N",
                              "\\G",
                              "[[:alpha:]]",
                              "[a&&b]",
                              "[a[b]]",
                              "[]a]",
                              "[a-\\d]",
                              "[\\d-a]",
                              "[a-c-e]",
                              "[z-a]",
                              "[\\W]",
                              "[\\D]",
                              "[\\P{L}]",
                              "\\p{Greek}",
                              "\\p{C}",
                              "\\p{L",
                              "\\pL",
                              "a**",
                              "a{2}?",
                              "a{,2}",
                              "a{2,1}",
                              "a{1001}",
                              "{",
                              "a{b",
                              "(?=a)*",
                              "*a",
                              "(|*)",
                              "(a",
                              "a)",
                              "[a",
                              "a\\",
                              "\\x80",
                              "\\x{D800}",
                              "\\x{110000}",
                              "\\u12",
                              "(?i:[ab])",
                              "(?i:\\p{L})",
                              "(?i:ss)",
                              "(?i:é)",
                              "(?i:of\\x66)",
                              "\\012",
                              "\xff",
                              ""}) {
    const Result<std::string> result = translate_pattern(pattern);
    ASSERT_FALSE(result.ok()) << pattern << " became " << *result;
    EXPECT_EQ(result.error().kind, ErrorKind::kInput);
  }
  EXPECT_FALSE(translate_pattern(std::string(10000, 'a')).ok());
  EXPECT_FALSE(translate_pattern(std::string(60, '(') + "a" + std::string(60, ')')).ok());
}

std::string every_character() {
  std::string text;
  for (char32_t character = 1; character < 0x110000; ++character) {
    if (character == 0xD800) character = 0xE000;
    append_character(text, character);
  }
  return text;
}

struct ClassContent {
  std::size_t count = 0;
  std::string ranges;  // "41-5a;61-7a;"
};

ClassContent content_of(const std::string& pattern, const std::string& text) {
  ClassContent content;
  const SearchRegex regex = SearchRegex::compile(pattern).value();
  SearchRegex::Workspace workspace;
  for (std::size_t from = 0;;) {
    const auto match = regex.find(text, from, workspace).value();
    if (!match) return content;
    from = match->end;
    std::size_t at = match->begin;
    char32_t low = next_character(text, at);
    char32_t high = low;
    const auto close = [&] {
      content.ranges +=
          fmt::format("{:x}-{:x};", static_cast<unsigned>(low), static_cast<unsigned>(high));
      content.count += high - low + 1;
    };
    while (at < match->end) {  // the gap of the surrogates is in the numbers and not in the text
      const char32_t character = next_character(text, at);
      if (character != high + 1) {
        close();
        low = character;
      }
      high = character;
    }
    close();
  }
}

// Every character of Unicode is in the classes that Hugging Face's tokenizers has it in.
TEST(Pattern, ClassesAreThoseOfTheOracle) {
  std::ifstream golden(golden_path("properties.txt"));
  const std::string text = every_character();
  std::size_t classes = 0;
  std::string name;
  std::size_t count = 0;
  std::string hash;
  while (golden >> name >> count >> hash) {
    const ClassContent content = content_of("[" + class_members(name, false).value() + "]+", text);
    EXPECT_EQ(content.count, count) << name;
    EXPECT_EQ(fmt::format("{:016x}", fnv(content.ranges)), hash) << name;
    ++classes;
  }
  EXPECT_EQ(classes, 35u);
}

}  // namespace
}  // namespace nibble::text
