// Log probabilities as OpenAI's two endpoints write them.
//
//   std::string json;
//   append_logprobs(json, api::Dialect::kChat, tokenizer, tokens);
//   // {"content":[{"token":" a","logprob":-0.1,"bytes":[32,97],"top_logprobs":[]}]}
#pragma once

#include <span>
#include <string>

#include "api/backend.h"
#include "serve/choice_text.h"

namespace nibble::serve {

// Chat: {"content":[{token, logprob, bytes, top_logprobs}]}. Completions: {"tokens",
// "token_logprobs", "top_logprobs", "text_offset"}. A token that is a part of a character is in a
// chat shown with U+FFFD, beside its bytes; in completions, which have no bytes, as
// "bytes:\xe4\xb8".
void append_logprobs(std::string& out, api::Dialect dialect, const text::Tokenizer& tokenizer,
                     std::span<const GivenToken> tokens);

}  // namespace nibble::serve
