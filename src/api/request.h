// What is asked of a model, and how each backend is asked. The same struct serves both ends: the
// client writes it into a body, the server reads it out of one.
//
//   GenerationRequest request{.model = "m", .prompt = "Once", .max_tokens = 128};
//   NIBBLE_ASSIGN_OR_RETURN(const RequestBody body, request_body(backend, request));
//   ... POST body.json ...
//   parse_request(Dialect::kCompletions, body.json)   // on the other end: the same request
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/backend.h"
#include "base/json.h"

namespace nibble::api {

struct ChatMessage {
  std::string role;
  std::string content;
  std::string more = {};  // its other members as JSON, `"name":"x","tool_calls":[]`; mostly none
  friend bool operator==(const ChatMessage&, const ChatMessage&) = default;
};

struct GenerationRequest {
  std::string model;
  std::string prompt;  // for chat: one message of the user, unless `messages` has any
  std::vector<std::int32_t> prompt_ids;  // instead of the text; not for chat
  std::vector<ChatMessage> messages;
  std::optional<std::int64_t> max_tokens;
  std::optional<std::int64_t> min_tokens;
  std::optional<double> temperature;  // left to the server when absent
  std::optional<double> top_p;
  std::optional<std::int64_t> seed;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool stream = true;
  bool include_usage = true;           // with a stream: usage at its end
  bool continuous_usage = true;        // with a stream and include_usage: usage in every event
  bool max_completion_tokens = false;  // chat: spell the limit so, as OpenAI's newest models want
  Json extra_body;                     // an object, or null; members that we do not know
  friend bool operator==(const GenerationRequest&, const GenerationRequest&) = default;
};

struct RequestBody {
  std::string json;
  // What the server will see, extra_body considered.
  bool stream = true;
  std::optional<std::int64_t> max_tokens;
  std::vector<std::string> notes;  // "extra body: max_tokens is 64 instead of 128"
};

// The body of a POST to the backend's endpoint. Members of extra_body are merged in, objects member
// by member, and win; each replacement is noted. An error when the backend cannot carry what is
// asked: token ids in a chat, a minimum above the maximum, extra_body that is no object.
Result<RequestBody> request_body(const Backend& backend, const GenerationRequest& request);

// What a server makes of a body. The error is a sentence for a 400 answer, which a list of several
// prompts gets too: one answer to all of them would look like a whole one. The native formats count
// in every event without being asked: of them both fields of usage are set.
Result<GenerationRequest> parse_request(Dialect dialect, std::string_view body);

}  // namespace nibble::api
