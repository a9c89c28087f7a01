#include "model/regex.h"

#include <gtest/gtest.h>
#include <optional>
#include <string>

#include "model/module_pattern.h"

namespace nibble {
namespace {

bool matches(std::string_view pattern, std::string_view text) {
  const Result<Regex> regex = Regex::compile(pattern);
  EXPECT_TRUE(regex.ok()) << pattern << ": " << (regex.ok() ? "" : regex.error().message);
  return regex.ok() && regex->matches_start(text);
}

// Expected values: Python's bool(re.match(pattern, text)).
TEST(Regex, AgreesWithPythonsReMatch) {
  struct Case {
    const char* pattern;
    const char* text;
    bool expected;
  };
  const Case cases[] = {
      {".*lm_head", "lm_head", true},
      {".*lm_head", "model.lm_head.weight", true},
      {"lm_head$", "lm_head.weight", false},
      {"lm_head", "model.lm_head", false},
      {".*mlp.gate$", "model.layers.3.mlp.gate", true},
      {".*mlp.gate$", "model.layers.3.mlp.gate_proj", false},
      {".*mlp\\.gate$", "model.layers.3.mlpxgate", false},
      {".*mlp.gate$", "model.layers.3.mlpxgate", true},
      {".*self_attn\\.(q|k|v)_proj$", "model.layers.0.self_attn.k_proj", true},
      {".*self_attn\\.(q|k|v)_proj$", "model.layers.0.self_attn.o_proj", false},
      {".*\\.experts\\.\\d+\\.(?:gate|up)_proj", "model.layers.9.mlp.experts.127.up_proj", true},
      {".*\\.experts\\.\\d+\\.(?:gate|up)_proj", "model.layers.9.mlp.experts.x.up_proj", false},
      {"model\\.layers\\.[0-2]\\.", "model.layers.2.mlp", true},
      {"model\\.layers\\.[0-2]\\.", "model.layers.3.mlp", false},
      {"model\\.layers\\.[^0-2]\\.", "model.layers.3.mlp", true},
      {"a{2,3}b", "aab", true},
      {"a{2,3}b", "aaaab", false},
      {"a{2}$", "aa", true},
      {"a{2}$", "aaa", false},
      {"a{1,}b$", "aaaab", true},
      {"(ab|cd)+$", "abcdab", true},
      {"(ab|cd)+$", "abcda", false},
      {"^a?b", "b", true},
      {"x|", "anything", true},
      {"", "anything", true},
      {"[]a]b", "]b", true},
      {"a.*?b", "axxb", true},
      {"(a*)*b", "aaab", true},
      {"(a|b|)*c", "ababc", true},
      {"[a\\-]+$", "a-a", true},
      {"\\w+\\W\\s\\S$", "ab. x", true},
      {"a$|ab", "ab", true},
      {"a^b", "ab", false},
      {"(^|x)a", "a", true},
      {"(^|x)a", "ya", false},
      {".*[^x]$", "x", false},
      {"$", "", true},
      {"$", "a", false},
      {"a$b", "ab", false},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(matches(c.pattern, c.text), c.expected) << c.pattern << " on " << c.text;
  }
}

TEST(Regex, RefusesWhatItDoesNotKnow) {
  for (const char* pattern : {"(?!x)y", "(?<name>x)", "(", ")", "[a", "*a", "a\\", "\\bx", "a{2",
                              "a{3,2}", "a{99}", "(a)\\1"}) {
    const Result<Regex> regex = Regex::compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_NE(regex.error().message.find(pattern), std::string::npos) << regex.error().message;
  }
}

TEST(Regex, RefusesPatternsThatGrowOrNestWithoutBound) {
  EXPECT_FALSE(Regex::compile("((a{60}){60}){60}").ok());
  EXPECT_FALSE(Regex::compile(std::string(5000, '(')).ok());
  EXPECT_TRUE(Regex::compile(std::string(256, 'a')).ok());
  EXPECT_FALSE(Regex::compile(std::string(257, 'a')).ok());
}

// A backtracking matcher needs 2^64 steps here.
TEST(Regex, TakesLinearTime) {
  EXPECT_FALSE(matches("(a|a)*(a|a)*(aa?)*$", std::string(64, 'a') + "b"));
  EXPECT_FALSE(matches("(.*)*(.*)*(.*)*x$", std::string(2000, 'a')));
}

bool covers(std::initializer_list<const char*> patterns, std::string_view module) {
  ModulePatterns list;
  for (const char* pattern : patterns) EXPECT_TRUE(list.add(pattern).ok()) << pattern;
  return list.matches(module);
}

TEST(ModulePatterns, NamesCoverWholeComponents) {
  EXPECT_TRUE(covers({"lm_head"}, "lm_head"));
  EXPECT_TRUE(covers({"lm_head"}, "language_model.lm_head"));
  EXPECT_FALSE(covers({"head"}, "lm_head"));
  EXPECT_TRUE(covers({"gate"}, "model.layers.0.block_sparse_moe.gate"));
  EXPECT_FALSE(covers({"gate"}, "model.layers.0.mlp.gate_proj"));
  EXPECT_TRUE(covers({"model.layers.1"}, "model.layers.1.mlp.up_proj"));
  EXPECT_FALSE(covers({"model.layers.1"}, "model.layers.11.mlp.up_proj"));
  EXPECT_TRUE(covers({"model.layers.0.self_attn"}, "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(covers({"shared_experts"}, "model.layers.5.mlp.shared_experts.up_proj"));
  EXPECT_FALSE(covers({"experts"}, "model.layers.5.mlp.shared_experts.up_proj"));
}

TEST(ModulePatterns, WildcardsAreShellPatterns) {
  EXPECT_TRUE(covers({"model.layers.3.self_attn*"}, "model.layers.3.self_attn.q_a_proj"));
  EXPECT_FALSE(covers({"model.layers.3.self_attn*"}, "model.layers.30.self_attn.q_a_proj"));
  EXPECT_TRUE(covers({"*mlp.gate*"}, "model.layers.3.mlp.gate_proj"));
  EXPECT_FALSE(covers({"*mlp.gate"}, "model.layers.3.mlp.gate_proj"));
  // As fnmatch has it, this covers layers 1 and 10 to 19.
  EXPECT_TRUE(covers({"model.layers.1*"}, "model.layers.17.mlp.up_proj"));
  // transformers writes a prefix without a trailing star.
  EXPECT_TRUE(covers({"model.layers.*.self_attn"}, "model.layers.3.self_attn.q_proj"));
  EXPECT_FALSE(covers({"model.layers.*.self_attn"}, "model.layers.3.mlp.up_proj"));
}

TEST(ModulePatterns, ListsWithoutBoundAreRefused) {
  const auto grows_to = [](const auto& pattern) {
    ModulePatterns list;
    int count = 0;
    while (count < 20000 && list.add(pattern(count)).ok()) ++count;
    return count;
  };
  EXPECT_EQ(grows_to([](int) { return std::string("*a"); }), 512);
  // "ab" has two places, and a regex counts one more.
  EXPECT_EQ(grows_to([](int) { return std::string("re:ab"); }), 2048 / 3);
  // A mixed-precision checkpoint lists each of its 124,000 modules: these have no bound.
  EXPECT_EQ(grows_to([](int i) { return "model.layers.0.mlp.experts." + std::to_string(i); }),
            20000);
  EXPECT_EQ(grows_to([](int i) { return "model.layers." + std::to_string(i) + ".mlp*"; }), 20000);
  EXPECT_FALSE(ModulePatterns().add(std::string(513, 'a')).ok());
}

TEST(ModulePatterns, LayerNumbers) {
  EXPECT_EQ(layer_number("model.layers.12.mlp"), 12);
  EXPECT_EQ(layer_number("language_model.model.layers.0.self_attn.q_proj"), 0);
  EXPECT_EQ(layer_number("model.layers.1"),
            std::nullopt);  // "model.layers.1*" is more than layer 1
  EXPECT_EQ(layer_number("model.layers."), std::nullopt);
  EXPECT_EQ(layer_number("model.layers.9999999999999.mlp"), std::nullopt);
  EXPECT_EQ(layer_number("lm_head"), std::nullopt);
}

TEST(ModulePatterns, AnEmptyListCoversNothing) {
  EXPECT_FALSE(covers({}, "lm_head"));
}

TEST(ModulePatterns, KnowsRoutedFromSharedExperts) {
  EXPECT_TRUE(is_routed_expert("model.layers.3.mlp.experts.0.gate_proj"));
  EXPECT_TRUE(is_routed_expert("model.layers.3.mlp.experts"));
  EXPECT_FALSE(is_routed_expert("model.layers.3.mlp.shared_experts.gate_proj"));
  EXPECT_FALSE(is_routed_expert("model.layers.3.mlp.gate"));
}

}  // namespace
}  // namespace nibble
