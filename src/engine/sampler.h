// Chooses a token from the logits of one row. Nothing but its own request enters into the choice,
// so that a request gets the same tokens whatever else runs.
//
//   NIBBLE_RETURN_IF_ERROR(check(request.sampling, vocabulary));
//   Sampler sampler(vocabulary);             // one a thread: it keeps scratch memory
//   const auto token = sampler.sample({.sampling = s, .prompt = p, .output = o}, logits);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/request.h"

namespace nibble::engine {

inline constexpr std::int64_t kMostLogprobs = 20;
inline constexpr double kGreedyBelow = 1e-5;  // a lower temperature than this is greedy, as in vLLM
inline constexpr float kMostBias = 100;

// Each sentence begins with the name of the field, as the API has it: "top_p is 2; give ...".
Result<> check(const Sampling& sampling, std::int64_t vocabulary);

struct SampleInput {
  const Sampling& sampling;
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;     // so far
  std::span<const TokenId> forbidden;  // never chosen: stop ids before min_tokens
};

// [0, 1), the one random number of output token `index`: of nothing but these two, so that a
// request that was computed again goes on alike.
double random_number(std::uint64_t seed, std::int64_t index);

class Sampler {
 public:
  explicit Sampler(std::int64_t vocabulary);
  // `logits` [vocabulary] are changed. nullopt: one of them is not finite, or all are forbidden.
  std::optional<OutputToken> sample(const SampleInput& input, std::span<float> logits);

 private:
  void adjust(const SampleInput& input, std::span<float> logits);
  void penalize(const SampleInput& input, std::span<float> logits);
  TokenId draw(const Sampling& sampling, std::span<const float> logits, float largest,
               double number);
  double weigh(const Sampling& sampling, std::span<const float> logits, float largest);
  double cut_to_top_p(double mass_wanted);
  void note_logprobs(const Sampling& sampling, std::span<const float> logits, float largest);

  std::vector<float> model_logits_;  // as the model gave them, for log probabilities
  double log_sum_ = 0;               // of their exponentials
  std::vector<TokenLogprob> top_;
  std::vector<std::int32_t> seen_;   // [vocabulary] 0: not seen; else 1 + times in the output
  std::vector<TokenId> distinct_;    // those that are not 0
  std::vector<TokenId> candidates_;  // empty: all tokens
  std::vector<double> weights_;      // of the candidates, relative to the most probable one
  std::vector<double> bucket_mass_;
  std::vector<std::size_t> boundary_;
};

}  // namespace nibble::engine
