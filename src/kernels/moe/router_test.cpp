#include "kernels/moe/router.h"

#include <bit>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/moe/reference.h"
#include "kernels/moe/test_inputs.h"

namespace nibble {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

Routed route(const RouterConfig& config, const std::vector<float>& logits, Isa isa = best_isa(),
             int threads = 1, const std::vector<float>& linear_bias = {}) {
  Result<Router> router = Router::make(config);
  EXPECT_TRUE(router.ok()) << router.error().message;
  const std::size_t tokens = logits.size() / static_cast<std::size_t>(config.experts);
  Routed routed;
  routed.ids.assign(tokens * static_cast<std::size_t>(config.top_k), -1);
  routed.weights.assign(routed.ids.size(), -1);
  ThreadPool pool(threads);
  router->route(
      {.logits = logits, .linear_bias = linear_bias, .ids = routed.ids, .weights = routed.weights},
      isa, pool);
  return routed;
}

// ---- tests/golden/moe/router.txt ----------------------------------------------------------------

struct GoldenCase {
  std::string name;
  RouterConfig config;
  std::vector<float> logits;
  std::vector<std::int32_t> ids;
  std::vector<double> weights;
};

std::istringstream next_line(std::istream& file) {
  std::string line;
  std::getline(file, line);
  return std::istringstream(line);
}

template <class T>
void read_numbers(std::istream& file, std::vector<T>& numbers) {
  std::istringstream line = next_line(file);
  for (T number; line >> number;) numbers.push_back(number);
}

void read_floats(std::istream& file, std::vector<float>& numbers) {
  std::istringstream line = next_line(file);
  for (std::uint32_t bits; line >> std::hex >> bits;) {
    numbers.push_back(std::bit_cast<float>(bits));
  }
}

std::vector<GoldenCase> golden_cases() {
  std::ifstream file(NIBBLE_SOURCE_DIR "/tests/golden/moe/router.txt");
  EXPECT_TRUE(file.good());
  std::vector<GoldenCase> cases;
  while (file.peek() != EOF) {
    GoldenCase golden;
    RouterConfig& config = golden.config;
    std::string kind;
    int tokens = 0;
    bool biased = false;
    std::istringstream line = next_line(file);
    line >> golden.name >> kind >> config.experts >> config.top_k >> config.groups >>
        config.top_groups >> config.renormalise >> config.softmax_after_top_k >>
        config.scaling_factor >> tokens >> biased;
    EXPECT_FALSE(line.fail()) << golden.name;
    config.kind = kind == "sigmoid" ? RouterKind::kSigmoid : RouterKind::kSoftmax;
    if (biased) read_floats(file, config.correction_bias);
    for (int token = 0; token < tokens; ++token) {
      read_floats(file, golden.logits);
      read_numbers(file, golden.ids);
      read_numbers(file, golden.weights);
    }
    cases.push_back(std::move(golden));
  }
  return cases;
}

// exp errs by 1.5 units of 2^-23 and its argument, up to 16 here, by 2^-21 absolutely; both again
// in the sum that weights are divided by. Far-apart logits err by up to 2^-16, 600 being rounded.
double tolerance(const GoldenCase& golden) {
  return golden.name == "far-apart" ? 0x1p-15 : 0x1p-19;
}

TEST(Router, ChoosesAsPublishedCodeDoes) {
  const std::vector<GoldenCase> cases = golden_cases();
  ASSERT_EQ(cases.size(), 19U);
  for (const GoldenCase& golden : cases) {
    for (const Isa isa : usable_isas()) {
      const Routed routed = route(golden.config, golden.logits, isa);
      ASSERT_EQ(routed.ids, golden.ids) << golden.name << " " << to_string(isa);
      for (std::size_t at = 0; at < routed.weights.size(); ++at) {
        EXPECT_NEAR(static_cast<double>(routed.weights[at]), golden.weights[at],
                    tolerance(golden) * golden.weights[at] + 0x1p-149)
            << golden.name << " " << to_string(isa) << " choice " << at;
      }
    }
  }
}

TEST(Router, TheReferenceChoosesAsPublishedCodeDoes) {
  for (const GoldenCase& golden : golden_cases()) {
    const auto experts = static_cast<std::size_t>(golden.config.experts);
    const auto top_k = static_cast<std::size_t>(golden.config.top_k);
    for (std::size_t token = 0; token * experts < golden.logits.size(); ++token) {
      const ReferenceRoute route = reference_route(
          golden.config, std::span(golden.logits).subspan(token * experts, experts));
      for (std::size_t choice = 0; choice < top_k; ++choice) {
        EXPECT_EQ(route.ids[choice], golden.ids[token * top_k + choice]) << golden.name;
        const double expected = golden.weights[token * top_k + choice];
        // The scaling factor is an fp32 number, and an oracle's decimal one.
        EXPECT_NEAR(route.weights[choice], expected, 0x1p-24 * expected) << golden.name;
      }
    }
  }
}

// ---- what holds for every router ----------------------------------------------------------------

TEST(Router, HasTheSameBitsOnEveryInstructionSetAndAnyNumberOfThreads) {
  for (const GoldenCase& golden : golden_cases()) {
    const Routed expected = route(golden.config, golden.logits, Isa::kPortable);
    for (const Isa isa : usable_isas()) {
      for (const int threads : {1, 3}) {
        const Routed routed = route(golden.config, golden.logits, isa, threads);
        EXPECT_EQ(routed.ids, expected.ids) << golden.name << " " << to_string(isa);
        EXPECT_TRUE(same_bits(routed.weights, expected.weights))
            << golden.name << " " << to_string(isa);
      }
    }
  }
}

TEST(Router, ATokenDoesNotDependOnItsBatch) {
  Random random(3);
  const RouterConfig config{.kind = RouterKind::kSigmoid,
                            .experts = 64,
                            .top_k = 6,
                            .groups = 8,
                            .top_groups = 3,
                            .renormalise = true,
                            .correction_bias = gaussian(random, 64)};
  const std::vector<float> logits = gaussian(random, 40 * 64);
  const Routed all = route(config, logits);
  for (std::size_t token = 0; token < 40; ++token) {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(token * 64);
    const Routed alone = route(config, std::vector<float>(begin, begin + 64));
    EXPECT_TRUE(same_bits(alone.weights, std::span(all.weights).subspan(token * 6, 6))) << token;
    EXPECT_TRUE(std::equal(alone.ids.begin(), alone.ids.end(),
                           all.ids.begin() + static_cast<std::ptrdiff_t>(token * 6)))
        << token;
  }
}

TEST(Router, NoTokens) {
  EXPECT_TRUE(route({.experts = 8, .top_k = 2}, {}).ids.empty());
}

TEST(Router, LinearBiasIsAddedToTheLogits) {
  // Without the bias expert 0 leads; with it, expert 2 does, and its weight is e / (e + 1).
  const Routed routed = route({.experts = 3, .top_k = 2, .softmax_after_top_k = true}, {2, 1, 0},
                              best_isa(), 1, {0, 0, 3});
  EXPECT_EQ(routed.ids, (std::vector<std::int32_t>{2, 0}));
  EXPECT_NEAR(static_cast<double>(routed.weights[0]), std::exp(1.0) / (std::exp(1.0) + 1), 1e-6);
}

TEST(Router, TheCorrectionBiasChoosesButDoesNotWeigh) {
  const Routed routed =
      route({.kind = RouterKind::kSigmoid, .experts = 3, .top_k = 1, .correction_bias = {0, 0, 1}},
            {5, 4, 0});
  EXPECT_EQ(routed.ids[0], 2);
  EXPECT_EQ(routed.weights[0], 0.5F);  // sigmoid(0)
}

TEST(Router, ExpertsOutsideTheBestGroupsAreNotChosen) {
  // Groups {0, 1}, {2, 3}: with a bias 0.9 + 0.1 loses against 0.6 + 0.5, so expert 0 is out.
  RouterConfig config{.kind = RouterKind::kSigmoid,
                      .experts = 4,
                      .top_k = 2,
                      .groups = 2,
                      .top_groups = 1,
                      .correction_bias = {0, 0, 0, 0}};
  const auto logit = [](double p) { return static_cast<float>(std::log(p / (1 - p))); };
  const std::vector<float> logits = {logit(0.9), logit(0.1), logit(0.6), logit(0.5)};
  EXPECT_EQ(route(config, logits).ids, (std::vector<std::int32_t>{2, 3}));
  // Without one the best expert of a group speaks for it.
  config.correction_bias.clear();
  EXPECT_EQ(route(config, logits).ids, (std::vector<std::int32_t>{0, 1}));
}

TEST(Router, NegativeBiasedScoresStillBeatExcludedGroups) {
  // Every biased score is below zero: an excluded expert must not come back as "zero".
  const Routed routed = route({.kind = RouterKind::kSigmoid,
                               .experts = 4,
                               .top_k = 2,
                               .groups = 2,
                               .top_groups = 1,
                               .correction_bias = {-3, -3, -2, -2}},
                              {1, 1, 1, 1});
  EXPECT_EQ(routed.ids, (std::vector<std::int32_t>{2, 3}));
}

TEST(Router, OfEqualsTheLowerIndexComesFirst) {
  const std::vector<float> logits = {0.0F, 1, -0.0F, 1, 0.0F};
  EXPECT_EQ(route({.experts = 5, .top_k = 5}, logits).ids,
            (std::vector<std::int32_t>{1, 3, 0, 2, 4}));
}

TEST(Router, WhatIsNotANumber) {
  for (const RouterKind kind : {RouterKind::kSoftmax, RouterKind::kSigmoid}) {
    std::vector<float> logits(24, 1.0F);
    logits[8 + 5] = std::nanf("");
    const Routed routed = route({.kind = kind, .experts = 8, .top_k = 2}, logits);
    for (const std::size_t at : {2U, 3U}) {
      EXPECT_TRUE(std::isnan(routed.weights[at]));
      EXPECT_EQ(routed.ids[at], static_cast<std::int32_t>(at - 2));
    }
    for (const std::size_t at : {0U, 1U, 4U, 5U}) EXPECT_TRUE(std::isfinite(routed.weights[at]));
  }
}

TEST(Router, InfiniteLogits) {
  const RouterConfig softmax{.experts = 4, .top_k = 2};
  EXPECT_TRUE(std::isnan(route(softmax, {1, kInfinity, 0, 0}).weights[0]));
  EXPECT_TRUE(std::isnan(route(softmax, std::vector<float>(4, -kInfinity)).weights[0]));
  const Routed masked = route(softmax, {-kInfinity, 3, -kInfinity, -kInfinity});
  EXPECT_EQ(masked.ids, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(masked.weights, (std::vector<float>{1, 0}));
  const RouterConfig sigmoid{
      .kind = RouterKind::kSigmoid, .experts = 4, .top_k = 2, .renormalise = true};
  EXPECT_EQ(route(sigmoid, {0, kInfinity, -1, -2}).ids[0], 1);
  // All scores vanish: weights of 0, not 0 / 0.
  EXPECT_EQ(route(sigmoid, std::vector<float>(4, -kInfinity)).weights, (std::vector<float>{0, 0}));
}

TEST(Router, TheMostExpertsAndEveryOneOfThem) {
  Random random(9);
  const RouterConfig config{.experts = kMostExperts, .top_k = kMostExperts, .renormalise = true};
  const Routed routed = route(config, gaussian(random, kMostExperts));
  std::vector<bool> met(static_cast<std::size_t>(kMostExperts), false);
  for (const std::int32_t id : routed.ids) met[static_cast<std::size_t>(id)] = true;
  EXPECT_EQ(std::count(met.begin(), met.end(), true), kMostExperts);
  EXPECT_TRUE(std::is_sorted(routed.weights.rbegin(), routed.weights.rend()));
  // Each of 1,024 weights, below 1/16, is rounded by up to 2^-28.
  EXPECT_NEAR(std::accumulate(routed.weights.begin(), routed.weights.end(), 0.0), 1, 0x1p-18);
}

// ---- refusals -----------------------------------------------------------------------------------

std::string refusal(RouterConfig config) {
  const Result<Router> router = Router::make(std::move(config));
  return router.ok() ? "" : router.error().message;
}

TEST(Router, RefusesWhatDoesNotFit) {
  EXPECT_NE(refusal({.experts = 0, .top_k = 1}), "");
  EXPECT_NE(refusal({.experts = kMostExperts + 1, .top_k = 1}), "");
  EXPECT_NE(refusal({.experts = -5, .top_k = 1}), "");
  EXPECT_NE(refusal({.experts = 8, .top_k = 0}), "");
  EXPECT_NE(refusal({.experts = 8, .top_k = 9}), "");
  EXPECT_NE(refusal({.experts = 8, .top_k = 1, .groups = 0}), "");
  EXPECT_NE(refusal({.experts = 8, .top_k = 1, .groups = 3}), "");
  EXPECT_NE(refusal({.experts = 8, .top_k = 1, .groups = 16, .top_groups = 16}), "");
  EXPECT_NE(refusal({.experts = 8, .top_k = 1, .groups = 4, .top_groups = 5}), "");
  EXPECT_NE(refusal({.experts = 8, .top_k = 1, .groups = 4, .top_groups = 0}), "");
  EXPECT_NE(refusal({.experts = 8, .top_k = 5, .groups = 4, .top_groups = 2}), "");
  EXPECT_EQ(refusal({.experts = 8, .top_k = 4, .groups = 4, .top_groups = 2}), "");
  EXPECT_NE(refusal({.experts = 2, .top_k = 1, .scaling_factor = 0}), "");
  EXPECT_NE(refusal({.experts = 2, .top_k = 1, .scaling_factor = kInfinity}), "");
  EXPECT_NE(refusal({.experts = 2, .top_k = 1, .scaling_factor = std::nanf("")}), "");
  EXPECT_NE(refusal({.experts = 2, .top_k = 1, .correction_bias = {1}}), "");
  EXPECT_NE(refusal({.experts = 2, .top_k = 1, .correction_bias = {1, kInfinity}}), "");
  EXPECT_NE(
      refusal(
          {.kind = RouterKind::kSigmoid, .experts = 2, .top_k = 1, .softmax_after_top_k = true}),
      "");
  EXPECT_EQ(refusal({.experts = 8, .top_k = 5, .groups = 4, .top_groups = 2}),
            "the router chooses 5 experts, but the 2 groups that it keeps have 4");
}

}  // namespace
}  // namespace nibble
