// What a client asked for, in whichever of the four forms: the request as a server reads it
// (api/request.h), with its prompt counted instead of kept.
//
//   const std::optional<api::Dialect> dialect = api::dialect_of_path("/v1/chat/completions");
//   NIBBLE_ASSIGN_OR_RETURN(const ClientRequest request, read_request(*dialect, body));
//   request.prompt_tokens;   // of token ids exactly, of text the words between white space
#pragma once

#include <cstdint>
#include <string_view>

#include "api/request.h"

namespace nibble::mock {

struct ClientRequest {
  api::Dialect dialect = api::Dialect::kChat;
  api::GenerationRequest asked;    // without its prompt: answers take longer than it is needed
  std::int64_t prompt_tokens = 0;  // of all prompts, where a list of them was given
};

// An error is a sentence for the 400 that answers it.
Result<ClientRequest> read_request(api::Dialect dialect, std::string_view body);

// Whether the body has stream_options: for a server that does not know them.
bool has_stream_options(std::string_view body);

// Runs of anything but ASCII white space.
std::int64_t count_words(std::string_view text);

}  // namespace nibble::mock
