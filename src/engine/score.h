// How probable a model finds a text: what perplexity and bits per character are made of.
//
//   NIBBLE_ASSIGN_OR_RETURN(TextScorer scorer, TextScorer::make(*model, 512));
//   NIBBLE_ASSIGN_OR_RETURN(const TextScore score, scorer.score(tokens, pool));
//   const double perplexity = std::exp(-score.log_probability / score.tokens);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/model.h"

namespace nibble::engine {

struct TextScore {
  double log_probability = 0;  // sum over the scored tokens, natural logarithm
  std::int64_t tokens = 0;     // scored: all but the first
};

class TextScorer {
 public:
  // Reserves the model's memory for texts of up to `most_tokens`. The model must outlive the scorer
  // and not have been reserved for something else. An input error for sizes out of range.
  static Result<TextScorer> make(Model& model, std::int64_t most_tokens);

  // Each token after all those before it. An input error for fewer than two tokens, more than
  // `most_tokens`, a token that is not in the vocabulary, and a probability that is no number.
  Result<TextScore> score(std::span<const text::TokenId> tokens, ThreadPool& pool);

 private:
  explicit TextScorer(Model& model) : model_(&model) {}

  Model* model_;
  std::int64_t most_tokens_ = 0;
  std::int64_t batch_ = 0;  // tokens of a step
  std::vector<std::int32_t> blocks_;
  std::vector<float> logits_;  // [batch, vocabulary]
};

// log of softmax(logits)[token].
double log_probability(std::span<const float> logits, text::TokenId token);

}  // namespace nibble::engine
