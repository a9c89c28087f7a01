#include "text/stop_buffer.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace nibble::text {
namespace {

// What is to come out, by looking at every end in the whole text: the first at which a stop string
// ends, and there the longest.
struct Expected {
  std::string text;
  bool stopped = false;
};

Expected expected(const std::string& text, const std::vector<std::string>& stops, bool include) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      const bool ends = !stop.empty() && stop.size() <= end &&
                        text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (ends) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, include ? end : end - longest), true};
  }
  return {text, false};
}

// Feeds the text cut at `cuts`; each part that comes out must be a part of what is to come out.
void expect_split(const std::string& text, const std::vector<std::string>& stops, bool include,
                  const std::vector<std::size_t>& cuts) {
  const Expected wanted = expected(text, stops, include);
  StopBuffer buffer(stops, include);
  std::string out;
  std::size_t start = 0;
  for (const std::size_t cut : cuts) {
    out += buffer.feed(std::string_view(text).substr(start, cut - start));
    ASSERT_EQ(wanted.text.compare(0, out.size(), out), 0) << text << " sent too much: " << out;
    start = cut;
  }
  out += buffer.feed(std::string_view(text).substr(start));
  EXPECT_EQ(buffer.stopped(), wanted.stopped) << text;
  out += buffer.finish();
  EXPECT_EQ(out, wanted.text) << text;
  EXPECT_EQ(buffer.matched().has_value(), wanted.stopped);
}

void expect_every_split(const std::string& text, const std::vector<std::string>& stops,
                        bool include) {
  expect_split(text, stops, include, {});
  for (std::size_t one = 0; one <= text.size(); ++one) {
    expect_split(text, stops, include, {one});
    for (std::size_t two = one; two <= text.size(); ++two) {
      expect_split(text, stops, include, {one, two});
      for (std::size_t three = two; three <= text.size(); ++three) {
        expect_split(text, stops, include, {one, two, three});
      }
    }
  }
}

TEST(StopBuffer, EverySplitOfEveryText) {
  const std::vector<std::vector<std::string>> sets = {
      {},
      {""},
      {"</s>"},
      {"ab", "abc", "bc", "c"},
      {"abcd", "bc"},
      {"abcabd"},
      {"aab", "aaab"},
      {"\n\n", "\nUser:"},
      {"\u00e9", "\u00e9\u00e8"},
      {"\U0001F44B\U0001F3FD"},
      {"she", "he", "hers", "s"},
      {"aaaa"},
  };
  const std::vector<std::string> texts = {
      "",
      "abcd",
      "aabcabcabdx",
      "xaaab",
      "one</s>two",
      "a\n\nUser",
      "a\nUse\nUser: b",
      "caf\u00e9\u00e8!",
      "hi \U0001F44B\U0001F3FD x",
      "ushers",
      "aaaaaaa",
      "<</s></s>",
      "\U0001F44B\U0001F44B\U0001F3FD",
  };
  for (const auto& stops : sets) {
    for (const std::string& text : texts) {
      expect_every_split(text, stops, false);
      expect_every_split(text, stops, true);
    }
  }
}

TEST(StopBuffer, TheOneThatIsCompleteFirstStops) {
  StopBuffer buffer({"abcd", "bc"});
  EXPECT_EQ(buffer.feed("xab"), "x");
  EXPECT_EQ(buffer.feed("cd"), "a");
  EXPECT_EQ(buffer.matched(), std::size_t{1});
  EXPECT_EQ(buffer.feed("more"), "");
  EXPECT_EQ(buffer.finish(), "");
}

TEST(StopBuffer, OfThoseThatEndTogetherTheLongestIsTaken) {
  StopBuffer buffer({"c", "abc", "bc", "abc"});
  EXPECT_EQ(buffer.feed("xabc"), "x");
  EXPECT_EQ(buffer.matched(), std::size_t{1});
}

TEST(StopBuffer, HoldsNoMoreThanMayBecomeAStopString) {
  StopBuffer buffer({"\n\nUser:"});
  EXPECT_EQ(buffer.feed("one\n"), "one");
  EXPECT_EQ(buffer.feed("\n"), "");
  EXPECT_EQ(buffer.feed("\n"), "\n");
  EXPECT_EQ(buffer.feed("Use"), "");
  EXPECT_EQ(buffer.feed("d"), "\n\nUsed");
  EXPECT_EQ(buffer.feed("\n\nU"), "");
  EXPECT_EQ(buffer.finish(), "\n\nU");
  EXPECT_FALSE(buffer.stopped());
}

TEST(StopBuffer, PiecesThatMayNotStopTheText) {
  StopBuffer buffer({"bc", "c!"});
  EXPECT_EQ(buffer.feed("abc", false), "a");  // "bc" may go on, as "c!"
  EXPECT_EQ(buffer.feed("ab"), "bca");
  EXPECT_EQ(buffer.feed("c"), "");
  EXPECT_EQ(buffer.matched(), 0u);
  StopBuffer across({"bc", "c!"});
  EXPECT_EQ(across.feed("abc", false), "a");
  EXPECT_EQ(across.feed("!"), "b");  // "c!" begins in the first piece, ends in the second
  EXPECT_EQ(across.matched(), 1u);
  StopBuffer whole({"bc"});
  EXPECT_EQ(whole.feed("abc", false), "a");
  EXPECT_EQ(whole.finish(), "bc");
}

TEST(StopBuffer, WholeCharactersStayWhole) {
  // Both begin with the bytes F0 9F 91: what is held begins with a character, and ends with one.
  StopBuffer buffer({"\U0001F44B!"});
  const std::string text = "\U0001F44A\U0001F44B\U0001F44B?";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    static_cast<void>(next_character(text, at));
    EXPECT_TRUE(is_valid_utf8(buffer.feed(std::string_view(text).substr(start, at - start))));
  }
  EXPECT_FALSE(buffer.stopped());
}

// A naive search of what is held would take some 10^11 steps here.
TEST(StopBuffer, LongRepetitionsTakeTimeInProportion) {
  const std::string stop = std::string(100'000, 'a') + "b";
  StopBuffer buffer({stop});
  std::string out;
  for (int piece = 0; piece < 10'000; ++piece) out += buffer.feed(std::string(100, 'a'));
  out += buffer.finish();
  EXPECT_EQ(out.size(), 1'000'000u);
  EXPECT_FALSE(buffer.stopped());
}

}  // namespace
}  // namespace nibble::text
