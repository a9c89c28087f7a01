#include "load/dataset.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "load/dataset_words.h"

namespace nibble::load {
namespace {

// Tokenizers that are easy to count by hand. One token a word:
std::size_t words_of(std::string_view text) {
  std::size_t words = 0;
  bool within = false;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n';
    words += !space && !within;
    within = !space;
  }
  return words;
}
// A token for every three letters of a word or part of them: "together" is three.
std::size_t pieces_of(std::string_view text) {
  std::size_t pieces = 0;
  std::size_t run = 0;
  for (const char c : text) {
    run = c == ' ' || c == '\n' ? 0 : run + 1;
    pieces += run % 3 == 1;
  }
  return pieces;
}
// Ids as text whose neighbours merge: two ids that follow each other and are both even are one.
std::string decode_ids(std::span<const std::int32_t> ids) {
  std::string text;
  for (std::size_t index = 0; index < ids.size(); ++index) {
    const bool merges = index > 0 && ids[index] % 2 == 0 && ids[index - 1] % 2 == 0;
    if (!merges) text += ' ';
    text += "t" + std::to_string(ids[index]);
  }
  return text;
}

Prompt make(const Dataset& dataset, const PromptKey& key) {
  return dataset.make(key).value();
}

TEST(RandomDataset, TokenIdsAreExact) {
  const auto dataset =
      make_random({.input_len = 100, .output_len = 7, .prefix_len = 20}, {.send_ids = true})
          .value();
  const Prompt prompt = make(*dataset, {.run = 1, .index = 3});
  EXPECT_EQ(prompt.ids.size(), 120u);
  EXPECT_TRUE(prompt.text.empty());
  EXPECT_TRUE(prompt.counted);
  EXPECT_EQ(prompt.prompt_tokens, 120);
  EXPECT_EQ(prompt.output_tokens, 7);
  for (const std::int32_t id : prompt.ids) EXPECT_TRUE(id >= 1000 && id < 30000);
  // The prefix is that of the run.
  const Prompt other = make(*dataset, {.run = 1, .level = 2, .index = 9});
  EXPECT_TRUE(std::equal(prompt.ids.begin(), prompt.ids.begin() + 20, other.ids.begin()));
  EXPECT_NE(prompt.ids[20], other.ids[20]);
  EXPECT_NE(make(*dataset, {.run = 2, .index = 3}).ids[0], prompt.ids[0]);
}

TEST(RandomDataset, WordsWithoutATokenizer) {
  const auto dataset = make_random({.input_len = 50}, {}).value();
  const Prompt prompt = make(*dataset, {});
  EXPECT_EQ(words_of(prompt.text), 50u);
  EXPECT_FALSE(prompt.counted);
  EXPECT_EQ(prompt.prompt_tokens, 50);
  ASSERT_EQ(dataset->notes().size(), 1u);
  EXPECT_NE(dataset->notes()[0].find("no tokenizer was given"), std::string::npos);
  const auto corrected = make_random({.input_len = 50}, {.tokens_per_word = 1.25}).value();
  EXPECT_EQ(words_of(make(*corrected, {}).text), 40u);
}

TEST(RandomDataset, ATokenizerMakesTextExact) {
  for (const std::int64_t length : {1, 2, 17, 300}) {
    for (const std::int64_t prefix : {0, 10}) {
      TokenTools tools = {.count = pieces_of};
      const RandomOptions options = {.input_len = length, .prefix_len = prefix};
      const auto words = make_random(options, tools).value();
      tools.count = words_of;
      tools.decode = decode_ids;
      const auto decoded = make_random(options, tools).value();
      for (std::int64_t index = 0; index < 20; ++index) {
        const Prompt prompt = make(*words, {.index = index});
        EXPECT_TRUE(prompt.counted);
        EXPECT_EQ(prompt.prompt_tokens, static_cast<std::int64_t>(pieces_of(prompt.text)));
        // A last word of three pieces may stand where one fits: at most two too many.
        EXPECT_LE(std::abs(prompt.prompt_tokens - length - prefix), 2);
        EXPECT_EQ(words_of(make(*decoded, {.index = index}).text),
                  static_cast<std::size_t>(length + prefix));
      }
    }
  }
}

TEST(RandomDataset, NoPromptTwice) {
  const auto ids = make_random({.input_len = 16}, {.send_ids = true}).value();
  const auto words = make_random({.input_len = 16}, {}).value();
  std::set<std::vector<std::int32_t>> seen_ids;
  std::set<std::string> seen_texts;
  for (std::uint64_t run = 0; run < 3; ++run) {
    for (std::int64_t level = -1; level < 3; ++level) {
      for (std::int64_t index = 0; index < 500; ++index) {
        const PromptKey key = {.run = run, .level = level, .index = index};
        EXPECT_TRUE(seen_ids.insert(make(*ids, key).ids).second);
        const std::string text = make(*words, key).text;
        EXPECT_TRUE(seen_texts.insert(text).second);
      }
    }
  }
  const PromptKey key = {.run = 5, .level = 1, .index = 77};
  EXPECT_EQ(make(*words, key).text, make(*words, key).text);
}

TEST(RandomDataset, LengthsOfVllmAndSglang) {
  const auto extremes = [](RangeRule rule, double ratio) {
    const auto dataset =
        make_random({.input_len = 100, .output_len = 11, .range_ratio = ratio, .range_rule = rule},
                    {.send_ids = true})
            .value();
    std::set<std::int64_t> inputs, outputs;
    for (std::int64_t index = 0; index < 4000; ++index) {
      const Prompt prompt = make(*dataset, {.index = index});
      inputs.insert(prompt.prompt_tokens);
      outputs.insert(prompt.output_tokens);
    }
    return std::vector<std::int64_t>{*inputs.begin(), *inputs.rbegin(), *outputs.begin(),
                                     *outputs.rbegin()};
  };
  // vLLM: floor and ceiling of 100 (1 -+ 0.25) and 11 (1 -+ 0.25) = 8.25 and 13.75.
  EXPECT_EQ(extremes(RangeRule::kVllm, 0.25), (std::vector<std::int64_t>{75, 125, 8, 14}));
  EXPECT_EQ(extremes(RangeRule::kVllm, 0), (std::vector<std::int64_t>{100, 100, 11, 11}));
  // SGLang: from the ratio's share to the length; 0 means from 1.
  EXPECT_EQ(extremes(RangeRule::kSglang, 0.5), (std::vector<std::int64_t>{50, 100, 5, 11}));
  EXPECT_EQ(extremes(RangeRule::kSglang, 0), (std::vector<std::int64_t>{1, 100, 1, 11}));
  EXPECT_EQ(extremes(RangeRule::kSglang, 1), (std::vector<std::int64_t>{100, 100, 11, 11}));
}

TEST(RandomDataset, LengthsAreTheSameInEveryLevelAndRun) {
  const auto dataset =
      make_random({.input_len = 100, .range_ratio = 0.5, .seed = 3}, {.send_ids = true}).value();
  const auto other =
      make_random({.input_len = 100, .range_ratio = 0.5, .seed = 4}, {.send_ids = true}).value();
  bool differs = false;
  for (std::int64_t index = 0; index < 50; ++index) {
    const std::int64_t tokens = make(*dataset, {.run = 1, .index = index}).prompt_tokens;
    EXPECT_EQ(make(*dataset, {.run = 2, .level = 5, .index = index}).prompt_tokens, tokens);
    differs = differs || make(*other, {.run = 1, .index = index}).prompt_tokens != tokens;
  }
  EXPECT_TRUE(differs);
}

TEST(RandomDataset, Refusals) {
  const auto refused = [](RandomOptions options, TokenTools tools = {}) {
    return make_random(options, std::move(tools)).error().message;
  };
  EXPECT_EQ(refused({.input_len = 0}), "the random input length is 0; give 1 to 16777216");
  EXPECT_NE(refused({.output_len = -1}), "");
  EXPECT_NE(refused({.prefix_len = -1}), "");
  EXPECT_EQ(refused({.range_ratio = 1}), "the random range ratio is 1; give 0 to below 1");
  EXPECT_NE(refused({.range_ratio = std::nan("")}), "");
  EXPECT_NE(refused({}, {.first_id = 5, .end_id = 5}), "");
  EXPECT_NE(refused({}, {.tokens_per_word = 0}), "");
}

TEST(SharedPrefix, GroupsShareTheirSystemPromptAndNothingElse) {
  const SharedPrefixOptions options = {
      .groups = 4, .prompts_per_group = 8, .system_len = 30, .question_len = 5, .output_len = 9};
  const auto dataset = make_shared_prefix(options, {.send_ids = true}).value();
  std::map<std::vector<std::int32_t>, int> systems;
  std::set<std::vector<std::int32_t>> all;
  for (std::int64_t index = 0; index < 32; ++index) {
    const Prompt prompt = make(*dataset, {.run = 1, .index = index});
    ASSERT_EQ(prompt.ids.size(), 35u);
    EXPECT_EQ(prompt.output_tokens, 9);
    systems[{prompt.ids.begin(), prompt.ids.begin() + 30}] += 1;
    all.insert(prompt.ids);
  }
  ASSERT_EQ(systems.size(), 4u);
  for (const auto& [system, prompts] : systems) EXPECT_EQ(prompts, 8);
  EXPECT_EQ(all.size(), 32u);
  // A second round has new questions, another level new system prompts.
  EXPECT_TRUE(all.insert(make(*dataset, {.run = 1, .index = 32}).ids).second);
  const Prompt next = make(*dataset, {.run = 1, .level = 1, .index = 0});
  EXPECT_EQ(systems.count({next.ids.begin(), next.ids.begin() + 30}), 0u);
}

TEST(SharedPrefix, Text) {
  const auto dataset =
      make_shared_prefix({.groups = 1, .system_len = 30, .question_len = 5}, {.count = words_of})
          .value();
  const Prompt prompt = make(*dataset, {.index = 0});
  EXPECT_EQ(words_of(prompt.text), 35u);
  EXPECT_EQ(prompt.prompt_tokens, 35);
  EXPECT_EQ(words_of(prompt.text.substr(0, prompt.text.find("\n\n"))), 30u);
  EXPECT_FALSE(make_shared_prefix({.groups = 0}, {}).ok());
  EXPECT_FALSE(make_shared_prefix({.groups = INT64_MAX, .prompts_per_group = 2}, {}).ok());
}

TEST(Custom, LinesOfAFile) {
  const auto dataset = parse_custom(
                           "{\"prompt\": \"one two\", \"output_tokens\": 5}\n\n"
                           "{\"id\": 7, \"max_tokens\": 6, \"prompt\": \"three\"}\r\n"
                           "{\"prompt\": [5, 6, 7]}",
                           "p.jsonl", {}, {.send_ids = true, .count = words_of})
                           .value();
  const Prompt first = make(*dataset, {.number = 0});
  EXPECT_EQ(first.text, "one two");
  EXPECT_EQ(first.prompt_tokens, 2);
  EXPECT_TRUE(first.counted);
  EXPECT_EQ(first.output_tokens, 5);
  EXPECT_EQ(make(*dataset, {.number = 1}).output_tokens, 6);
  EXPECT_EQ(make(*dataset, {.number = 2}).prompt_tokens, 3);
  EXPECT_EQ(make(*dataset, {.number = 2}).output_tokens, 256);
  EXPECT_EQ(
      dataset->make({.number = 3}).error().message,
      "p.jsonl: request 4 of the run has no prompt: the file gives 3; ask for fewer requests, "
      "or let prompts repeat (a prefix cache will know them)");
  const auto repeating =
      parse_custom("{\"prompt\":\"abcdefghi\"}", "p", {.output_len = 3, .repeat = true}, {})
          .value();
  EXPECT_EQ(make(*repeating, {.number = 8}).output_tokens, 3);
  EXPECT_EQ(make(*repeating, {}).prompt_tokens, 3);  // nine bytes, four a token
  EXPECT_FALSE(make(*repeating, {}).counted);
}

TEST(Custom, Refusals) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "p: no prompt in it can be used"},
      {"\n{}", "p: line 2: it has no \"prompt\" (text, or a list of token ids)"},
      {"{\"prompt\":\"\"}", "p: line 1: it has no \"prompt\" (text, or a list of token ids)"},
      {"{\"prompt\":[1,-2]}", "p: line 1: it has no \"prompt\" (text, or a list of token ids)"},
      {"{\"prompt\":[1]}",
       "p: line 1: its prompt is token ids, which this backend does not take; give text"},
      {"{\"prompt\":\"x\",\"max_tokens\":0}",
       "p: line 1: its number of output tokens is not 1 or more"},
      {"{\"prompt\":\"x\"",
       "p: line 1: not a JSON object: byte 14: the text ends within an object "
       "or array"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(parse_custom(text, "p", {}, {}).error().message, message);
  }
  EXPECT_FALSE(load_custom("/nonexistent", {}, {}).ok());
}

std::string conversation(int prompt_words, int answer_words) {
  std::string prompt, answer;
  for (int word = 0; word < prompt_words; ++word) prompt += "p" + std::to_string(word) + " ";
  for (int word = 0; word < answer_words; ++word) answer += "a ";
  return fmt::format(R"({{"id":"x","conversations":[{{"from":"human","value":"{}"}},)"
                     R"({{"from":"gpt","value":"{}"}},{{"from":"human","value":"more"}}]}})",
                     prompt, answer);
}

TEST(Sharegpt, FirstTwoTurnsFilteredAsVllmDoes) {
  const std::string text = "[" + conversation(10, 20) + "," + conversation(3, 20) + "," +
                           conversation(10, 3) + "," + conversation(1025, 20) + "," +
                           conversation(1024, 1024) + "," + conversation(1024, 1025) +
                           R"(,{"conversations":[{"value":"alone"}]},{"conversations":null},7,{}])";
  const auto dataset = parse_sharegpt(text, "s", {}, {.count = words_of}).value();
  std::set<std::int64_t> lengths;
  for (std::int64_t number = 0; number < 2; ++number) {
    const Prompt prompt = make(*dataset, {.number = number});
    EXPECT_TRUE(prompt.counted);
    lengths.insert(prompt.prompt_tokens * 10000 + prompt.output_tokens);
  }
  EXPECT_EQ(lengths, (std::set<std::int64_t>{10 * 10000 + 20, 1024 * 10000 + 1024}));
  EXPECT_FALSE(dataset->make({.number = 2}).ok());
  EXPECT_EQ(dataset->notes().back(), "2 of 10 conversations looked at are used");
  // With a length of our own the answer's does not count.
  const auto fixed = parse_sharegpt(text, "s", {.output_len = 50}, {.count = words_of}).value();
  EXPECT_TRUE(fixed->make({.number = 3}).ok());
  EXPECT_FALSE(fixed->make({.number = 4}).ok());
}

TEST(Sharegpt, ShuffledBySeedAndCutShort) {
  std::string text = "[";
  for (int words = 10; words < 60; ++words) {
    text += (words == 10 ? "" : ",") + conversation(words, 10);
  }
  text += "]";
  const auto order = [&](std::uint64_t seed) {
    const auto dataset =
        parse_sharegpt(text, "s", {.most = 20, .seed = seed}, {.count = words_of}).value();
    EXPECT_FALSE(dataset->make({.number = 20}).ok());
    std::vector<std::int64_t> lengths;
    for (std::int64_t number = 0; number < 20; ++number) {
      lengths.push_back(make(*dataset, {.number = number}).prompt_tokens);
    }
    return lengths;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  const std::vector<std::int64_t> lengths = order(1);
  EXPECT_EQ(std::set<std::int64_t>(lengths.begin(), lengths.end()).size(), 20u);
  const auto estimated = parse_sharegpt(text, "s", {}, {}).value();
  EXPECT_NE(estimated->notes()[0].find("4 bytes a token"), std::string::npos);
}

TEST(Sharegpt, Refusals) {
  EXPECT_FALSE(parse_sharegpt("", "s", {}, {}).ok());
  EXPECT_FALSE(parse_sharegpt("{}", "s", {}, {}).ok());
  EXPECT_EQ(parse_sharegpt("[]", "s", {}, {}).error().message, "s: no prompt in it can be used");
  EXPECT_NE(parse_sharegpt("[{\"a\":1}", "s", {}, {}).error().message.find("byte 9"),
            std::string::npos);
}

TEST(Mix, OrderAndEveryNumberCount) {
  EXPECT_NE(mix({1, 2}), mix({2, 1}));
  EXPECT_NE(mix({1}), mix({1, 0}));
  std::set<std::uint64_t> seen;
  for (std::uint64_t a = 0; a < 30; ++a) {
    for (std::uint64_t b = 0; b < 30; ++b) EXPECT_TRUE(seen.insert(mix({a, b})).second);
  }
}

}  // namespace
}  // namespace nibble::load
