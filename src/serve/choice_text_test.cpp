#include "serve/choice_text.h"

#include <gtest/gtest.h>

#include "serve/test_model.h"

namespace nibble::serve {
namespace {

Parameters asking(std::vector<std::string> stop = {}, bool logprobs = true) {
  Parameters asked;
  asked.stop = std::move(stop);
  if (logprobs) asked.sampling.logprobs = 0;
  return asked;
}

struct Given {
  std::string text;
  std::vector<std::string> deltas;
  std::vector<GivenToken> tokens;
  std::string bytes;  // of all tokens
};

Given run(const std::vector<engine::TokenId>& ids, const Parameters& asked) {
  ChoiceText text(test_tokenizer(), asked);
  Given given;
  const auto take = [&] {
    given.deltas.push_back(text.take_text());
    given.text += given.deltas.back();
    for (GivenToken& token : text.take_tokens()) {
      given.bytes += token.bytes;
      // Text that a token gave is never given after the token.
      EXPECT_LE(given.bytes.size(), given.text.size());
      given.tokens.push_back(std::move(token));
    }
  };
  for (const engine::TokenId id : ids) {
    if (!text.feed({.id = id, .logprob = -1})) break;
    take();
  }
  text.finish();
  take();
  return given;
}

std::vector<engine::TokenId> bytes_as_ids(std::string_view text) {
  std::vector<engine::TokenId> ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

TEST(ChoiceText, EveryDeltaIsWholeCharacters) {
  // An emoji of several code points, a combining accent, Hangul: one byte a token.
  const std::string text = "a\U0001F469\u200D\U0001F680e\u0301\uD55C!";
  const Given given = run(bytes_as_ids(text), asking());
  EXPECT_EQ(given.text, text);
  EXPECT_EQ(given.bytes, text);
  EXPECT_EQ(given.tokens.size(), text.size());
  for (const std::string& delta : given.deltas) EXPECT_TRUE(is_valid_utf8(delta)) << delta;
}

TEST(ChoiceText, BrokenCharactersAreReplacedAndTheirBytesKept) {
  for (const std::string& bytes :
       {std::string("a\xFF"), std::string("\xE4\xB8"), std::string("\xE4\xB8z\xC3\xC3\xA9"),
        std::string("\xF0\x9F\xF0\x9F\x98\x80"), std::string("\xE0\x80x")}) {
    const Given given = run(bytes_as_ids(bytes), asking());
    EXPECT_EQ(given.text, make_valid(bytes));
    std::string all;
    for (const GivenToken& token : given.tokens) all += token.bytes;
    EXPECT_EQ(all, bytes);
    EXPECT_EQ(run(bytes_as_ids(bytes), asking({}, false)).text, given.text);
  }
}

// Each text, each stop string in it, each way in which tokens may end: "he" is one token.
TEST(ChoiceText, AStopStringEndsTheTextWhereverTokensEnd) {
  const std::string text = "xhey \u00E9STOP after";
  std::vector<engine::TokenId> ids = test_tokenizer().encode(text, {.add_special = false}).value();
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    for (std::size_t size = 1; begin + size <= text.size() && size < 8; ++size) {
      const std::string stop = text.substr(begin, size);
      if (!is_valid_utf8(stop)) continue;
      const std::string expected = text.substr(0, text.find(stop));
      const Given given = run(ids, asking({stop}));
      EXPECT_EQ(given.text, expected) << stop;
      EXPECT_EQ(given.bytes, expected) << stop;
      Parameters including = asking({stop});
      including.include_stop = true;
      const Given with = run(ids, including);
      EXPECT_EQ(with.text, expected + stop);
      EXPECT_EQ(with.bytes, expected + stop);
    }
  }
}

TEST(ChoiceText, WhatMayBeginAStopStringWaits) {
  const Given given = run(bytes_as_ids("abSTOX"), asking({"STOP"}));
  EXPECT_EQ(given.deltas, (std::vector<std::string>{"a", "b", "", "", "", "STOX", ""}));
}

// vLLM looks for stop strings that end beyond the first min_tokens tokens, wherever they begin.
TEST(ChoiceText, AStopStringWithinTheLeastTokensIsText) {
  const auto text_with = [](std::int64_t min_tokens, std::string stop) {
    Parameters asked = asking({std::move(stop)});
    asked.min_tokens = min_tokens;
    return run(bytes_as_ids("abcabcd"), asked).text;
  };
  EXPECT_EQ(text_with(0, "bc"), "a");
  EXPECT_EQ(text_with(2, "bc"), "a");
  EXPECT_EQ(text_with(3, "bc"), "abca");
  EXPECT_EQ(text_with(5, "bc"), "abca");
  EXPECT_EQ(text_with(6, "bc"), "abcabcd");
  EXPECT_EQ(text_with(3, "a"), "abc");
  EXPECT_EQ(text_with(6, "d"), "abcabc");
  EXPECT_EQ(text_with(7, "d"), "abcabcd");  // also at the end of all
}

TEST(ChoiceText, SpecialTokensAreLeftOutUnlessWanted) {
  const std::vector<engine::TokenId> ids = {'a', kUser, 'b', 265};  // the last: no token
  Given given = run(ids, asking());
  EXPECT_EQ(given.text, "ab");
  ASSERT_EQ(given.tokens.size(), 4u);
  EXPECT_EQ(given.tokens[1].bytes, "");
  Parameters asked = asking();
  asked.skip_special = false;
  given = run(ids, asked);
  EXPECT_EQ(given.text, "a<|user|>b");
  EXPECT_EQ(given.tokens[1].bytes, "<|user|>");
}

TEST(ChoiceText, OffsetsCountCharacters) {
  const Given given = run({195, 169, 'b', kHe, 'c'}, asking());  // é in two tokens
  std::vector<std::int64_t> offsets;
  for (const GivenToken& token : given.tokens) offsets.push_back(token.text_offset);
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 0, 1, 2, 4}));
}

}  // namespace
}  // namespace nibble::serve
