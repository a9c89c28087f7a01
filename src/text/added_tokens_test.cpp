#include "text/added_tokens.h"

#include <chrono>
#include <gtest/gtest.h>

namespace nibble::text {
namespace {

using Strings = std::vector<std::string>;

// Text as it is, tokens as "#id".
Strings found(std::vector<AddedToken> tokens, std::string_view text) {
  const AddedTokenFinder finder = AddedTokenFinder::make(std::move(tokens)).value();
  std::vector<AddedTokenFinder::Part> parts;
  finder.find(text, parts);
  Strings out;
  for (const auto& part : parts) {
    out.push_back(part.id ? "#" + std::to_string(*part.id) : std::string(part.text));
  }
  return out;
}

TEST(AddedTokens, TheLeftmostThenTheLongestIsFound) {
  const std::vector<AddedToken> tokens = {
      {.id = 1, .content = "<a>"}, {.id = 2, .content = "<a><b>"}, {.id = 3, .content = "a><"}};
  EXPECT_EQ(found(tokens, "x<a><b>y<a>"), (Strings{"x", "#2", "y", "#1"}));
  EXPECT_EQ(found(tokens, "<a><c"), (Strings{"#1", "<c"}));
  EXPECT_EQ(found(tokens, "a><a>"), (Strings{"#3", "a>"}));
  EXPECT_EQ(found(tokens, ""), Strings{});
  EXPECT_EQ(found({}, "text"), Strings{"text"});
}

TEST(AddedTokens, StripTakesWhiteSpaceAlong) {
  EXPECT_EQ(found({{.id = 1, .content = "x", .lstrip = true}}, "a \u3000\tx b"),
            (Strings{"a", "#1", " b"}));
  EXPECT_EQ(found({{.id = 1, .content = "x", .rstrip = true}}, "a x\u00a0\n b"),
            (Strings{"a ", "#1", "b"}));
}

TEST(AddedTokens, ASingleWordStandsAlone) {
  const std::vector<AddedToken> tokens = {{.id = 1, .content = "word", .single_word = true}};
  EXPECT_EQ(found(tokens, "word,word"), (Strings{"#1", ",", "#1"}));
  EXPECT_EQ(found(tokens, "sword words wordé _word word\u200d"),
            Strings{"sword words wordé _word word\u200d"});
}

// A file whose token is white space that takes white space along.
TEST(AddedTokens, LongRunsOfWhiteSpaceTakeLinearTime) {
  const std::string spaces(1'000'000, ' ');
  const auto start = std::chrono::steady_clock::now();
  const Strings parts =
      found({{.id = 1, .content = " ", .lstrip = true, .rstrip = true}}, spaces + "x");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(parts.size(), 1'000'001u);
  EXPECT_LT(took.count(), 10);
}

}  // namespace
}  // namespace nibble::text
