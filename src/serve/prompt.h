// Prompts as token ids.
//
//   auto made = make_prompts(core, asked);
//   if (const Refusal* refusal = std::get_if<Refusal>(&made)) ...
//   for (ReadyPrompt& prompt : std::get<std::vector<ReadyPrompt>>(made)) submit(prompt.ids);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/core.h"

namespace nibble::serve {

struct ReadyPrompt {
  std::vector<engine::TokenId> ids;
  std::string text;  // what `echo` gives back; empty unless it is asked for
};

// The first prompt that the engine could not serve is refused before the next one is looked at.
Checked<std::vector<ReadyPrompt>> make_prompts(const Core& core, const Parameters& asked);

// A chat's messages go through the template, which writes all special tokens itself: the tokenizer
// adds none to them. Text that has surely more tokens than so many contexts of the model is refused
// before it costs time.
Checked<std::vector<engine::TokenId>> make_chat(const Core& core, const Parameters& asked,
                                                std::int64_t contexts = 1);
Checked<std::vector<engine::TokenId>> encode(const Core& core, std::string_view text,
                                             bool add_special, std::string_view param,
                                             std::int64_t contexts = 1);

}  // namespace nibble::serve
