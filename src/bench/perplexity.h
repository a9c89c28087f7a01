// How well a model foretells a text, with this machine's kernels: bits per character, and
// perplexity of a token.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Perplexity found, measure_perplexity(request, progress));
//   found.bits_per_character()
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/json.h"
#include "base/result.h"
#include "engine/models/load.h"

namespace nibble {

struct PerplexityRequest {
  std::filesystem::path folder;  // of the checkpoint, with its tokenizer.json
  std::filesystem::path text;    // valid UTF-8; special tokens written in it become these tokens
  engine::ModelOptions options;
  // Tokens that are scored together; 0: the model's context less one, at most 2,048. Each window
  // begins with the model's bos token, or its eos token where it has no other, so that its first
  // token is scored too and nothing before the window is known.
  std::int64_t window = 0;
  int threads = 1;
};

struct Perplexity {
  std::int64_t tokens = 0;
  std::int64_t characters = 0;  // code points, special tokens left out
  std::int64_t window = 0;
  double nats = 0;  // of all tokens
  double per_token() const { return std::exp(nats / static_cast<double>(tokens)); }
  // Nothing where the text has special tokens alone.
  std::optional<double> bits_per_character() const {
    if (characters == 0) return std::nullopt;
    return nats / std::log(2.0) / static_cast<double>(characters);
  }
};

// `progress`: the share of the text that is done.
Result<Perplexity> measure_perplexity(const PerplexityRequest& request,
                                      const std::function<void(double share)>& progress);

// nibble.perplexity/1; the caller adds its own version and command.
Json to_json(const PerplexityRequest& request, const Perplexity& found);

}  // namespace nibble
