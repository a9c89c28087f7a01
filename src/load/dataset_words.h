// Text of a wanted number of tokens, with a tokenizer or without.
//
//   Random random(mix({run, level, index}));
//   const MadeText made = text_of(512, "", 0, tools, random);   // made.tokens, made.counted
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/stats.h"
#include "load/dataset.h"

namespace nibble::load {

// One seed of several numbers; their order counts.
std::uint64_t mix(std::initializer_list<std::uint64_t> numbers);

struct MadeText {
  std::string text;
  std::int64_t tokens = 0;
  bool counted = false;
};

// `head` and behind it so much random text that the whole has `tokens` tokens. `head_tokens` is
// what is known of the head where nothing can count it.
MadeText text_of(std::int64_t tokens, std::string_view head, std::int64_t head_tokens,
                 const TokenTools& tools, Random& random);

std::vector<std::int32_t> random_ids(std::int64_t count, const TokenTools& tools, Random& random);

// Tokens of a text that was not made here: counted, or a token for every four bytes.
std::int64_t estimate_tokens(std::string_view text, const TokenTools& tools);

Result<> check_length(std::string_view option, std::int64_t value, std::int64_t least);
Result<> check_tools(const TokenTools& tools);

}  // namespace nibble::load
