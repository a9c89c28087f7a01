// What a client asks for: the body of a request to /v1/chat/completions or /v1/completions, read
// and held against what this server can do. Nothing that is wrong gets further than here, and each
// refusal names its field.
//
//   const Bounds bounds{.vocabulary = 151'936, .model = "Qwen3-30B-A3B"};
//   auto read = read_parameters(api::Dialect::kChat, body, bounds);
//   if (const Refusal* refusal = std::get_if<Refusal>(&read)) ...   // 400, "top_p", a sentence
//   const Parameters& asked = std::get<Parameters>(read);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/backend.h"
#include "api/request_prompt.h"
#include "base/json.h"
#include "engine/request.h"

namespace nibble::serve {

// Why a request is not served.
struct Refusal {
  int status = 400;
  std::string message;     // one sentence
  std::string param;       // the field; empty: no single one
  std::string allow = {};  // 405: the methods that are taken
};

template <class T>
using Checked = std::variant<T, Refusal>;

inline constexpr std::int64_t kMostChoices = 128;  // of one request: its prompts times n

// What requests are held against.
struct Bounds {
  std::int64_t vocabulary = 0;
  std::string model;                   // the name by which it is served
  std::int64_t places = kMostChoices;  // of the engine, running and queued
  engine::Sampling defaults;           // where the request does not say
};

// Tokens of a completion, where none are asked for: as OpenAI has it.
inline constexpr std::int64_t kShortCompletion = 16;
inline constexpr std::int64_t kMostTopLogprobs = 20;
inline constexpr std::size_t kMostStops = 16;
inline constexpr std::size_t kLongestStop = 1024;  // bytes

struct Parameters {
  api::Dialect dialect = api::Dialect::kChat;
  std::vector<api::Prompt> prompts;        // completions: at least one
  std::vector<api::ChatMessage> messages;  // chat
  std::optional<std::int64_t> max_tokens;  // absent: as the endpoint has it
  std::int64_t min_tokens = 0;
  engine::Sampling sampling;  // its seed is that of choice 0; a drawn one where none was given
  std::vector<std::string> stop;
  std::vector<engine::TokenId> stop_ids;  // the request's own
  bool ignore_eos = false;
  bool include_stop = false;  // the stop string is part of the answer
  bool skip_special = true;
  std::int64_t n = 1;
  bool echo = false;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool add_special = true;            // what the tokenizer puts around a text; chat: not
  bool add_generation_prompt = true;  // chat
  Json template_values;               // chat: an object for the template, or null

  std::int64_t choices() const {
    return n * static_cast<std::int64_t>(prompts.empty() ? 1 : prompts.size());
  }
};

Checked<Parameters> read_parameters(api::Dialect dialect, std::string_view body,
                                    const Bounds& bounds);

}  // namespace nibble::serve
