// What a client asked for, read from the body of its request in whichever of the four forms.
//
//   const std::optional<api::Dialect> dialect = api::dialect_of_path("/v1/chat/completions");
//   NIBBLE_ASSIGN_OR_RETURN(const ClientRequest request, read_request(*dialect, body));
//   request.prompt_tokens;   // of token ids exactly, of text the words between white space
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/backend.h"
#include "base/result.h"

namespace nibble::mock {

struct ClientRequest {
  api::Dialect dialect = api::Dialect::kChat;
  std::string model;  // empty: none was named
  std::int64_t prompt_tokens = 0;
  std::optional<std::int64_t> max_tokens = std::nullopt;
  bool stream = false;
  bool stream_options = false;  // the field was there
  bool include_usage = false;
  bool continuous_usage = false;
};

// An error is a sentence for the 400 that answers it: broken JSON, no prompt, a number of tokens
// below 1. Fields that the mock does not know are ignored, as servers do.
Result<ClientRequest> read_request(api::Dialect dialect, std::string_view body);

// Runs of anything but ASCII white space.
std::int64_t count_words(std::string_view text);

}  // namespace nibble::mock
