#include "serve/token_bound.h"

#include <gtest/gtest.h>

#include "serve/test_model.h"

namespace nibble::serve {
namespace {

// Of the test's tokens "he" has two bytes and the names of special tokens up to 13
// (<|assistant|>: a s i n t < | >), <bos> five (b o), <|poison|> ten (p), <|user|> eight (u r e).
TEST(TokenBound, CountsByTheLongestTokenOfEachByte) {
  const TokenBound bound(test_tokenizer(), kVocabulary);
  EXPECT_EQ(bound.least_tokens(""), 0);
  EXPECT_EQ(bound.least_tokens("qqqqq"), 5);  // q is in no other token
  EXPECT_EQ(bound.least_tokens("hhhh"), 2);   // he
  EXPECT_EQ(bound.least_tokens("bbbbb"), 1);  // <bos>
  EXPECT_EQ(bound.least_tokens("bbbbbb"), 2);
  EXPECT_EQ(bound.least_tokens("<|assistant|>"), 1);
  // 26 letters of two bytes: each byte may be a fourth of a byte of the longest token, 13.
  std::string accents;
  for (int at = 0; at < 26; ++at) accents += "\u00E9";
  EXPECT_EQ(bound.least_tokens(accents), 1);
  accents += "\u00E9";
  EXPECT_EQ(bound.least_tokens(accents), 2);
  EXPECT_EQ(bound.least_tokens("q\u0301"), 1);  // q may become a part of the accent
}

TEST(TokenBound, NeverMoreThanThereAre) {
  const text::Tokenizer tokenizer = test_tokenizer();
  const TokenBound bound(tokenizer, kVocabulary);
  for (const std::string& text : std::vector<std::string>{
           "hehehe", "<|assistant|><bos>he", "the rest of it", "h\u00E9 \U0001F680 he",
           "<|user|>hey", "<|poison|><|poison|>", "\n\n  \t"}) {
    const auto tokens = std::ssize(must(tokenizer.encode(text, {.add_special = false})));
    EXPECT_LE(bound.least_tokens(text), tokens) << text;
  }
}

}  // namespace
}  // namespace nibble::serve
