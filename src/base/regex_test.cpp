#include "base/regex.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace nibble
