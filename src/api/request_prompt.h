// The prompt of a request's body, read by the scanner while the members around it become a tree:
// prompts are nearly all of a body, and as a tree they cost several times as much (read_request in
// bench/api_bench.cpp).
//
//   NIBBLE_ASSIGN_OR_RETURN(SplitBody split, split_body(Dialect::kCompletions, body));
//   split.rest              // the body with null for its prompt
//   split.prompt.prompts[0].text       // the prompt, or its ids
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"

namespace nibble::api {

struct Prompt {
  std::string text;
  std::vector<std::int32_t> ids;  // instead of the text
};

struct PromptMember {
  std::vector<Prompt> prompts;        // as many as the list holds
  std::vector<ChatMessage> messages;  // chat: these instead
  std::optional<Error> fault;         // the first
};

struct SplitBody {
  Json rest;
  PromptMember prompt;
};

// An error when the body is no JSON object; what is wrong with its prompt stands in prompt.fault.
Result<SplitBody> split_body(Dialect dialect, std::string_view body);

}  // namespace nibble::api
