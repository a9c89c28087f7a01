#include "kernels/moe/combine.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "kernels/moe/dispatch.h"
#include "kernels/moe/test_inputs.h"

namespace nibble {
namespace {

// Tokens with random experts, weights and outputs of experts.
struct Scene {
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t top_k = 0;
  std::vector<std::int32_t> slot_of;
  std::vector<std::int32_t> expert_of;
  std::vector<float> down;
  std::vector<float> weights;
  std::vector<float> bias;    // empty: none
  std::vector<float> shared;  // empty: none

  Scene(std::int64_t some_tokens, std::int64_t some_hidden, std::int64_t k)
      : tokens(some_tokens), hidden(some_hidden), top_k(k) {
    constexpr std::int64_t kExperts = 12;
    Random random(2);
    const std::vector<std::int32_t> ids = random_ids(random, tokens, kExperts, top_k);
    std::vector<std::int32_t> offsets(kExperts + 1);
    std::vector<std::int32_t> row_of(ids.size());
    slot_of.resize(ids.size());
    expert_of.resize(ids.size());
    EXPECT_TRUE(dispatch({.ids = ids,
                          .top_k = top_k,
                          .experts = kExperts,
                          .offsets = offsets,
                          .row_of = row_of,
                          .expert_of = expert_of,
                          .slot_of = slot_of})
                    .ok());
    down = gaussian(random, tokens * top_k * hidden);
    weights = gaussian(random, tokens * top_k);
    bias = gaussian(random, kExperts * hidden);
    shared = gaussian(random, tokens * hidden);
  }

  std::vector<float> run(Isa isa = best_isa(), int threads = 1) const {
    std::vector<float> y(static_cast<std::size_t>(tokens * hidden), -1e30F);
    ThreadPool pool(threads);
    combine({.down = down,
             .slot_of = slot_of,
             .expert_of = expert_of,
             .weights = weights,
             .bias = bias,
             .shared = shared,
             .top_k = top_k,
             .hidden = hidden,
             .output = y},
            isa, pool);
    return y;
  }

  // The definition, in double precision.
  double expected(std::size_t token, std::size_t column) const {
    const auto k = static_cast<std::size_t>(top_k);
    const auto h = static_cast<std::size_t>(hidden);
    double sum = 0;
    for (std::size_t choice = token * k; choice < (token + 1) * k; ++choice) {
      const auto slot = static_cast<std::size_t>(slot_of[choice]);
      const auto expert = static_cast<std::size_t>(expert_of[slot]);
      const double extra = bias.empty() ? 0 : static_cast<double>(bias[expert * h + column]);
      const double value = static_cast<double>(down[slot * h + column]) + extra;
      sum += static_cast<double>(weights[choice]) * value;
    }
    return shared.empty() ? sum : sum + static_cast<double>(shared[token * h + column]);
  }
};

TEST(Combine, IsTheWeightedSumOfTheTokensExperts) {
  for (const bool extras : {false, true}) {
    Scene scene(6, 45, 4);
    if (!extras) {
      scene.bias.clear();
      scene.shared.clear();
    }
    for (const Isa isa : usable_isas()) {
      const std::vector<float> y = scene.run(isa);
      for (std::size_t at = 0; at < y.size(); ++at) {
        // Ten roundings of sums below 2^5: 2^-20 each.
        EXPECT_NEAR(static_cast<double>(y[at]), scene.expected(at / 45, at % 45), 10 * 0x1p-20)
            << to_string(isa) << " " << at;
      }
    }
  }
}

TEST(Combine, HasTheSameBitsOnEveryInstructionSetAndAnyNumberOfThreads) {
  for (const std::int64_t hidden : {1, 16, 31, 512, 513, 2880}) {
    const Scene scene(3, hidden, 5);
    const std::vector<float> expected = scene.run(Isa::kPortable);
    for (const Isa isa : usable_isas()) {
      for (const int threads : {1, 3}) {
        EXPECT_TRUE(same_bits(scene.run(isa, threads), expected)) << to_string(isa) << hidden;
      }
    }
  }
}

TEST(Combine, AddsInTheOrderOfTheChoices) {
  // 2^24 + 1 - 2^24: the 1 is lost unless it comes last, whatever slots the experts lie in.
  const auto sum = [](std::vector<float> down, std::vector<std::int32_t> slot_of) {
    std::vector<float> y(1);
    ThreadPool pool(1);
    combine({.down = down,
             .slot_of = slot_of,
             .weights = std::vector<float>{1, 1, 1},
             .top_k = 3,
             .hidden = 1,
             .output = y},
            best_isa(), pool);
    return y[0];
  };
  EXPECT_EQ(sum({0x1p24F, 1, -0x1p24F}, {0, 1, 2}), 0);
  EXPECT_EQ(sum({0x1p24F, 1, -0x1p24F}, {0, 2, 1}), 1);
}

TEST(Combine, TheSharedExpertsOutputMayBeTheOutputItself) {
  const Scene scene(4, 40, 2);
  std::vector<float> y = scene.shared;
  ThreadPool pool(1);
  combine({.down = scene.down,
           .slot_of = scene.slot_of,
           .expert_of = scene.expert_of,
           .weights = scene.weights,
           .bias = scene.bias,
           .shared = y,
           .top_k = 2,
           .hidden = 40,
           .output = y},
          best_isa(), pool);
  EXPECT_TRUE(same_bits(y, scene.run()));
}

TEST(Combine, ATokenThatWasNotRoutedStaysVisible) {
  Scene scene(2, 20, 3);
  for (std::size_t choice = 0; choice < 3; ++choice) scene.weights[choice] = std::nanf("");
  const std::vector<float> y = scene.run();
  for (std::size_t at = 0; at < y.size(); ++at) EXPECT_EQ(std::isnan(y[at]), at < 20) << at;
}

TEST(Combine, NoTokens) {
  EXPECT_TRUE(Scene(0, 32, 2).run().empty());
}

}  // namespace
}  // namespace nibble
