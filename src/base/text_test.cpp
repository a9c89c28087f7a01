#include "base/text.h"

#include <chrono>
#include <cstring>
#include <gtest/gtest.h>

namespace nibble {
namespace {

using Names = std::vector<std::string>;

TEST(Split, KeepsEmptyParts) {
  EXPECT_EQ(split("a,b", ','), (Names{"a", "b"}));
  EXPECT_EQ(split("a,,b,", ','), (Names{"a", "", "b", ""}));
  EXPECT_EQ(split("", ','), (Names{""}));
}

TEST(Join, PutsTheSeparatorBetween) {
  EXPECT_EQ(join(Names{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join(Names{"a"}, ", "), "a");
  EXPECT_EQ(join(Names{}, ", "), "");
}

TEST(Trim, RemovesWhiteSpaceAtBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(ToLower, TouchesAsciiOnly) {
  EXPECT_EQ(to_lower("GLM-5 \xC3\x84"), "glm-5 \xC3\x84");
}

TEST(Printable, ReplacesWhatWouldMoveTheCursor) {
  EXPECT_EQ(printable("a\x1b[31mb\nc\x7f"), "a?[31mb?c?");
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m"),
            "?1m");  // U+009B is another way to write ESC [
  EXPECT_EQ(printable("\xC3\xA4\xE2\x82\xAC"), "\xC3\xA4\xE2\x82\xAC");  // a umlaut, euro sign
  EXPECT_EQ(printable("a\xFF\xE2\x82"), "a??");  // broken UTF-8: one '?' a broken piece
  // Unicode 15, table 3-7: a continuation alone, an overlong slash, a surrogate, beyond U+10FFFF.
  EXPECT_EQ(printable("a\xA5"
                      "b"),
            "a?b");
  for (const char* faulty : {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_EQ(printable(faulty), std::string(std::strlen(faulty), '?'));
  }
  EXPECT_EQ(printable("\xEF\xBF\xBD"), "\xEF\xBF\xBD");  // U+FFFD itself
}

TEST(Printable, ReplacesWhatWouldTurnHideOrBreakTheText) {
  // The characters of Unicode's Bidi_Control, the zero-width ones, the line separators, a tag.
  for (const char* point :
       {"\xD8\x9C", "\xE2\x80\x8E", "\xE2\x80\x8F", "\xE2\x80\xAA", "\xE2\x80\xAB", "\xE2\x80\xAC",
        "\xE2\x80\xAD", "\xE2\x80\xAE", "\xE2\x81\xA6", "\xE2\x81\xA7", "\xE2\x81\xA8",
        "\xE2\x81\xA9", "\xE2\x80\x8B", "\xE2\x81\xA0", "\xEF\xBB\xBF", "\xE2\x80\xA8",
        "\xE2\x80\xA9", "\xC2\xAD", "\xF3\xA0\x81\x81"}) {
    EXPECT_EQ(printable("a" + std::string(point) + "b"), "a?b");
  }
  EXPECT_EQ(printable("\xE2\x80\x94\xD7\x90"), "\xE2\x80\x94\xD7\x90");  // a dash, alef
}

TEST(Printable, ShortensInTheMiddle) {
  EXPECT_EQ(printable("0123456789", 10), "0123456789");
  EXPECT_EQ(printable("0123456789", 9), "012...789");  // 9 - 3 = 6: three at each end
  EXPECT_EQ(printable("0123456789", 8), "012...89");
  EXPECT_EQ(printable(std::string(1000000, 'x')).size(), 120U);
}

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 10), 3U);  // k->s, e->i, +g
  EXPECT_EQ(edit_distance("saturday", "sunday", 10), 3U);
  EXPECT_EQ(edit_distance("", "abc", 10), 3U);
  EXPECT_EQ(edit_distance("abc", "abc", 0), 0U);
}

TEST(EditDistance, ASwapOfNeighboursIsOneEdit) {
  EXPECT_EQ(edit_distance("ab", "ba", 10), 1U);
  EXPECT_EQ(edit_distance("modle", "model", 1), 1U);
  EXPECT_EQ(edit_distance("ca", "abc", 10), 3U);  // no letter is edited twice
}

TEST(EditDistance, StopsAtTheLimit) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 3), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting", 2), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting", 0), 1U);
  EXPECT_EQ(edit_distance("a", std::string(1000000, 'b'), 5), 6U);
}

TEST(NearestNames, FindsASwap) {
  EXPECT_EQ(nearest_names("--modle", Names{"--model", "--machine"}), Names{"--model"});
}

TEST(NearestNames, IgnoresCaseDashesAndSpaces) {
  const Names models = {"deepseek-v3", "glm-5-nvfp4", "glm-5-fp8", "kimi-k2"};
  ASSERT_FALSE(nearest_names("glm5-nvfp4", models).empty());
  EXPECT_EQ(nearest_names("glm5-nvfp4", models)[0], "glm-5-nvfp4");
  EXPECT_EQ(nearest_names("GLM-5-NVFP4", models)[0], "glm-5-nvfp4");
  EXPECT_EQ(nearest_names("GLM 5_nvfp4", models)[0], "glm-5-nvfp4");
  EXPECT_EQ(nearest_names("deepsek-v3", models), Names{"deepseek-v3"});
}

TEST(NearestNames, FindsRunsOfLettersAndDigitsInOrder) {
  const Names machines = {"h200", "rtx-pro-6000-server", "b200", "rtx-5090"};
  // "rtx-5090" is only two edits away, but another number is another machine.
  EXPECT_EQ(nearest_names("rtx6000", machines), (Names{"rtx-pro-6000-server", "rtx-5090"}));
  EXPECT_TRUE(nearest_names("6000rtx", machines).empty());  // wrong order, far in edits
}

TEST(NearestNames, PutsTheNearestFirstAndKeepsAtMostThree) {
  // "h200": exact 0 edits; "b200": 1 edit (limit 4 / 3 = 1); "h200-nvl" contains it.
  const Names machines = {"gb200", "h200-nvl", "b200", "h200", "h200-pcie-x8"};
  EXPECT_EQ(nearest_names("H200", machines), (Names{"h200", "b200", "h200-nvl"}));
  EXPECT_EQ(nearest_names("H200", machines, 1), Names{"h200"});
}

TEST(NearestNames, OffersNothingWhenNothingIsNear) {
  const Names fields = {"m", "n", "k", "name"};
  EXPECT_TRUE(nearest_names("bandwidth", fields).empty());  // although it contains an "n"
  EXPECT_TRUE(nearest_names("", fields).empty());
  EXPECT_TRUE(nearest_names("--", fields).empty());
  EXPECT_TRUE(nearest_names("x", Names{}).empty());
}

TEST(DidYouMean, MakesTheEndOfASentence) {
  const Names one = {"power_w"};
  const Names more = {"level_a", "level_b", "level_c", "level_d"};
  EXPECT_EQ(did_you_mean("pwer_w", one), "; did you mean power_w?");
  EXPECT_EQ(did_you_mean("level", more), "; did you mean level_a, level_b or level_c?");
  EXPECT_EQ(did_you_mean("quite_else", one), "");
}

TEST(GlobMatch, MatchesTheWholeText) {
  EXPECT_TRUE(glob_match("abc", "abc"));
  EXPECT_FALSE(glob_match("abc", "abcd"));
  EXPECT_FALSE(glob_match("abcd", "abc"));
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_FALSE(glob_match("", "a"));
}

TEST(GlobMatch, StarsAndQuestionMarks) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("*", "anything"));
  EXPECT_TRUE(glob_match("model.layers.*.mlp.*", "model.layers.12.mlp.gate"));
  EXPECT_FALSE(glob_match("model.layers.*.mlp.*", "model.layers.12.attn.q"));
  EXPECT_TRUE(glob_match("a*b*c", "a-b-b-c"));
  EXPECT_FALSE(glob_match("a*b*c", "a-c-b"));
  EXPECT_TRUE(glob_match("a?c", "abc"));
  EXPECT_FALSE(glob_match("a?c", "ac"));
  EXPECT_TRUE(glob_match("**a**", "bab"));
}

TEST(GlobMatch, Sets) {
  EXPECT_TRUE(glob_match("layer[0-2]", "layer1"));
  EXPECT_FALSE(glob_match("layer[0-2]", "layer3"));
  EXPECT_TRUE(glob_match("[!a-c]x", "dx"));
  EXPECT_FALSE(glob_match("[^a-c]x", "bx"));
  EXPECT_TRUE(glob_match("[]]", "]"));    // a ']' that stands first is a member
  EXPECT_TRUE(glob_match("[a-]", "-"));   // a '-' that stands last is a member
  EXPECT_TRUE(glob_match("[ab", "[ab"));  // no set without its ']'
  EXPECT_TRUE(glob_match("*[0-9]", "ab12"));
  EXPECT_FALSE(glob_match("[ab]", ""));
}

TEST(GlobMatch, DoesNotExplode) {
  // A recursive matcher takes about 2^30 steps for this; ours at most 61 * 3000 * a few.
  std::string pattern;
  for (int index = 0; index < 30; ++index) pattern += "*a";
  pattern += "b";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(glob_match(pattern, std::string(3000, 'a')));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("\xC2\xB5s"), 2U);             // micro sign, s
  EXPECT_EQ(display_width("\xE2\x82\xAC"), 1U);          // euro sign
  EXPECT_EQ(display_width("\xF0\x9F\x98\x80"), 1U);      // one code point
  EXPECT_EQ(display_width("e\xCC\x81"), 1U);             // e with a combining acute accent
  EXPECT_EQ(display_width("\x1b[1;31mred\x1b[0m"), 3U);  // colours take no room
  EXPECT_EQ(display_width("\x1b["), 2U);                 // not a whole sequence
  EXPECT_EQ(display_width(""), 0U);
}

}  // namespace
}  // namespace nibble
