#include "bench/routes.h"

#include <gtest/gtest.h>
#include <set>

namespace nibble {
namespace {

TEST(DrawRoutes, EveryTokenMeetsDifferentExperts) {
  Random random(3);
  const Routes routes = draw_routes({.experts = 16, .top_k = 5, .tokens = 40}, random);
  std::vector<std::set<std::int32_t>> met(40);
  for (std::size_t index = 0; index < routes.expert_of.size(); ++index) {
    EXPECT_LT(routes.expert_of[index], 16);
    for (const std::int32_t token : routes.tokens_of[index]) {
      EXPECT_TRUE(met[static_cast<std::size_t>(token)].insert(routes.expert_of[index]).second);
    }
  }
  for (const auto& experts : met) EXPECT_EQ(experts.size(), 5U);
  EXPECT_EQ(routes.slots(), 200);
}

// One token and 4 of 8 experts: each expert is met in half of the draws (deviation 2.5 % of 400).
TEST(DrawRoutes, AllExpertsAreAlikeLikely) {
  Random random(4);
  std::vector<int> met(8, 0);
  for (int draw = 0; draw < 400; ++draw) {
    for (const std::int32_t expert : draw_routes({8, 4, 1}, random).expert_of) {
      ++met[static_cast<std::size_t>(expert)];
    }
  }
  for (const int count : met) EXPECT_NEAR(count, 200, 50);  // five deviations
}

TEST(DrawRoutes, OneExpertIsMetByAll) {
  Random random(5);
  const Routes routes = draw_routes({1, 1, 3}, random);
  EXPECT_EQ(routes.distinct(), 1);
  EXPECT_EQ(routes.tokens_of.front(), (std::vector<std::int32_t>{0, 1, 2}));
}

// Experts 2 and 7 of some model, standing at units 4 and 1 of 5.
TEST(PlaceRoutes, OffsetsFollowTheUnits) {
  const Routes routes{.tokens_of = {{0, 2}, {1}}, .expert_of = {2, 7}};
  const PlacedRoutes placed = place_routes(routes, {4, 1}, 5);
  EXPECT_EQ(placed.offsets, (std::vector<std::int32_t>{0, 0, 1, 1, 1, 3}));
  EXPECT_EQ(placed.row_of, (std::vector<std::int32_t>{1, 0, 2}));
}

TEST(PlacedIds, ListTheUnitsOfEachToken) {
  const Routes routes{.tokens_of = {{0, 1}, {1}, {0}}, .expert_of = {2, 5, 7}};
  EXPECT_EQ(placed_ids(routes, {40, 10, 20}, {.experts = 8, .top_k = 2, .tokens = 2}),
            (std::vector<std::int32_t>{40, 20, 40, 10}));
}

}  // namespace
}  // namespace nibble
