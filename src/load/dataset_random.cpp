// Prompts that are made: random, and random behind shared prefixes.
#include <algorithm>
#include <cmath>

#include "load/dataset.h"
#include "load/dataset_words.h"

namespace nibble::load {
namespace {

// What a seed is for, so that texts, lengths and prefixes never share one.
enum Purpose : std::uint64_t { kText = 1, kLength, kPrefix, kOrder };

struct LengthRange {
  std::int64_t low = 1;
  std::int64_t high = 1;  // included
  std::int64_t draw(Random& random) const {
    return low +
           static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low) + 1));
  }
};

LengthRange range_of(std::int64_t length, double ratio, RangeRule rule) {
  const auto full = static_cast<double>(length);
  LengthRange range{length, length};
  if (rule == RangeRule::kVllm) {
    range.low = static_cast<std::int64_t>(std::floor(full * (1 - ratio)));
    range.high = static_cast<std::int64_t>(std::ceil(full * (1 + ratio)));
  } else {
    range.low = static_cast<std::int64_t>(full * ratio);
  }
  range.low = std::max<std::int64_t>(range.low, 1);
  return range;
}

std::uint64_t bits(std::int64_t number) {
  return static_cast<std::uint64_t>(number);
}

void note_tokens(const TokenTools& tools, std::vector<std::string>& notes) {
  if (tools.send_ids) return;
  if (!tools.count) {
    notes.push_back(fmt::format(
        "prompts are words, {:.3g} tokens each by assumption: no tokenizer was given; the server's "
        "usage tells their true length",
        tools.tokens_per_word));
  }
}

// A prompt of `tokens` tokens whose first `head_tokens` come from `head_seed`.
Prompt make_prompt(std::int64_t head_tokens, std::uint64_t head_seed, std::string_view between,
                   std::int64_t tokens, std::uint64_t seed, const TokenTools& tools) {
  Random head_random(head_seed);
  Random random(seed);
  Prompt prompt;
  if (tools.send_ids) {
    prompt.ids = random_ids(head_tokens, tools, head_random);
    const std::vector<std::int32_t> rest = random_ids(tokens - head_tokens, tools, random);
    prompt.ids.insert(prompt.ids.end(), rest.begin(), rest.end());
    prompt.prompt_tokens = tokens;
    prompt.counted = true;
    return prompt;
  }
  std::string head;
  if (head_tokens > 0) {
    head = text_of(head_tokens, "", 0, tools, head_random).text;
    head += between;
  }
  MadeText made = text_of(tokens, head, head_tokens, tools, random);
  prompt.text = std::move(made.text);
  prompt.prompt_tokens = made.tokens;
  prompt.counted = made.counted;
  return prompt;
}

class RandomDataset : public Dataset {
 public:
  RandomDataset(const RandomOptions& options, TokenTools tools)
      : options_(options),
        tools_(std::move(tools)),
        input_(range_of(options.input_len, options.range_ratio, options.range_rule)),
        output_(range_of(options.output_len, options.range_ratio, options.range_rule)) {
    note_tokens(tools_, notes_);
    if (input_.low < input_.high) {
      notes_.push_back(
          fmt::format("lengths are uniform: input {} to {}, output {} to {} tokens ({})",
                      input_.low, input_.high, output_.low, output_.high,
                      options.range_rule == RangeRule::kVllm
                          ? "vLLM's meaning of the range ratio"
                          : "SGLang's meaning of the range ratio: 1 is exactly the length"));
    }
    constexpr std::int64_t kFewTokens = 8;
    if (input_.low < kFewTokens) {
      notes_.push_back(fmt::format(
          "prompts of fewer than {} tokens may repeat, and a prefix cache may know them",
          kFewTokens));
    }
  }

  Result<Prompt> make(const PromptKey& key) const override {
    Random lengths(mix({kLength, options_.seed, bits(key.index)}));
    const std::int64_t input = input_.draw(lengths);
    const std::int64_t output = output_.draw(lengths);
    Prompt prompt =
        make_prompt(options_.prefix_len, mix({kPrefix, key.run}), "", options_.prefix_len + input,
                    mix({kText, key.run, bits(key.level), bits(key.index)}), tools_);
    prompt.output_tokens = output;
    return prompt;
  }

 private:
  RandomOptions options_;
  TokenTools tools_;
  LengthRange input_;
  LengthRange output_;
};

class SharedPrefixDataset : public Dataset {
 public:
  SharedPrefixDataset(const SharedPrefixOptions& options, TokenTools tools)
      : options_(options), tools_(std::move(tools)) {
    note_tokens(tools_, notes_);
    for (std::int64_t prompt = 0; prompt < options.groups * options.prompts_per_group; ++prompt) {
      group_of_.push_back(static_cast<std::int32_t>(prompt % options.groups));
    }
    Random random(mix({kOrder, options.seed}));
    for (std::size_t last = group_of_.size() - 1; last > 0; --last) {
      std::swap(group_of_[last], group_of_[random.below(last + 1)]);
    }
  }

  Result<Prompt> make(const PromptKey& key) const override {
    const std::size_t place = bits(key.index) % group_of_.size();
    const auto group = static_cast<std::uint64_t>(group_of_[place]);
    Prompt prompt =
        make_prompt(options_.system_len, mix({kPrefix, key.run, bits(key.level), group}), "\n\n",
                    options_.system_len + options_.question_len,
                    mix({kText, key.run, bits(key.level), bits(key.index)}), tools_);
    prompt.output_tokens = options_.output_len;
    return prompt;
  }

 private:
  SharedPrefixOptions options_;
  TokenTools tools_;
  std::vector<std::int32_t> group_of_;  // of each prompt of a round, in shuffled order
};

}  // namespace

Result<std::unique_ptr<Dataset>> make_random(const RandomOptions& options, TokenTools tools) {
  NIBBLE_RETURN_IF_ERROR(check_length("the random input length", options.input_len, 1));
  NIBBLE_RETURN_IF_ERROR(check_length("the random output length", options.output_len, 1));
  NIBBLE_RETURN_IF_ERROR(check_length("the random prefix length", options.prefix_len, 0));
  NIBBLE_RETURN_IF_ERROR(check_tools(tools));
  const bool sglang = options.range_rule == RangeRule::kSglang;
  const bool fits =
      options.range_ratio >= 0 && (sglang ? options.range_ratio <= 1 : options.range_ratio < 1);
  if (!fits) {
    return usage_error("the random range ratio is {}; give 0 to {}", options.range_ratio,
                       sglang ? "1" : "below 1");
  }
  return std::unique_ptr<Dataset>(std::make_unique<RandomDataset>(options, std::move(tools)));
}

Result<std::unique_ptr<Dataset>> make_shared_prefix(const SharedPrefixOptions& options,
                                                    TokenTools tools) {
  constexpr std::int64_t kMostPrompts = 10'000'000;
  NIBBLE_RETURN_IF_ERROR(check_length("the system prompt's length", options.system_len, 1));
  NIBBLE_RETURN_IF_ERROR(check_length("the question's length", options.question_len, 1));
  NIBBLE_RETURN_IF_ERROR(check_length("the output length", options.output_len, 1));
  NIBBLE_RETURN_IF_ERROR(check_tools(tools));
  if (options.groups < 1 || options.prompts_per_group < 1 || options.groups > kMostPrompts ||
      options.prompts_per_group > kMostPrompts / options.groups) {
    return usage_error("{} groups of {} prompts are asked for; give 1 to {} prompts in all",
                       options.groups, options.prompts_per_group, kMostPrompts);
  }
  return std::unique_ptr<Dataset>(std::make_unique<SharedPrefixDataset>(options, std::move(tools)));
}

}  // namespace nibble::load
