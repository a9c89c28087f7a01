#include "kernels/moe/dispatch.h"

#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "kernels/moe/test_inputs.h"

namespace nibble {
namespace {

struct Dispatched {
  Result<> result;
  std::vector<std::int32_t> offsets;
  std::vector<std::int32_t> row_of;
  std::vector<std::int32_t> expert_of;
  std::vector<std::int32_t> slot_of;
};

Dispatched run(const std::vector<std::int32_t>& ids, std::int64_t top_k, std::int64_t experts) {
  Dispatched d;
  d.offsets.assign(static_cast<std::size_t>(experts) + 1, -7);
  d.row_of.assign(ids.size(), -7);
  d.expert_of.assign(ids.size(), -7);
  d.slot_of.assign(ids.size(), -7);
  d.result = dispatch({.ids = ids,
                       .top_k = top_k,
                       .experts = experts,
                       .offsets = d.offsets,
                       .row_of = d.row_of,
                       .expert_of = d.expert_of,
                       .slot_of = d.slot_of});
  return d;
}

using List = std::vector<std::int32_t>;

TEST(Dispatch, SortsByExpertAndKeepsTheOrderOfTokens) {
  // Three tokens, two choices each; expert 1 stays empty.
  const Dispatched d = run({2, 0, 0, 3, 2, 3}, 2, 4);
  ASSERT_TRUE(d.result.ok());
  EXPECT_EQ(d.offsets, (List{0, 2, 2, 4, 6}));
  EXPECT_EQ(d.row_of, (List{0, 1, 0, 2, 1, 2}));
  EXPECT_EQ(d.expert_of, (List{0, 0, 2, 2, 3, 3}));
  EXPECT_EQ(d.slot_of, (List{2, 0, 1, 4, 3, 5}));
}

TEST(Dispatch, NoTokens) {
  const Dispatched d = run({}, 8, 3);
  ASSERT_TRUE(d.result.ok());
  EXPECT_EQ(d.offsets, (List{0, 0, 0, 0}));
}

TEST(Dispatch, AllTokensOnOneExpert) {
  const Dispatched d = run({2, 2, 2}, 1, 4);
  ASSERT_TRUE(d.result.ok());
  EXPECT_EQ(d.offsets, (List{0, 0, 0, 3, 3}));
  EXPECT_EQ(d.row_of, (List{0, 1, 2}));
}

TEST(Dispatch, OneExpert) {
  const Dispatched d = run({0, 0}, 1, 1);
  ASSERT_TRUE(d.result.ok());
  EXPECT_EQ(d.offsets, (List{0, 2}));
  EXPECT_EQ(d.slot_of, (List{0, 1}));
}

TEST(Dispatch, SlotsAndChoicesAreEachOthersInverse) {
  Random random(4);
  constexpr std::int64_t kTopK = 8;
  const List ids = random_ids(random, 1000, 512, kTopK);
  const Dispatched d = run(ids, kTopK, 512);
  ASSERT_TRUE(d.result.ok());
  std::vector<bool> met(ids.size(), false);
  for (std::size_t choice = 0; choice < ids.size(); ++choice) {
    const auto slot = static_cast<std::size_t>(d.slot_of[choice]);
    ASSERT_FALSE(met[slot]);
    met[slot] = true;
    const auto expert = static_cast<std::size_t>(ids[choice]);
    EXPECT_EQ(d.expert_of[slot], ids[choice]);
    EXPECT_EQ(d.row_of[slot], static_cast<std::int32_t>(choice / kTopK));
    EXPECT_GE(d.slot_of[choice], d.offsets[expert]);
    EXPECT_LT(d.slot_of[choice], d.offsets[expert + 1]);
  }
}

TEST(Dispatch, RefusesIdsOutOfRangeAndWritesNothing) {
  for (const std::int32_t bad : {-1, 4, std::numeric_limits<std::int32_t>::max(),
                                 std::numeric_limits<std::int32_t>::min()}) {
    const Dispatched d = run({0, 1, 2, bad}, 2, 4);
    ASSERT_FALSE(d.result.ok()) << bad;
    EXPECT_EQ(d.offsets, List(5, -7));
    EXPECT_EQ(d.row_of, List(4, -7));
  }
  EXPECT_EQ(run({0, 1, 2, 9}, 2, 4).result.error().message,
            "choice 1 of token 1 is expert 9; there are 4");
}

TEST(Dispatch, RefusesHalfATokensChoices) {
  EXPECT_FALSE(check_expert_ids(List{0, 1, 2}, 2, 4).ok());
  EXPECT_FALSE(check_expert_ids(List{0, 1}, 0, 4).ok());
  EXPECT_FALSE(check_expert_ids(List{0}, 1, 0).ok());
  EXPECT_TRUE(check_expert_ids(List{}, 2, 4).ok());
}

}  // namespace
}  // namespace nibble
