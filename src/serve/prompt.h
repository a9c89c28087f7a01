// Prompts as token ids.
//
//   auto made = make_prompts(core, asked);
//   if (const Refusal* refusal = std::get_if<Refusal>(&made)) ...
//   for (ReadyPrompt& prompt : std::get<std::vector<ReadyPrompt>>(made)) submit(prompt.ids);
#pragma once

#include <string>
#include <vector>

#include "serve/core.h"

namespace nibble::serve {

struct ReadyPrompt {
  std::vector<engine::TokenId> ids;
  std::string text;  // what `echo` gives back; empty unless it is asked for
};

// A chat's messages go through the template, which writes all special tokens itself: the tokenizer
// adds none to them.
Checked<std::vector<ReadyPrompt>> make_prompts(const Core& core, const Parameters& asked);

// Text far beyond what the model's context holds is refused before it costs time.
Checked<std::vector<engine::TokenId>> encode(const Core& core, std::string_view text,
                                             bool add_special, std::string_view param);

}  // namespace nibble::serve
