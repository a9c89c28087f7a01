// The routing of a layer in one launch, run on the host (test_simt.h), and how its work is cut.
#include "kernels/device/test_simt.h"
// Keep this line: device code comes after its stand-ins.
#include <fmt/core.h>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "kernels/moe/device/one_launch_route.cuh"
#include "kernels/moe/device/test_routing.h"

namespace nibble {
namespace {

constexpr int kThreads = 512;

// What a block's shared memory and the arrays of a call have after routing.
struct RoutedBlock {
  OneLaunchTables sizes;
  std::vector<uint32_t> words;
  OneLaunchRouting at;
  std::vector<int> counts;
  int dropped = 0;

  explicit RoutedBlock(OneLaunchTables tables)
      : sizes(tables),
        words(static_cast<std::size_t>(2 * tables.experts + 6 * tables.choices + 16 + 4),
              0xffffffff),
        at(OneLaunchRouting::at(words.data(), tables, kThreads / 32)),
        counts(static_cast<std::size_t>(tables.experts), -7) {}
};

template <MoeShape kShape>
RoutedBlock route_block(OneLaunchParams params) {
  RoutedBlock block({kShape.experts, params.tokens * kShape.top_k});
  // Down's factor of expert e is e + 1.
  std::vector<float> alpha;
  for (int expert = 0; expert < kShape.experts; ++expert) {
    alpha.insert(alpha.end(), 2, static_cast<float>(expert + 1));
  }
  params.down_alpha = alpha.data();
  params.counts = block.counts.data();
  params.dropped = &block.dropped;
  simt::launch(1, kThreads, [&] {
    OneLaunchRoute<kShape, kThreads>::run(params, block.at);
    OneLaunchRoute<kShape, kThreads>::weigh(params, block.at);
  });
  return block;
}

// Straight from the description: experts in ascending order, each with its tokens in ascending
// order, a choice that a token has twice once with both weights.
template <MoeShape kShape>
void expect_lists(const RoutedBlock& block, const std::vector<int>& ids,
                  const std::vector<float>& weights) {
  std::map<int, std::map<int, float>> experts;
  int dropped = 0;
  for (std::size_t at = 0; at < ids.size(); ++at) {
    const int id = ids[at];
    if (id < 0 || id >= kShape.experts) {
      ++dropped;
    } else {
      experts[id][static_cast<int>(at) / kShape.top_k] += weights[at];
    }
  }
  int row = 0;
  int pass = 0;
  int active = 0;
  for (int expert = 0; expert < kShape.experts; ++expert) {
    ASSERT_EQ(block.counts[static_cast<std::size_t>(expert)],
              experts.contains(expert) ? static_cast<int>(experts[expert].size()) : 0);
    ASSERT_EQ(block.at.bases[expert], row);
    if (!experts.contains(expert)) {
      ASSERT_EQ(block.at.masks[expert], 0U);
      continue;
    }
    ASSERT_EQ(block.at.actives[active++], expert);
    for (std::size_t group = 0; group * 8 < experts[expert].size(); ++group, ++pass) {
      ASSERT_EQ(OneLaunchRouting::expert_of(block.at.passes[pass]), expert);
      ASSERT_EQ(OneLaunchRouting::group_of(block.at.passes[pass]), static_cast<int>(group));
    }
    int rank = 0;
    for (const auto& [token, weight] : experts[expert]) {
      ASSERT_EQ(nth_token(block.at.masks[expert], rank++), token);
      ASSERT_EQ(block.at.row_of(expert, token), row);
      ASSERT_EQ(block.at.weights[row], weight);
      ASSERT_EQ(block.at.factors[row], weight * static_cast<float>(expert + 1));
      ++row;
    }
    ASSERT_EQ(nth_token(block.at.masks[expert], rank), -1);
  }
  EXPECT_EQ(block.at.totals[0], pass);
  EXPECT_EQ(block.at.totals[1], active);
  EXPECT_EQ(block.dropped, dropped);
}

template <MoeShape kShape>
void check_given(TestPattern pattern, int tokens) {
  SCOPED_TRACE(fmt::format("{} tokens, top-{} of {}", tokens, kShape.top_k, kShape.experts));
  const TestChoices choices = test_choices(pattern, tokens, kShape.top_k, kShape.experts);
  expect_lists<kShape>(
      route_block<kShape>(
          {.ids = choices.ids.data(), .weights = choices.weights.data(), .tokens = tokens}),
      choices.ids, choices.weights);
}

TEST(OneLaunchRoute, GivenIdsWithFaultsAndTwice) {
  for (const TestPattern pattern : {TestPattern::kRandom, TestPattern::kOneExpert,
                                    TestPattern::kFirstAndLast, TestPattern::kWithFaults}) {
    for (const int tokens : {1, 8, 9, 32}) {
      check_given<MoeShape{.experts = 20, .top_k = 4}>(pattern, tokens);
    }
  }
  check_given<MoeShape{.experts = 1, .top_k = 1}>(TestPattern::kOneExpert, 32);
  check_given<MoeShape{.experts = 1025, .top_k = 16}>(TestPattern::kRandom, 32);
}

TEST(OneLaunchRoute, ChoosesAsTheCpuDoes) {
  constexpr MoeShape kShape{.experts = 64, .top_k = 6, .sigmoid = true, .renormalise = true};
  for (const int tokens : {1, 5, 32}) {
    const RoutingInput input = routing_input({kShape}, tokens);
    const Routed expected = route_on_cpu(input);
    const RoutedBlock block =
        route_block<kShape>({.top_k = {.logits = input.logits.data(),
                                       .scaling_factor = input.config.scaling_factor,
                                       .tokens = tokens},
                             .tokens = tokens});
    for (std::size_t at = 0; at < expected.ids.size(); ++at) {
      ASSERT_EQ(block.at.ids[at], expected.ids[at]) << at;
      const int row = block.at.row_of(expected.ids[at], static_cast<int>(at) / kShape.top_k);
      if (expected.weights[at] == expected.weights[at]) {
        ASSERT_EQ(block.at.weights[row], expected.weights[at]) << at;
      } else {
        ASSERT_NE(block.at.weights[row], block.at.weights[row]) << at;
      }
    }
  }
}

TEST(OneLaunchWork, EverySlabIsSomebodysOnce) {
  for (const auto& [matrices, per_matrix, most] :
       {std::tuple{8, 32, 3}, {1, 384, 4}, {5, 7, 2}, {1, 1, 3}, {0, 9, 3}}) {
    std::set<std::pair<int, int>> seen;
    int64_t largest = 0;
    for (int block = 0; block < 132; ++block) {
      SlabPart part = slab_part(matrices * per_matrix, block, 132);
      largest = std::max<int64_t>(largest, part.end - part.at);
      while (part.at < part.end) {
        const SlabPiece piece = slab_piece(part, per_matrix, most);
        ASSERT_GE(piece.slabs, 1);
        ASSERT_LE(piece.slabs, most);
        ASSERT_LE(piece.slab + piece.slabs, per_matrix);
        for (int i = 0; i < piece.slabs; ++i) {
          ASSERT_TRUE(seen.emplace(piece.matrix, piece.slab + i).second);
        }
        part.at += piece.slabs;
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(matrices * per_matrix));
    EXPECT_EQ(largest, ceil_div(int64_t{matrices} * per_matrix, 132));
  }
}

}  // namespace
}  // namespace nibble
