// What the tests of routing on the host and on a GPU share: the tables by the plainest code, and
// routings that are hard to get right.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/moe/device/moe_shape.h"
#include "kernels/moe/router.h"
#include "kernels/moe/test_inputs.h"

namespace nibble {

struct ExpectedTables {
  std::vector<int> counts;
  std::vector<int> offsets;
  std::vector<int> tiles_a;
  std::vector<int> tiles_b;
  std::vector<int> slot_token;
  std::vector<float> slot_weight;
  std::vector<int> choice_slot;
  int dropped = 0;
};

struct TestChoices {
  int tokens = 0;
  int top_k = 1;
  int experts = 1;
  int tile_a = 8;
  int tile_b = 16;
  std::vector<std::int32_t> ids = {};
  std::vector<float> weights = {};
};

// Expert by expert, token by token.
inline ExpectedTables expected_tables(const TestChoices& choices) {
  ExpectedTables tables;
  tables.choice_slot.assign(choices.ids.size(), -1);
  int tiles_a = 0;
  int tiles_b = 0;
  for (int expert = 0; expert < choices.experts; ++expert) {
    tables.offsets.push_back(static_cast<int>(tables.slot_token.size()));
    tables.tiles_a.push_back(tiles_a);
    tables.tiles_b.push_back(tiles_b);
    int count = 0;
    for (std::size_t choice = 0; choice < choices.ids.size(); ++choice) {
      if (choices.ids[choice] != expert) continue;
      tables.choice_slot[choice] = static_cast<int>(tables.slot_token.size());
      tables.slot_token.push_back(static_cast<int>(choice) / choices.top_k);
      tables.slot_weight.push_back(choices.weights[choice]);
      ++count;
    }
    while (tables.slot_token.size() % 8 != 0) {
      tables.slot_token.push_back(-1);
      tables.slot_weight.push_back(0);
    }
    tables.counts.push_back(count);
    for (int left = count; left > 0; left -= choices.tile_a) ++tiles_a;
    for (int left = count; left > 0; left -= choices.tile_b) ++tiles_b;
  }
  tables.offsets.push_back(static_cast<int>(tables.slot_token.size()));
  tables.tiles_a.push_back(tiles_a);
  tables.tiles_b.push_back(tiles_b);
  for (const std::int32_t id : choices.ids) {
    if (id < 0 || id >= choices.experts) ++tables.dropped;
  }
  return tables;
}

enum class TestPattern { kRandom, kOneExpert, kFirstAndLast, kWithFaults };

inline TestChoices test_choices(TestPattern pattern, int tokens, int top_k, int experts) {
  Random random(static_cast<std::uint64_t>(tokens * 131 + top_k * 17 + experts));
  TestChoices choices{.tokens = tokens, .top_k = top_k, .experts = experts};
  choices.ids = random_ids(random, tokens, experts, top_k);
  choices.weights = gaussian(random, std::int64_t{tokens} * top_k);
  for (std::size_t at = 0; at < choices.ids.size(); ++at) {
    std::int32_t& id = choices.ids[at];
    if (pattern == TestPattern::kOneExpert) id = experts / 2;
    if (pattern == TestPattern::kFirstAndLast) id = at % 3 == 0 ? 0 : experts - 1;
    if (pattern == TestPattern::kWithFaults && at % 5 == 0) {
      id = at % 10 == 0 ? -1 - static_cast<std::int32_t>(at) : experts + static_cast<int>(at);
    }
  }
  return choices;
}

template <class T>
void expect_front(std::string_view name, std::span<const T> got, const std::vector<T>& expected) {
  ASSERT_GE(got.size(), expected.size()) << name;
  for (std::size_t at = 0; at < expected.size(); ++at) {
    const bool both_nan = got[at] != got[at] && expected[at] != expected[at];
    ASSERT_TRUE(both_nan || got[at] == expected[at])
        << name << " " << at << ": " << got[at] << ", not " << expected[at];
  }
}

// What routing wrote; the lists of slots may be longer.
inline void expect_tables(const ExpectedTables& got, const ExpectedTables& expected) {
  EXPECT_EQ(got.counts, expected.counts);
  EXPECT_EQ(got.offsets, expected.offsets);
  EXPECT_EQ(got.tiles_a, expected.tiles_a);
  EXPECT_EQ(got.tiles_b, expected.tiles_b);
  expect_front<int>("slot_token", got.slot_token, expected.slot_token);
  expect_front<float>("slot_weight", got.slot_weight, expected.slot_weight);
  expect_front<int>("choice_slot", got.choice_slot, expected.choice_slot);
  EXPECT_EQ(got.dropped, expected.dropped);
}

// ---- top-k --------------------------------------------------------------------------------------

struct TestRouter {
  MoeShape shape;
  bool linear_bias = false;
};

// Every rule of kernels/moe/router.h.
inline constexpr std::array kTestRouters = {
    TestRouter{{.experts = 128, .top_k = 8, .renormalise = true}},
    TestRouter{{.experts = 60, .top_k = 4}},
    TestRouter{{.experts = 20, .top_k = 20, .renormalise = true}},
    TestRouter{{.experts = 1, .top_k = 1}},
    TestRouter{{.experts = 33, .top_k = 5, .correction_bias = true}},
    TestRouter{{.experts = 160, .top_k = 6, .groups = 8, .top_groups = 3}},
    TestRouter{{.experts = 12, .top_k = 5, .groups = 6, .top_groups = 3}},
    TestRouter{{.experts = 128, .top_k = 4, .softmax_after_top_k = true}, true},
    TestRouter{{.experts = 70, .top_k = 50, .softmax_after_top_k = true}},
    TestRouter{{.experts = 70, .top_k = 17, .renormalise = true, .softmax_after_top_k = true}},
    TestRouter{{.experts = 256,
                .top_k = 8,
                .groups = 8,
                .top_groups = 4,
                .sigmoid = true,
                .renormalise = true,
                .correction_bias = true}},
    TestRouter{{.experts = 40,
                .top_k = 3,
                .groups = 40,
                .top_groups = 7,
                .sigmoid = true,
                .correction_bias = true}},
    TestRouter{{.experts = 256,
                .top_k = 8,
                .sigmoid = true,
                .renormalise = true,
                .correction_bias = true}},
    TestRouter{{.experts = 96, .top_k = 6, .sigmoid = true}, true},
    TestRouter{{.experts = 512, .top_k = 10, .renormalise = true}},
    TestRouter{{.experts = 1024, .top_k = 40}},
};

// A router with what goes into it: tokens of random logits, and of hard ones.
struct RoutingInput {
  RouterConfig config;
  std::vector<float> linear_bias;
  std::vector<float> logits;
  int tokens = 0;
};

inline RouterConfig router_config(const MoeShape& shape) {
  return {.kind = shape.sigmoid ? RouterKind::kSigmoid : RouterKind::kSoftmax,
          .experts = shape.experts,
          .top_k = shape.top_k,
          .groups = shape.groups,
          .top_groups = shape.top_groups,
          .renormalise = shape.renormalise,
          .softmax_after_top_k = shape.softmax_after_top_k,
          .scaling_factor = 2.5F};
}

inline RoutingInput routing_input(const TestRouter& router, int tokens) {
  const MoeShape& shape = router.shape;
  Random random(static_cast<std::uint64_t>(shape.experts + 1000 * shape.top_k));
  RoutingInput input{.config = router_config(shape), .tokens = tokens};
  if (shape.correction_bias) input.config.correction_bias = gaussian(random, shape.experts, 0.3);
  if (router.linear_bias) input.linear_bias = gaussian(random, shape.experts);
  input.logits = gaussian(random, std::int64_t{tokens} * shape.experts, 2);
  if (tokens < 8) return input;
  // Equals, zeros of both signs, infinities and what is not a number, each in a token of its own.
  const auto token = [&](int index) {
    return std::span(input.logits)
        .subspan(static_cast<std::size_t>(index * shape.experts),
                 static_cast<std::size_t>(shape.experts));
  };
  constexpr float kHuge = std::numeric_limits<float>::infinity();
  for (float& logit : token(1)) logit = std::round(logit);
  for (float& logit : token(2)) logit = logit > 0 ? 0.0F : -0.0F;
  token(3)[token(3).size() / 2] = std::nanf("");
  token(4)[token(4).size() / 3] = kHuge;
  token(5).back() = -kHuge;
  for (float& logit : token(6)) logit = -kHuge;
  for (float& logit : token(7)) logit *= 100;
  return input;
}

struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

inline Routed route_on_cpu(const RoutingInput& input) {
  const Result<Router> router = Router::make(input.config);
  EXPECT_TRUE(router.ok()) << router.error().message;
  Routed routed;
  routed.ids.resize(static_cast<std::size_t>(input.tokens * input.config.top_k));
  routed.weights.resize(routed.ids.size());
  ThreadPool pool(1);
  router->route({.logits = input.logits,
                 .linear_bias = input.linear_bias,
                 .ids = routed.ids,
                 .weights = routed.weights},
                Isa::kPortable, pool);
  return routed;
}

// The same bits, or both are not a number.
inline void expect_same(const Routed& got, const Routed& expected) {
  ASSERT_EQ(got.ids, expected.ids);
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (std::size_t at = 0; at < expected.weights.size(); ++at) {
    if (std::isnan(expected.weights[at])) {
      ASSERT_TRUE(std::isnan(got.weights[at])) << at;
    } else {
      ASSERT_EQ(got.weights[at], expected.weights[at]) << at;
    }
  }
}

// ---- rows ---------------------------------------------------------------------------------------

// Where the value of slot s, column k stands, straight from the description of slot tiles.
inline std::size_t place_in_slots(std::int64_t s, std::int64_t k, std::int64_t chunks) {
  const std::int64_t kk = k % 64;
  const std::int64_t t = kk / 16;
  const std::int64_t j = kk / 4 % 4;
  const std::int64_t q = kk % 4;
  const std::int64_t pos = 16 * j + 2 * t + q % 2 + 8 * (q / 2);
  const std::int64_t unit = pos / 8;
  return static_cast<std::size_t>((s / 8 * chunks + k / 64) * 1024 + s % 8 * 128 +
                                  (unit ^ (s % 8)) * 16 + pos % 8 * 2);
}

}  // namespace nibble
