#include "engine/score.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace nibble::engine {
namespace {

constexpr std::int64_t kBlockTokens = 16;
constexpr std::int64_t kBatch = 64;  // rows of one step; 64 x 150,000 logits are 38 MB

}  // namespace

double log_probability(std::span<const float> logits, text::TokenId token) {
  NIBBLE_CHECK(token >= 0 && static_cast<std::size_t>(token) < logits.size());
  const auto most = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return static_cast<double>(logits[static_cast<std::size_t>(token)]) - most - std::log(sum);
}

Result<TextScorer> TextScorer::make(Model& model, std::int64_t most_tokens) {
  const ModelInfo& info = model.info();
  if (most_tokens < 2 || most_tokens > info.max_context) {
    return input_error("texts of {} tokens cannot be scored; give 2 to {}, the model's context",
                       most_tokens, info.max_context);
  }
  TextScorer scorer(model);
  scorer.most_tokens_ = most_tokens;
  scorer.batch_ = std::min(kBatch, most_tokens);
  const std::int64_t blocks = (most_tokens + kBlockTokens - 1) / kBlockTokens;
  NIBBLE_RETURN_IF_ERROR(model.reserve({.blocks = blocks,
                                        .block_tokens = kBlockTokens,
                                        .most_rows = scorer.batch_,
                                        .most_logits = scorer.batch_}));
  scorer.blocks_.resize(static_cast<std::size_t>(blocks));
  std::iota(scorer.blocks_.begin(), scorer.blocks_.end(), 0);
  scorer.logits_.resize(static_cast<std::size_t>(scorer.batch_ * info.vocabulary));
  return scorer;
}

Result<TextScore> TextScorer::score(std::span<const text::TokenId> tokens, ThreadPool& pool) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::int64_t vocabulary = model_->info().vocabulary;
  if (count < 2 || count > most_tokens_) {
    return input_error("a text of {} tokens cannot be scored; give 2 to {}", count, most_tokens_);
  }
  for (const text::TokenId token : tokens) {
    if (token >= 0 && token < vocabulary) continue;
    return input_error("token {} is not in the vocabulary of {}", token, vocabulary);
  }
  TextScore score;
  for (std::int64_t begin = 0; begin + 1 < count; begin += batch_) {
    const std::int64_t rows = std::min(batch_, count - 1 - begin);
    const SequenceRows sequence{
        .rows = rows, .context = begin, .blocks = blocks_, .logit_rows = rows};
    const std::span<float> logits =
        std::span(logits_).first(static_cast<std::size_t>(rows * vocabulary));
    model_->forward(
        {.tokens = tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)),
         .sequences = {&sequence, 1}},
        logits, pool);
    for (std::int64_t row = 0; row < rows; ++row) {
      score.log_probability +=
          log_probability(logits.subspan(static_cast<std::size_t>(row * vocabulary),
                                         static_cast<std::size_t>(vocabulary)),
                          tokens[static_cast<std::size_t>(begin + row + 1)]);
    }
  }
  score.tokens = count - 1;
  if (std::isfinite(score.log_probability)) return score;
  return run_error("the model gives logits that are no finite numbers");
}

}  // namespace nibble::engine
