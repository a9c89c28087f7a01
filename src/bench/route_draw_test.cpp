#include "bench/route_draw.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

namespace nibble {
namespace {

void expect_different_in_each_token(const std::vector<std::int32_t>& ids, std::int64_t top_k,
                                    std::int32_t experts) {
  for (std::size_t at = 0; at < ids.size(); at += static_cast<std::size_t>(top_k)) {
    std::set<std::int32_t> met;
    for (std::int64_t choice = 0; choice < top_k; ++choice) {
      const std::int32_t id = ids[at + static_cast<std::size_t>(choice)];
      ASSERT_GE(id, 0);
      ASSERT_LT(id, experts);
      met.insert(id);
    }
    ASSERT_EQ(met.size(), static_cast<std::size_t>(top_k));
  }
}

TEST(RouteDraws, BalancedGivesEachExpertTheSame) {
  Random random(1);
  for (const std::int64_t per_expert : {1, 2, 8, 32}) {
    const RouteRequest request{.experts = 256, .top_k = 8, .tokens = 32 * per_expert};
    const auto ids = draw_ids(request, {RouteKind::kBalanced}, random);
    expect_different_in_each_token(ids, 8, 256);
    const ExpertCounts counts = count_experts(ids, 256);
    EXPECT_EQ(counts.distinct, 256);
    EXPECT_EQ(counts.most, per_expert);
    EXPECT_EQ(*std::min_element(counts.tokens.begin(), counts.tokens.end()), per_expert);
  }
}

TEST(RouteDraws, BalancedOfFewTokensAndOddNumbers) {
  Random random(2);
  const auto few =
      draw_ids({.experts = 256, .top_k = 8, .tokens = 3}, {RouteKind::kBalanced}, random);
  EXPECT_EQ(count_experts(few, 256).distinct, 24);
  EXPECT_EQ(count_experts(few, 256).most, 1);
  const auto odd =
      draw_ids({.experts = 7, .top_k = 3, .tokens = 5}, {RouteKind::kBalanced}, random);
  expect_different_in_each_token(odd, 3, 7);
  EXPECT_EQ(count_experts(odd, 7).most, 3);  // 15 choices of 7 experts: 2 or 3 each
  EXPECT_EQ(count_experts(odd, 7).distinct, 7);
  const auto all =
      draw_ids({.experts = 4, .top_k = 4, .tokens = 2}, {RouteKind::kBalanced}, random);
  expect_different_in_each_token(all, 4, 4);
}

TEST(RouteDraws, EveryDrawDiffers) {
  Random random(3);
  const RouteRequest request{.experts = 64, .top_k = 4, .tokens = 8};
  for (const RouteDraw& routing : {RouteDraw{RouteKind::kBalanced}, RouteDraw{RouteKind::kRandom},
                                   RouteDraw{RouteKind::kZipf}}) {
    EXPECT_NE(draw_ids(request, routing, random), draw_ids(request, routing, random));
  }
}

// E (1 - (1 - k / E)^M) experts are met by M tokens: 256, 8 and 32 give 163.3; the standard
// deviation of a draw is about 6.
TEST(RouteDraws, RandomMeetsAsManyExpertsAsItShould) {
  Random random(4);
  double distinct = 0;
  for (int draw = 0; draw < 50; ++draw) {
    const auto ids =
        draw_ids({.experts = 256, .top_k = 8, .tokens = 32}, {RouteKind::kRandom}, random);
    expect_different_in_each_token(ids, 8, 256);
    distinct += static_cast<double>(count_experts(ids, 256).distinct) / 50;
  }
  EXPECT_NEAR(distinct, 163.3, 4.5);
}

// top-1 of three experts with zipf:1: 6/11, 3/11 and 2/11.
TEST(RouteDraws, ZipfFollowsItsWeights) {
  Random random(5);
  std::vector<double> share(3, 0);
  for (int draw = 0; draw < 200; ++draw) {
    const auto ids =
        draw_ids({.experts = 3, .top_k = 1, .tokens = 100}, {RouteKind::kZipf, 1}, random);
    std::vector<std::int64_t> counts = count_experts(ids, 3).tokens;
    std::sort(counts.begin(), counts.end(), std::greater<>());
    for (std::size_t rank = 0; rank < 3; ++rank) {
      share[rank] += static_cast<double>(counts[rank]) / 200 / 100;
    }
  }
  EXPECT_NEAR(share[0], 6.0 / 11, 0.01);
  EXPECT_NEAR(share[1], 3.0 / 11, 0.02);  // the two smaller ones change places at times
  EXPECT_NEAR(share[2], 2.0 / 11, 0.02);
}

TEST(RouteDraws, ZipfOfNothingIsUniform) {
  Random random(6);
  const auto ids =
      draw_ids({.experts = 16, .top_k = 2, .tokens = 4000}, {RouteKind::kZipf, 0}, random);
  expect_different_in_each_token(ids, 2, 16);
  for (const std::int64_t tokens : count_experts(ids, 16).tokens) {
    EXPECT_NEAR(static_cast<double>(tokens), 500, 110);  // five standard deviations
  }
}

TEST(RouteDraws, TurnsDifferAndTheirLargestIsInTheMiddle) {
  Random random(7);
  const auto turns =
      draw_turns({.experts = 32, .top_k = 2, .tokens = 8}, {RouteKind::kRandom}, random);
  ASSERT_EQ(turns.size(), static_cast<std::size_t>(kTurns));
  for (std::size_t at = 1; at < turns.size(); ++at) EXPECT_NE(turns[at].ids, turns[at - 1].ids);
  std::vector<DrawnRouting> three(3);
  three[0].counts.most = 9;
  three[1].counts.most = 2;
  three[2].counts.most = 4;
  EXPECT_EQ(usual_largest(three), 4);
}

TEST(RouteDraws, Words) {
  EXPECT_EQ(to_string(*parse_route_draw("balanced")), "balanced");
  EXPECT_EQ(to_string(*parse_route_draw("random")), "random");
  EXPECT_EQ(to_string(*parse_route_draw("zipf:1")), "zipf:1");
  EXPECT_EQ(to_string(*parse_route_draw("zipf:0.5")), "zipf:0.5");
  for (const char* word : {"", "Balanced", "zipf", "zipf:", "zipf:x", "zipf:-1", "zipf:nan",
                           "zipf:1x", "zipf:9", "zipf:inf"}) {
    const Result<RouteDraw> refused = parse_route_draw(word);
    ASSERT_FALSE(refused.ok()) << word;
    EXPECT_NE(refused.error().message.find("--routing is"), std::string::npos);
  }
}

}  // namespace
}  // namespace nibble
