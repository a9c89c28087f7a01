// What the engine is asked for and what it gives back, in token ids: text, stop strings and HTTP
// are the server's business.
//
//   EngineRequest request{.prompt = ids, .max_tokens = 64, .stop_ids = {end_of_text}};
//   request.sampling.temperature = 0;                       // greedy
//   engine.submit(std::move(request), [](Update update) { ... });
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "text/token_id.h"

namespace nibble::engine {

using text::TokenId;

// How a token is chosen from its logits. Order: bias, then penalties change the logits; temperature
// divides them; min-p, then top-k, then top-p (of what the two have left) cut the distribution; one
// number of the request's own random stream chooses. Names, ranges, meanings and order as in vLLM.
struct Sampling {
  double temperature = 1;         // >= 0; 0: the largest logit, of equal ones the lowest id
  std::int64_t top_k = 0;         // 0 and -1: all; of equal logits the lowest ids stay
  double top_p = 1;               // (0, 1]
  double min_p = 0;               // [0, 1]
  double presence_penalty = 0;    // [-2, 2], of tokens in the output
  double frequency_penalty = 0;   // [-2, 2], times how often they are there
  double repetition_penalty = 1;  // > 0, of tokens in the prompt and the output
  std::uint64_t seed = 0;         // the same seed, prompt and parameters: the same tokens
  std::vector<std::pair<TokenId, float>> logit_bias;  // ids below the vocabulary, each once;
                                                      // [-100, 100]
  // So many of the most probable tokens are given beside each chosen one; nullopt: no log
  // probabilities at all, 0: that of the chosen one. They are of the model's own distribution,
  // before anything above changed it. At most 20.
  std::optional<std::int64_t> logprobs;
};

struct EngineRequest {
  std::vector<TokenId> prompt;  // at least one
  Sampling sampling;
  std::int64_t max_tokens = 16;   // at least 1
  std::int64_t min_tokens = 0;    // no stop id is chosen before so many tokens
  std::vector<TokenId> stop_ids;  // end the answer and are not part of it; empty: ignore_eos
};

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

struct OutputToken {
  TokenId id = 0;
  float logprob = 0;              // 0 unless asked for
  std::vector<TokenLogprob> top;  // the most probable first
};

enum class Finish : std::uint8_t {
  kStop,       // a stop id
  kLength,     // max_tokens, or the model's context
  kCancelled,  // its ticket was dropped, or the engine stopped
  kFailed,     // logits that are not finite
};
std::string_view to_string(Finish finish);  // "stop", "length", "abort", "error"

// What came of one step for one request. The last one has `finish`; nothing follows it.
struct Update {
  std::vector<OutputToken> tokens;
  std::optional<Finish> finish;
  std::int64_t cached_tokens = 0;  // of the prompt, found in the prefix cache
  Nanoseconds at = 0;              // when the step ended
};

// Called on the engine's thread, one request's updates in order; must not block or throw. Also
// after its ticket was dropped: at least once more, for kCancelled, unless it had ended. Destroyed
// there after its last update.
using Sink = std::function<void(Update)>;

}  // namespace nibble::engine
