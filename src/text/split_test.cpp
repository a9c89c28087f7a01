#include "text/split.h"

#include <gtest/gtest.h>

namespace nibble::text {
namespace {

using Strings = std::vector<std::string>;

Strings pieces(std::string_view pattern, SplitBehavior behavior, std::string_view text,
               bool invert = false) {
  const Result<SplitRule> rule = SplitRule::make(pattern, behavior, invert);
  EXPECT_TRUE(rule.ok());
  SearchRegex::Workspace workspace;
  std::vector<std::string_view> found;
  EXPECT_TRUE(rule.ok() && rule->apply(text, workspace, found).ok());
  return {found.begin(), found.end()};
}

// The examples of Hugging Face's documentation of Split, by hand for the others.
TEST(Split, EachBehaviour) {
  const std::string_view text = "the-final--countdown";
  EXPECT_EQ(pieces("-", SplitBehavior::kRemoved, text), (Strings{"the", "final", "countdown"}));
  EXPECT_EQ(pieces("-", SplitBehavior::kIsolated, text),
            (Strings{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(pieces("-", SplitBehavior::kMergedWithPrevious, text),
            (Strings{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(pieces("-", SplitBehavior::kMergedWithNext, text),
            (Strings{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(pieces("-", SplitBehavior::kContiguous, text),
            (Strings{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(pieces("-", SplitBehavior::kRemoved, text, true), (Strings{"-", "-", "-"}));
}

TEST(Split, Edges) {
  for (const SplitBehavior behavior :
       {SplitBehavior::kRemoved, SplitBehavior::kIsolated, SplitBehavior::kMergedWithPrevious,
        SplitBehavior::kMergedWithNext, SplitBehavior::kContiguous}) {
    EXPECT_EQ(pieces("-", behavior, ""), Strings{});
    EXPECT_EQ(pieces("-", behavior, "abc"), Strings{"abc"});
  }
  EXPECT_EQ(pieces("-", SplitBehavior::kRemoved, "--"), Strings{});
  EXPECT_EQ(pieces("-", SplitBehavior::kMergedWithPrevious, "-a"), (Strings{"-", "a"}));
  EXPECT_EQ(pieces("-", SplitBehavior::kMergedWithNext, "a-"), (Strings{"a", "-"}));
  EXPECT_EQ(pieces("x*", SplitBehavior::kIsolated, "axb"), (Strings{"a", "x", "b"}));
  EXPECT_EQ(pieces("(?=世)", SplitBehavior::kIsolated, "a世世"), (Strings{"a", "世", "世"}));
}

TEST(Split, TheByteLevelPattern) {
  EXPECT_EQ(pieces(kByteLevelPattern, SplitBehavior::kIsolated, "It's 3  o'clock!\n"),
            (Strings{"It", "'s", " 3", " ", " o", "'", "clock", "!", "\n"}));
}

TEST(Split, WrongPatternsAreRefused) {
  EXPECT_FALSE(SplitRule::make("(", SplitBehavior::kRemoved, false).ok());
  EXPECT_FALSE(SplitRule::make("(?<=a*)", SplitBehavior::kRemoved, false).ok());
}

}  // namespace
}  // namespace nibble::text
