// Token counts as a server states them.
//
//   const Usage usage{.prompt_tokens = 12, .output_tokens = 128};
//   usage.total();   // 140
#pragma once

#include <cstdint>
#include <optional>

namespace nibble::api {

struct Usage {
  std::optional<std::int64_t> prompt_tokens;
  std::optional<std::int64_t> output_tokens;     // so far, the reasoning included
  std::optional<std::int64_t> cached_tokens;     // of the prompt, found in the prefix cache
  std::optional<std::int64_t> reasoning_tokens;  // of the output

  bool any() const { return prompt_tokens || output_tokens || cached_tokens || reasoning_tokens; }
  std::int64_t total() const { return prompt_tokens.value_or(0) + output_tokens.value_or(0); }
  friend bool operator==(const Usage&, const Usage&) = default;
};

}  // namespace nibble::api
