// The servers that we speak to, by the names that the benchmarks of vLLM and SGLang gave them, and
// the four formats in which they speak.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Backend backend, find_backend("sglang"));
//   backend.endpoint                    // "/generate"
//   backend.dialect == Dialect::kSglang // its native format, with cumulative text
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace nibble::api {

// A format of requests and answers.
enum class Dialect : std::uint8_t {
  kCompletions,  // OpenAI's /v1/completions
  kChat,         // OpenAI's /v1/chat/completions
  kSglang,       // SGLang's /generate
  kLlamacpp,     // llama.cpp's /completion
};

struct Backend {
  std::string_view name;
  Dialect dialect = Dialect::kCompletions;
  std::string_view endpoint;  // the default path
  // What a request may carry. A server behind a general name ("openai") may still refuse a field;
  // then it answers 400, and the request goes without it.
  bool token_ids = false;         // the prompt as token ids
  bool ignore_eos = false;        // go on to the asked length
  bool min_tokens = false;        // at least so many tokens
  bool continuous_usage = false;  // stream_options.continuous_usage_stats
  bool counts_always = false;     // token counts come with every event without being asked for
  std::string_view note;          // how the name is meant where tools disagree; may be empty
};

std::span<const Backend> backends();

// By name; an unknown one is a usage error with the nearest names.
Result<Backend> find_backend(std::string_view name);

// The format that a server speaks at a path such as "/v1/chat/completions" (a query is ignored).
std::optional<Dialect> dialect_of_path(std::string_view path);

std::string_view dialect_name(Dialect dialect);  // "completions", "chat completions", ...

}  // namespace nibble::api
