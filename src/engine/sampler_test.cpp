#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <string>

#include "base/stats.h"

namespace nibble::engine {
namespace {

using Tokens = std::vector<TokenId>;

// Logits of these probabilities, with an offset that softmax removes.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double probability : probabilities) {
    logits.push_back(static_cast<float>(std::log(probability) + 3));
  }
  return logits;
}

const std::vector<double> kModel = {0.1, 0.4, 0.03, 0.25, 0.07, 0.15};

struct Scene {
  Sampling sampling = {};
  Tokens prompt = {};
  Tokens output = {};
  Tokens forbidden = {};
};

std::optional<OutputToken> sample(const Scene& scene, std::vector<float> logits) {
  Sampler sampler(static_cast<std::int64_t>(logits.size()));
  return sampler.sample({.sampling = scene.sampling,
                         .prompt = scene.prompt,
                         .output = scene.output,
                         .forbidden = scene.forbidden},
                        logits);
}

TokenId chosen(const Scene& scene, const std::vector<float>& logits) {
  const auto token = sample(scene, logits);
  return token ? token->id : -1;
}

Sampling greedy() {
  return {.temperature = 0};
}

// The largest value that a chi-square variable exceeds once in 10 000 times (Wilson and Hilferty).
double chi_square_limit(double degrees) {
  const double part = 2 / (9 * degrees);
  return degrees * std::pow(1 - part + normal_quantile(0.9999) * std::sqrt(part), 3);
}

// 20 000 seeds against the distribution that was computed by hand; what has probability 0 must not
// come once.
void expect_distribution(Scene scene, const std::vector<double>& expected) {
  constexpr int kDraws = 20'000;
  std::vector<int> counts(expected.size(), 0);
  Sampler sampler(static_cast<std::int64_t>(kModel.size()));
  for (int draw = 0; draw < kDraws; ++draw) {
    scene.sampling.seed = static_cast<std::uint64_t>(draw);
    std::vector<float> logits = logits_of(kModel);
    const auto token = sampler.sample({.sampling = scene.sampling,
                                       .prompt = scene.prompt,
                                       .output = scene.output,
                                       .forbidden = scene.forbidden},
                                      logits);
    ASSERT_TRUE(token.has_value());
    ++counts[static_cast<std::size_t>(token->id)];
  }
  const double total = std::accumulate(expected.begin(), expected.end(), 0.0);
  double chi_square = 0;
  double degrees = -1;
  for (std::size_t id = 0; id < expected.size(); ++id) {
    if (expected[id] == 0) {
      EXPECT_EQ(counts[id], 0) << "token " << id;
      continue;
    }
    const double mean = kDraws * expected[id] / total;
    chi_square += (counts[id] - mean) * (counts[id] - mean) / mean;
    degrees += 1;
  }
  if (degrees < 1) return;
  EXPECT_LT(chi_square, chi_square_limit(degrees));
}

TEST(SamplerDistribution, OfTheModel) {
  expect_distribution({}, kModel);
}

TEST(SamplerDistribution, TemperatureSquaresTheProbabilitiesAtOneHalf) {
  expect_distribution({.sampling = {.temperature = 0.5}},
                      {0.01, 0.16, 0.0009, 0.0625, 0.0049, 0.0225});
}

TEST(SamplerDistribution, TopKKeepsTheMostProbable) {
  expect_distribution({.sampling = {.top_k = 2}}, {0, 0.4, 0, 0.25, 0, 0});
  expect_distribution({.sampling = {.top_k = 1}}, {0, 1, 0, 0, 0, 0});
  expect_distribution({.sampling = {.top_k = 600}}, kModel);
  expect_distribution({.sampling = {.top_k = -1}}, kModel);
}

TEST(SamplerDistribution, TopPKeepsTheFewestThatReachIt) {
  expect_distribution({.sampling = {.top_p = 0.6}}, {0, 0.4, 0, 0.25, 0, 0});
  expect_distribution({.sampling = {.top_p = 0.66}}, {0, 0.4, 0, 0.25, 0, 0.15});
  expect_distribution({.sampling = {.top_p = 0.39}}, {0, 1, 0, 0, 0, 0});
  expect_distribution({.sampling = {.top_p = 1e-300}}, {0, 1, 0, 0, 0, 0});
}

TEST(SamplerDistribution, MinPIsRelativeToTheMostProbable) {
  expect_distribution({.sampling = {.min_p = 0.3}}, {0, 0.4, 0, 0.25, 0, 0.15});  // from 0.12
  expect_distribution({.sampling = {.min_p = 1}}, {0, 1, 0, 0, 0, 0});
}

// Of the three that top-k leaves, two have 0.65 / 0.8 = 0.81; of all, the third would be needed.
TEST(SamplerDistribution, TopPCountsWhatTopKLeaves) {
  expect_distribution({.sampling = {.top_k = 3, .top_p = 0.8}}, {0, 0.4, 0, 0.25, 0, 0});
}

// Min-p leaves 0.9 in four (from 0.08), and 0.65 / 0.9 = 0.72.
TEST(SamplerDistribution, TopPCountsWhatMinPLeaves) {
  expect_distribution({.sampling = {.top_p = 0.7, .min_p = 0.2}}, {0, 0.4, 0, 0.25, 0, 0});
}

TEST(SamplerDistribution, BiasAddsToTheLogit) {
  const auto doubled = static_cast<float>(std::log(2.0));
  expect_distribution({.sampling = {.logit_bias = {{4, doubled}, {1, -100.0F}}}},
                      {0.1, 0, 0.03, 0.25, 0.14, 0.15});
}

TEST(SamplerDistribution, ForbiddenTokensDoNotCome) {
  expect_distribution({.forbidden = {1, 3}}, {0.1, 0, 0.03, 0, 0.07, 0.15});
}

TEST(SamplerDistribution, EachOutputTokenHasItsOwnNumber) {
  // The same seed at 20 000 places of the output, against the same distribution.
  std::vector<int> counts(10, 0);
  for (int index = 0; index < 20'000; ++index) {
    ++counts[static_cast<std::size_t>(random_number(42, index) * 10)];
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 2000.0) * (count - 2000.0) / 2000;
  EXPECT_LT(chi_square, chi_square_limit(9));
}

TEST(Sampler, GreedyTakesTheLargestAndOfEqualOnesTheLowestId) {
  EXPECT_EQ(chosen({.sampling = greedy()}, logits_of(kModel)), 1);
  EXPECT_EQ(chosen({.sampling = greedy()}, {1, 5, 5, 2}), 1);
  EXPECT_EQ(chosen({.sampling = greedy()}, {-3}), 0);
  EXPECT_EQ(chosen({.sampling = {.temperature = 1e-6}}, {1, 5, 5, 2}), 1);
  EXPECT_EQ(chosen({.sampling = {.temperature = 1e-4}}, {1, 5, 4.9F, 2}), 1);
}

TEST(Sampler, TheLargestIsFoundAtEveryPlace) {
  for (std::size_t size : {1, 15, 16, 17, 64, 100}) {
    for (std::size_t place = 0; place < size; ++place) {
      std::vector<float> logits(size, -2.5F);
      logits[place] = -1;
      EXPECT_EQ(chosen({.sampling = greedy()}, logits), static_cast<TokenId>(place));
      logits[place] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_FALSE(sample({.sampling = greedy()}, logits).has_value()) << place;
    }
  }
}

TEST(Sampler, LogitsThatAreNotFiniteGiveNoToken) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::nanf("")}) {
    for (const double temperature : {0.0, 1.0}) {
      const Scene scene{.sampling = {.temperature = temperature, .top_k = 2, .logprobs = 2}};
      EXPECT_FALSE(sample(scene, {1, 2, bad, 4}).has_value());
    }
  }
  EXPECT_FALSE(sample({.forbidden = {0, 1}}, {1, 2}).has_value());
}

TEST(Sampler, ExtremeLogitsAndParametersStayFinite) {
  const float most = std::numeric_limits<float>::max();
  for (const double temperature : {0.0, 1e-5, 1e-3, 1.0, 1e300}) {
    for (const double repetition : {1e-300, 1.0, 1e300}) {
      const Scene scene{.sampling = {.temperature = temperature,
                                     .top_p = 0.9,
                                     .repetition_penalty = repetition,
                                     .logit_bias = {{0, 100.0F}},
                                     .logprobs = 2},
                        .prompt = {0, 1, 2},
                        .output = {1}};
      const auto token = sample(scene, {most, -most, most, 0});
      ASSERT_TRUE(token.has_value());
      EXPECT_TRUE(token->id >= 0 && token->id < 4);
      EXPECT_FALSE(std::isnan(token->logprob));
    }
  }
}

// By hand, greedy: what each penalty makes of the logits 2, 1.5 and -1.
TEST(Sampler, PenaltiesAsVllmHasThem) {
  const std::vector<float> logits = {2, 1.5F, -1};
  auto with = [&](Sampling sampling, Tokens prompt, Tokens output) {
    sampling.temperature = 0;
    return chosen({.sampling = sampling, .prompt = std::move(prompt), .output = std::move(output)},
                  logits);
  };
  // Presence: once, however often; of the output alone. 2 - 0.6 = 1.4.
  EXPECT_EQ(with({.presence_penalty = 0.6}, {0}, {}), 0);
  EXPECT_EQ(with({.presence_penalty = 0.6}, {}, {0}), 1);
  EXPECT_EQ(with({.presence_penalty = 0.4}, {}, {0, 0, 0}), 0);
  // Frequency: times the count. 2 - 2 * 0.3 = 1.4; 2 - 0.3 = 1.7.
  EXPECT_EQ(with({.frequency_penalty = 0.3}, {0, 0}, {0}), 0);
  EXPECT_EQ(with({.frequency_penalty = 0.3}, {}, {0, 2, 0}), 1);
  // Repetition: prompt and output, once. 2 / 1.4 = 1.43; and the other way below 1: 1.5 / 0.7
  // = 2.1.
  EXPECT_EQ(with({.repetition_penalty = 1.4}, {0}, {}), 1);
  EXPECT_EQ(with({.repetition_penalty = 1.3}, {0, 0}, {0}), 0);
  EXPECT_EQ(with({.repetition_penalty = 0.7}, {}, {1}), 1);
}

TEST(Sampler, RepetitionMakesNegativeLogitsSmaller) {
  // -1 * 1.5 = -1.5, below -1.2.
  const Scene scene{.sampling = {.temperature = 0, .repetition_penalty = 1.5}, .prompt = {1}};
  EXPECT_EQ(chosen(scene, {-1.2F, -1}), 0);
}

// Bias first, as in vLLM: (1 + 3) / 2 = 2 is above 1.9; 1 / 2 + 3 would be as well, so also the
// other way: (4 - 3) / 0.5 = 2 is below 2.5, and 4 / 0.5 - 3 = 5 would be above it.
TEST(Sampler, BiasComesBeforePenalties) {
  EXPECT_EQ(
      chosen({.sampling = {.temperature = 0, .repetition_penalty = 0.5, .logit_bias = {{0, -3.0F}}},
              .prompt = {0}},
             {4, 2.5F}),
      1);
}

TEST(Sampler, PenaltiesLeaveNothingBehindForTheNextRow) {
  Sampler sampler(3);
  const Sampling penalized{.temperature = 0, .presence_penalty = 2};
  const Tokens output = {0};
  std::vector<float> first = {2, 1.5F, -1};
  const SampleInput input{.sampling = penalized, .prompt = {}, .output = output, .forbidden = {}};
  EXPECT_EQ(sampler.sample(input, first)->id, 1);
  std::vector<float> second = {2, 1.5F, -1};
  const SampleInput fresh{.sampling = penalized, .prompt = {}, .output = {}, .forbidden = {}};
  EXPECT_EQ(sampler.sample(fresh, second)->id, 0);
}

TEST(Sampler, LogprobsAreOfTheModelsOwnDistribution) {
  const Scene scene{.sampling = {.temperature = 0.3,
                                 .top_k = 1,
                                 .presence_penalty = 2,
                                 .logit_bias = {{2, 100.0F}},
                                 .logprobs = 3},
                    .output = {1}};
  const auto token = sample(scene, logits_of(kModel));
  ASSERT_TRUE(token.has_value());
  EXPECT_EQ(token->id, 2);
  EXPECT_NEAR(token->logprob, std::log(0.03), 1e-6);
  ASSERT_EQ(token->top.size(), 3U);
  const std::vector<std::pair<TokenId, double>> expected = {{1, 0.4}, {3, 0.25}, {5, 0.15}};
  for (std::size_t place = 0; place < 3; ++place) {
    EXPECT_EQ(token->top[place].id, expected[place].first);
    EXPECT_NEAR(token->top[place].logprob, std::log(expected[place].second), 1e-6);
  }
}

TEST(Sampler, LogprobsOfManyOrOfTheChosenOneAlone) {
  EXPECT_TRUE(sample({.sampling = {.logprobs = 0}}, logits_of(kModel))->top.empty());
  EXPECT_LT(sample({.sampling = {.logprobs = 0}}, logits_of(kModel))->logprob, 0);
  EXPECT_EQ(sample({.sampling = {}}, logits_of(kModel))->logprob, 0);
  const auto all = sample({.sampling = {.logprobs = 20}}, {0, 0, 0});
  ASSERT_EQ(all->top.size(), 3U);  // as many as there are, equal ones by their ids
  for (TokenId id = 0; id < 3; ++id) {
    EXPECT_EQ(all->top[static_cast<std::size_t>(id)].id, id);
    EXPECT_NEAR(all->top[static_cast<std::size_t>(id)].logprob, -std::log(3.0), 1e-6);
  }
}

// The definition, with a full sort: what the sampler must give whatever shortcuts it takes.
TokenId chosen_by_definition(const Sampling& sampling, const std::vector<float>& logits) {
  struct Candidate {
    TokenId id;
    double weight;
  };
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<Candidate> all;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    all.push_back(
        {static_cast<TokenId>(id), std::exp((logits[id] - largest) / sampling.temperature)});
  }
  std::stable_sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    return logits[static_cast<std::size_t>(a.id)] > logits[static_cast<std::size_t>(b.id)];
  });
  std::erase_if(all, [&](const Candidate& one) { return one.weight < sampling.min_p; });
  if (sampling.top_k > 0 && sampling.top_k < std::ssize(all)) {
    all.resize(static_cast<std::size_t>(sampling.top_k), {});
  }
  double mass = 0;
  for (const Candidate& one : all) mass += one.weight;
  std::size_t kept = 0;
  for (double before = 0; kept < all.size() && (before < sampling.top_p * mass); ++kept) {
    before += all[kept].weight;
  }
  if (sampling.top_p < 1) all.resize(kept, {});
  std::sort(all.begin(), all.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  mass = 0;
  for (const Candidate& one : all) mass += one.weight;
  const double wanted = random_number(sampling.seed, 0) * mass;
  double passed = 0;
  for (const Candidate& one : all) {
    passed += one.weight;
    if (passed > wanted) return one.id;
  }
  return all.back().id;
}

TEST(Sampler, AgreesWithTheDefinitionOnLargeVocabularies) {
  Random random(3);
  auto one_of = [&](std::initializer_list<double> values) {
    return values.begin()[random.below(values.size())];
  };
  for (int round = 0; round < 400; ++round) {
    const std::size_t size = 1 + random.below(6000);
    const double spread = one_of({0, 1, 10, 40});
    std::vector<float> logits;
    for (std::size_t id = 0; id < size; ++id) {
      const double rounded = std::round(random.uniform() * 64) / 64;  // many equal ones
      logits.push_back(static_cast<float>(spread * (round % 2 == 0 ? rounded : random.uniform())));
    }
    const Sampling sampling{.temperature = one_of({0.1, 0.7, 1, 3}),
                            .top_k = static_cast<std::int64_t>(one_of({0, 0, 1, 7, 900, 2000})),
                            .top_p = one_of({1, 1, 0.123, 0.5, 0.9, 0.999}),
                            .min_p = one_of({0, 0, 0.0123, 0.25}),
                            .seed = random.next()};
    ASSERT_EQ(chosen({.sampling = sampling}, logits), chosen_by_definition(sampling, logits))
        << "round " << round;
  }
}

struct BadSampling {
  const char* begins;
  Sampling sampling;
};

TEST(SamplingCheck, EveryBadParameterIsNamed) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const float not_a_number = std::nanf("");
  const BadSampling cases[] = {
      {"temperature is -0.1", {.temperature = -0.1}},
      {"temperature is nan", {.temperature = nan}},
      {"temperature is inf", {.temperature = infinity}},
      {"top_k is -2", {.top_k = -2}},
      {"top_p is 0;", {.top_p = 0}},
      {"top_p is 1.01", {.top_p = 1.01}},
      {"top_p is -1", {.top_p = -1}},
      {"top_p is nan", {.top_p = nan}},
      {"min_p is -0.5", {.min_p = -0.5}},
      {"min_p is 1.5", {.min_p = 1.5}},
      {"min_p is nan", {.min_p = nan}},
      {"presence_penalty is 2.5", {.presence_penalty = 2.5}},
      {"presence_penalty is nan", {.presence_penalty = nan}},
      {"frequency_penalty is -2.5", {.frequency_penalty = -2.5}},
      {"frequency_penalty is inf", {.frequency_penalty = infinity}},
      {"repetition_penalty is 0", {.repetition_penalty = 0}},
      {"repetition_penalty is -1", {.repetition_penalty = -1}},
      {"repetition_penalty is inf", {.repetition_penalty = infinity}},
      {"repetition_penalty is nan", {.repetition_penalty = nan}},
      {"logit_bias names token 50;", {.logit_bias = {{50, 1.0F}}}},
      {"logit_bias names token -1;", {.logit_bias = {{-1, 1.0F}}}},
      {"logit_bias of token 3 is 101", {.logit_bias = {{3, 101.0F}}}},
      {"logit_bias of token 3 is nan", {.logit_bias = {{3, not_a_number}}}},
      {"logit_bias names token 3 twice", {.logit_bias = {{3, 1.0F}, {4, 1.0F}, {3, 2.0F}}}},
      {"logprobs is -1", {.logprobs = -1}},
      {"logprobs is 21", {.logprobs = 21}},
  };
  for (const BadSampling& bad : cases) {
    const Result<> result = check(bad.sampling, 50);
    ASSERT_FALSE(result.ok()) << bad.begins;
    EXPECT_EQ(result.error().kind, ErrorKind::kInput);
    EXPECT_TRUE(result.error().message.starts_with(bad.begins)) << result.error().message;
  }
}

TEST(SamplingCheck, TheEndsOfEveryRangeAreTaken) {
  const Sampling good[] = {
      {},
      {.temperature = 0, .top_k = -1, .min_p = 1, .logprobs = 0},
      {.temperature = 1e300, .top_k = 1'000'000'000'000, .top_p = 1e-300, .logprobs = 20},
      {.presence_penalty = -2, .frequency_penalty = 2, .repetition_penalty = 1e-300},
      {.logit_bias = {{0, -100.0F}, {49, 100.0F}}},
  };
  for (const Sampling& sampling : good) EXPECT_TRUE(check(sampling, 50).ok());
}

}  // namespace
}  // namespace nibble::engine
