#include "base/regex.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace nibble {
namespace {

bool matches(std::string_view pattern, std::string_view text) {
  const Result<Regex> regex = Regex::compile(pattern);
  EXPECT_TRUE(regex.ok()) << pattern;
  return regex.ok() && regex->matches_start(text);
}

// Expected values are those of Python 3.11: bool(re.match(pattern, text)).
TEST(Regex, MatchesAsPythonDoes) {
  EXPECT_TRUE(matches(".*self_attn.*", "model.layers.0.self_attn.o_proj"));
  EXPECT_TRUE(matches("model[.]layers", "model.layers.3"));  // a prefix is enough
  EXPECT_FALSE(matches("layers", "model.layers.3"));         // at the start
  EXPECT_TRUE(matches(".*mlp[.]gate$", "model.layers.3.mlp.gate"));
  EXPECT_FALSE(matches(".*mlp[.]gate$", "model.layers.3.mlp.gate_proj"));
  EXPECT_TRUE(matches("model\\.layers\\.(0|1|2)\\..*", "model.layers.2.mlp"));
  EXPECT_FALSE(matches("^(?!.*experts).*proj$", "model.layers.2.mlp.experts.0.up_proj"));
  EXPECT_TRUE(matches("^(?!.*experts).*proj$", "model.layers.2.self_attn.o_proj"));
  EXPECT_TRUE(matches("", "anything"));
}

TEST(Regex, WrongPatternsAreNamed) {
  for (const char* pattern : {"(", "[", "a{2,1}", "*", "(?<name"}) {
    const Result<Regex> regex = Regex::compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_NE(regex.error().message.find(pattern), std::string::npos);
  }
  EXPECT_FALSE(Regex::compile(std::string(5000, 'a')).ok());
}

TEST(Regex, AMatchThatWouldTakeForEverIsGivenUpOn) {
  const Regex regex = Regex::compile("(a+)+$").value();
  EXPECT_FALSE(regex.matches_start("b"));
  EXPECT_FALSE(regex.gave_up());
  EXPECT_FALSE(regex.matches_start(std::string(64, 'a') + "b"));  // 2^64 ways
  EXPECT_TRUE(regex.gave_up());
  const Regex copy = regex;
  EXPECT_TRUE(copy.gave_up());
}

TEST(Regex, TextMayHoldAnyBytes) {
  EXPECT_TRUE(matches(".*x", std::string("\xff\0x", 3)));
}

std::vector<std::string> found(std::string_view pattern, const std::string& text) {
  const Result<SearchRegex> regex = SearchRegex::compile(pattern);
  EXPECT_TRUE(regex.ok()) << pattern;
  SearchRegex::Workspace workspace;
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (regex.ok() && from <= text.size()) {
    const auto match = regex->find(text, from, workspace);
    EXPECT_TRUE(match.ok());
    if (!match.ok() || !match->has_value() || (*match)->end == (*match)->begin) break;
    parts.push_back(text.substr((*match)->begin, (*match)->end - (*match)->begin));
    from = (*match)->end;
  }
  return parts;
}

using Strings = std::vector<std::string>;

TEST(SearchRegex, FindsCharactersAndClassesNotBytes) {
  EXPECT_EQ(found("\\p{L}+", "grüße, 世界 2"), (Strings{"grüße", "世界"}));
  EXPECT_EQ(found("[^x]", "é世😀"), (Strings{"é", "世", "😀"}));
  EXPECT_EQ(found("(?i:É)", "é"), (Strings{"é"}));
  EXPECT_EQ(found("\\d", "1٣"), (Strings{"1", "٣"}));
  EXPECT_EQ(found("a(?!b)", "abac"), (Strings{"a"}));
  EXPECT_EQ(found("x", "abc"), Strings{});
}

TEST(SearchRegex, MayHoldNulBytesAndBeEmpty) {
  EXPECT_EQ(found("[^a]+", std::string("a\0b", 3)), (Strings{std::string("\0b", 2)}));
  EXPECT_EQ(found("x", ""), Strings{});
}

TEST(SearchRegex, WrongPatternsAreNamed) {
  for (const char* pattern : {"(", "\\p{Nonsense}", "\\C", "\xff"}) {
    const Result<SearchRegex> regex = SearchRegex::compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_NE(regex.error().message.find(pattern), std::string::npos);
  }
  EXPECT_FALSE(SearchRegex::compile(std::string(70000, 'a')).ok());
}

TEST(SearchRegex, ASearchThatWouldTakeForEverIsAnError) {
  const SearchRegex regex = SearchRegex::compile("(?:a+)+$").value();
  SearchRegex::Workspace workspace;
  const auto match = regex.find(std::string(64, 'a') + "b", 0, workspace);
  ASSERT_FALSE(match.ok());
  EXPECT_EQ(match.error().kind, ErrorKind::kRun);
  EXPECT_TRUE(regex.find("aaa", 0, workspace).ok());  // other texts still can be searched
}

// A run that backs off character by character and a group repeated a hundred thousand times: the
// stack of compiled code is too small for the second.
TEST(SearchRegex, LongRunsAreFound) {
  const std::string run(100'000, 'a');
  EXPECT_EQ(found("a*b|a+", run), Strings{run});
  EXPECT_EQ(found("(?:a|c)+", run), Strings{run});
}

}  // namespace
}  // namespace nibble
