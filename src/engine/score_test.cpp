#include "engine/score.h"

#include <cmath>

#include "engine/models/test_runner.h"

namespace nibble::engine {
namespace {

std::unique_ptr<Model> load(ThreadPool& pool) {
  Result<std::unique_ptr<Model>> loaded = load_checkpoint_model(golden_folder("tied"), {}, pool);
  NIBBLE_CHECK(loaded.ok());
  return std::move(*loaded);
}

// softmax of (0, ln 3) is (1/4, 3/4).
TEST(LogProbability, ByHand) {
  const std::vector<float> logits = {0, 1.0986123F};
  EXPECT_NEAR(log_probability(logits, 0), std::log(0.25), 1e-7);
  EXPECT_NEAR(log_probability(logits, 1), std::log(0.75), 1e-7);
  const std::vector<float> far = {-1000, 1000, -1000};
  EXPECT_EQ(log_probability(far, 1), 0);
  EXPECT_EQ(log_probability(far, 0), -2000);
}

// What transformers' logits give, over a text longer than a step: its prompt and what it wrote.
TEST(TextScorer, EqualsWhatTransformersLogitsGive) {
  const Golden golden = read_golden("tied");
  std::vector<text::TokenId> tokens = golden.prompt;
  tokens.insert(tokens.end(), golden.greedy.begin(), golden.greedy.end());
  std::vector<float> logits = golden.prompt_logits;
  logits.insert(logits.end(), golden.greedy_logits.begin(), golden.greedy_logits.end());
  constexpr std::size_t kVocabulary = 96;
  double expected = 0;
  for (std::size_t at = 0; at + 1 < tokens.size(); ++at) {
    double sum = 0;
    const float* const row = logits.data() + at * kVocabulary;
    for (std::size_t k = 0; k < kVocabulary; ++k) sum += std::exp(static_cast<double>(row[k]));
    expected += static_cast<double>(row[tokens[at + 1]]) - std::log(sum);
  }
  ThreadPool pool(2);
  const std::unique_ptr<Model> model = load(pool);
  Result<TextScorer> scorer = TextScorer::make(*model, 128);
  ASSERT_TRUE(scorer.ok());
  for (int again = 0; again < 2; ++again) {
    const Result<TextScore> score = scorer->score(tokens, pool);
    ASSERT_TRUE(score.ok());
    EXPECT_EQ(score->tokens, 127);
    EXPECT_NEAR(score->log_probability, expected, 1e-4 * std::fabs(expected));
  }
}

TEST(TextScorer, RefusesWhatItCannotScore) {
  ThreadPool pool(1);
  const std::unique_ptr<Model> model = load(pool);
  EXPECT_FALSE(TextScorer::make(*model, 1).ok());
  EXPECT_FALSE(TextScorer::make(*model, 257).ok());  // its context is 256
  Result<TextScorer> scorer = TextScorer::make(*model, 4);
  ASSERT_TRUE(scorer.ok());
  const auto message = [&](const std::vector<text::TokenId>& tokens) {
    const Result<TextScore> score = scorer->score(tokens, pool);
    return score.ok() ? std::string() : score.error().message;
  };
  EXPECT_EQ(message({1, 2, 3, 4}), "");
  EXPECT_EQ(message({1}), "a text of 1 tokens cannot be scored; give 2 to 4");
  EXPECT_NE(message({1, 2, 3, 4, 5}), "");
  EXPECT_EQ(message({1, 96}), "token 96 is not in the vocabulary of 96");
  EXPECT_NE(message({1, -1}), "");
}

}  // namespace
}  // namespace nibble::engine
