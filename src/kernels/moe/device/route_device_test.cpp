// The routing kernels, run on the host (test_simt.h).
#include "kernels/device/test_simt.h"
// Keep this line: device code comes after its stand-ins.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <utility>
#include <vector>

#include "kernels/moe/device/route.cuh"
#include "kernels/moe/device/test_routing.h"

namespace nibble {
namespace {

// ---- tables -------------------------------------------------------------------------------------

// Lists as long as a workspace has them, with values that routing never writes.
ExpectedTables unset_tables(const TestChoices& choices) {
  const auto slots =
      static_cast<std::size_t>(most_slots(choices.tokens, choices.top_k, choices.experts));
  const auto experts = static_cast<std::size_t>(choices.experts);
  ExpectedTables tables;
  tables.counts.assign(experts, -7);
  tables.offsets.assign(experts + 1, -7);
  tables.tiles_a.assign(experts + 1, -7);
  tables.tiles_b.assign(experts + 1, -7);
  tables.slot_token.assign(slots, -7);
  tables.slot_weight.assign(slots, -7);
  tables.choice_slot.assign(choices.ids.size(), -7);
  return tables;
}

RouteTables params_of(const TestChoices& choices, ExpectedTables& tables) {
  return {.ids = choices.ids.data(),
          .weights = choices.weights.data(),
          .tokens = choices.tokens,
          .tile_a = choices.tile_a,
          .tile_b = choices.tile_b,
          .counts = tables.counts.data(),
          .offsets = tables.offsets.data(),
          .tiles_a = tables.tiles_a.data(),
          .tiles_b = tables.tiles_b.data(),
          .slot_token = tables.slot_token.data(),
          .slot_weight = tables.slot_weight.data(),
          .choice_slot = tables.choice_slot.data(),
          .dropped = &tables.dropped};
}

template <MoeShape kShape>
ExpectedTables tables_of(const TestChoices& choices, unsigned blocks) {
  ExpectedTables tables = unset_tables(choices);
  std::vector<uint32_t> flags_a(1000, 7);
  std::vector<uint32_t> flags_b(3, 7);
  RouteTables params = params_of(choices, tables);
  params.flags_a = flags_a.data();
  params.flags_b = flags_b.data();
  params.flags_a_count = 999;
  params.flags_b_count = 3;
  simt::launch(blocks, kTablesThreads, [&] { route_tables<kShape>(params); });
  EXPECT_EQ(std::count(flags_a.begin(), flags_a.end(), 0U), 999);
  EXPECT_EQ(flags_a.back(), 7U);
  EXPECT_EQ(flags_b, (std::vector<uint32_t>{0, 0, 0}));
  return tables;
}

template <MoeShape kShape>
void check_tables(TestPattern pattern, int tokens, unsigned blocks) {
  const TestChoices choices = test_choices(pattern, tokens, kShape.top_k, kShape.experts);
  SCOPED_TRACE(fmt::format("{} tokens, top-{} of {}, {} blocks", tokens, kShape.top_k,
                           kShape.experts, blocks));
  expect_tables(tables_of<kShape>(choices, blocks), expected_tables(choices));
}

TEST(DeviceRouteTables, OneExpert) {
  constexpr MoeShape kShape{.experts = 1, .top_k = 1};
  for (const int tokens : {0, 1, 7, 8, 9, 700}) {
    check_tables<kShape>(TestPattern::kRandom, tokens, 1);
  }
}

TEST(DeviceRouteTables, FewTokens) {
  constexpr MoeShape kShape{.experts = 256, .top_k = 8};
  for (const int tokens : {0, 1, 5, 64, 65}) {
    for (const unsigned blocks : {1U, 3U}) {
      check_tables<kShape>(TestPattern::kRandom, tokens, blocks);
    }
  }
}

TEST(DeviceRouteTables, PatternsOverSeveralBlocksAndRounds) {
  constexpr MoeShape kShape{.experts = 20, .top_k = 4};
  for (const TestPattern pattern : {TestPattern::kRandom, TestPattern::kOneExpert,
                                    TestPattern::kFirstAndLast, TestPattern::kWithFaults}) {
    for (const unsigned blocks : {1U, 4U}) check_tables<kShape>(pattern, 411, blocks);
  }
}

TEST(DeviceRouteTables, ManyExperts) {
  check_tables<MoeShape{.experts = 512, .top_k = 3}>(TestPattern::kRandom, 300, 2);
  check_tables<MoeShape{.experts = 1025, .top_k = 2}>(TestPattern::kWithFaults, 600, 3);
  check_tables<MoeShape{.experts = 1025, .top_k = 1025}>(TestPattern::kRandom, 3, 4);
  check_tables<MoeShape{.experts = kMostDeviceExperts, .top_k = 2}>(TestPattern::kRandom, 90, 1);
}

TEST(DeviceRouteTables, MoreChoicesThanAThreadHoldsAtOnce) {
  check_tables<MoeShape{.experts = 3, .top_k = 2}>(TestPattern::kRandom, 9000, 5);
}

TEST(MoeShape, SlotsAtMost) {
  EXPECT_EQ(most_slots(0, 8, 256), 0);
  EXPECT_EQ(most_slots(1, 8, 256), 64);  // eight experts with one token each
  EXPECT_EQ(most_slots(9, 1, 1), 16);
  EXPECT_EQ(most_slots(32, 8, 256), 2048);  // every expert has one token
  EXPECT_EQ(most_slots(100'000, 8, 256), 801'792);
}

TEST(MoeShape, ABlockTakesWholeRounds) {
  EXPECT_EQ(choices_per_block(0, 1), 0);
  EXPECT_EQ(choices_per_block(1, 1), 512);
  EXPECT_EQ(choices_per_block(512, 1), 512);
  EXPECT_EQ(choices_per_block(513, 2), 512);
  EXPECT_EQ(choices_per_block(800'000, 132), 6144);
}

// ---- top-k --------------------------------------------------------------------------------------

template <MoeShape kShape>
Routed route_on_device(const RoutingInput& input) {
  Routed routed;
  routed.ids.assign(static_cast<std::size_t>(input.tokens * kShape.top_k), -7);
  routed.weights.assign(routed.ids.size(), -7);
  const RouteTopK params{
      .logits = input.logits.data(),
      .linear_bias = input.linear_bias.empty() ? nullptr : input.linear_bias.data(),
      .correction_bias = input.config.correction_bias.data(),
      .ids = routed.ids.data(),
      .weights = routed.weights.data(),
      .scaling_factor = input.config.scaling_factor,
      .tokens = input.tokens};
  constexpr int kTokens = kTopKThreads / 32;
  simt::launch(static_cast<unsigned>(ceil_div(params.tokens, kTokens)), kTopKThreads,
               [&] { route_top_k<kShape>(params); });
  return routed;
}

template <std::size_t... kIndex>
void check_every_router(std::index_sequence<kIndex...>) {
  const auto check = [](std::size_t index, const Routed& got, const RoutingInput& input) {
    SCOPED_TRACE(fmt::format("router {}", index));
    expect_same(got, route_on_cpu(input));
  };
  const auto input = [](std::size_t index) { return routing_input(kTestRouters[index], 9); };
  (check(kIndex, route_on_device<kTestRouters[kIndex].shape>(input(kIndex)), input(kIndex)), ...);
}

// Against the CPU's router, whose own tests hold it against published code: the same bits.
TEST(DeviceRouteTopK, EveryRouterHasTheBitsOfTheCpu) {
  check_every_router(std::make_index_sequence<kTestRouters.size()>());
}

TEST(DeviceRouteTopK, MoreExpertsThanTheCpuTakes) {
  // Expert 1024 leads; the others have logits of their index.
  constexpr MoeShape kShape{.experts = 1025, .top_k = 1025, .renormalise = true};
  RoutingInput input{.config = router_config(kShape), .tokens = 1};
  for (int expert = 0; expert < 1025; ++expert) {
    input.logits.push_back(0.001F * static_cast<float>(expert));
  }
  input.config.scaling_factor = 1;
  const Routed routed = route_on_device<kShape>(input);
  double sum = 0;
  for (std::size_t rank = 0; rank < 1025; ++rank) {
    ASSERT_EQ(routed.ids[rank], static_cast<std::int32_t>(1024 - rank));
    sum += static_cast<double>(routed.weights[rank]);
  }
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_NEAR(static_cast<double>(routed.weights[0] / routed.weights[1024]), std::exp(1.024), 1e-5);
}

// ---- both in one launch -------------------------------------------------------------------------

TEST(DeviceRouteFused, GivesWhatTwoLaunchesGive) {
  constexpr MoeShape kShape{.experts = 64, .top_k = 6, .sigmoid = true, .renormalise = true};
  for (const int tokens : {0, 1, 17, 32}) {
    ASSERT_TRUE(is_fused_route(kShape.experts, kShape.top_k, tokens));
    const RoutingInput input = routing_input({kShape}, tokens);
    const Routed expected = route_on_cpu(input);
    const TestChoices choices{.tokens = tokens,
                              .top_k = kShape.top_k,
                              .experts = kShape.experts,
                              .ids = expected.ids,
                              .weights = expected.weights};
    Routed routed{std::vector<std::int32_t>(expected.ids.size()),
                  std::vector<float>(expected.ids.size())};
    ExpectedTables tables = unset_tables(choices);
    RouteTables params = params_of(choices, tables);
    params.ids = routed.ids.data();
    params.weights = routed.weights.data();
    const RouteTopK top_k{.logits = input.logits.data(),
                          .ids = routed.ids.data(),
                          .weights = routed.weights.data(),
                          .scaling_factor = input.config.scaling_factor,
                          .tokens = tokens};
    simt::launch(1, kTablesThreads, [&] { route_fused<kShape>(top_k, params); });
    expect_same(routed, expected);
    expect_tables(tables, expected_tables(choices));
  }
}

}  // namespace
}  // namespace nibble
