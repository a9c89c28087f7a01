#include "engine/block_pool.h"

#include <gtest/gtest.h>
#include <utility>

namespace nibble::engine {
namespace {

using text::TokenId;
using Tokens = std::vector<TokenId>;
using Ids = std::vector<std::int32_t>;

Ids ids_of(const BlockLease& lease) {
  return {lease.ids().begin(), lease.ids().end()};
}

std::string fault(const BlockPool& pool, std::initializer_list<const BlockLease*> leases) {
  Ids held;
  for (const BlockLease* lease : leases) {
    held.insert(held.end(), lease->ids().begin(), lease->ids().end());
  }
  return pool.check_integrity(held);
}

// A lease that has computed all of `tokens`.
BlockLease computed(BlockPool& pool, const Tokens& tokens) {
  BlockLease lease = pool.lease(pool.find(tokens));
  pool.extend(lease, pool.blocks_for(static_cast<std::int64_t>(tokens.size())) - lease.size());
  pool.publish(lease, tokens);
  return lease;
}

TEST(BlockPool, DroppedLeaseReturnsItsBlocks) {
  BlockPool pool({.blocks = 3, .block_tokens = 2});
  {
    BlockLease lease = pool.lease({});
    pool.extend(lease, 3);
    EXPECT_EQ(pool.free(), 0);
    EXPECT_EQ(pool.in_use(), 3);
    BlockLease moved = std::move(lease);
    EXPECT_EQ(moved.size(), 3);
    EXPECT_EQ(fault(pool, {&moved}), "");
  }
  EXPECT_EQ(pool.free(), 3);
  EXPECT_EQ(fault(pool, {}), "");
}

TEST(BlockPool, AssignedLeaseReturnsWhatItHeld) {
  BlockPool pool({.blocks = 3, .block_tokens = 2});
  BlockLease one = pool.lease({});
  pool.extend(one, 1);
  BlockLease two = pool.lease({});
  pool.extend(two, 2);
  one = std::move(two);
  EXPECT_EQ(pool.in_use(), 2);
  one = {};
  EXPECT_EQ(pool.in_use(), 0);
}

TEST(BlockPool, FindsTheFullBlocksOfAPrefixAndNoMore) {
  BlockPool pool({.blocks = 8, .block_tokens = 2});
  const BlockLease lease = computed(pool, {1, 2, 3, 4, 5});
  EXPECT_EQ(pool.find(Tokens{1, 2, 3, 4, 5, 6}).ids, (Ids{lease.ids()[0], lease.ids()[1]}));
  EXPECT_EQ(pool.find(Tokens{1, 2, 3}).ids, (Ids{lease.ids()[0]}));
  EXPECT_EQ(pool.find(Tokens{1, 2, 9, 4}).ids, (Ids{lease.ids()[0]}));
  EXPECT_TRUE(pool.find(Tokens{1}).ids.empty());
  EXPECT_TRUE(pool.find(Tokens{3, 4}).ids.empty()) << "the same tokens at another place";
}

TEST(BlockPool, WithoutPrefixCachingNothingIsFound) {
  BlockPool pool({.blocks = 4, .block_tokens = 2, .prefix_caching = false});
  const BlockLease lease = computed(pool, {1, 2, 3, 4});
  EXPECT_TRUE(pool.find(Tokens{1, 2, 3, 4}).ids.empty());
}

TEST(BlockPool, SharedBlocksStayUntilTheLastHolderGoes) {
  BlockPool pool({.blocks = 4, .block_tokens = 2});
  BlockLease first = computed(pool, {1, 2, 3, 4});
  BlockLease second = computed(pool, {1, 2, 3, 4});
  EXPECT_EQ(ids_of(first), ids_of(second));
  EXPECT_EQ(pool.in_use(), 2);
  EXPECT_EQ(fault(pool, {&first, &second}), "");
  EXPECT_NE(fault(pool, {&first}), "") << "a holder that does not exist is found";
  first.release();
  EXPECT_EQ(pool.in_use(), 2);
  EXPECT_EQ(pool.find(Tokens{1, 2}).free, 0);
  second.release();
  EXPECT_EQ(pool.in_use(), 0);
  EXPECT_EQ(pool.find(Tokens{1, 2, 3, 4}).free, 2) << "free and still cached";
}

TEST(BlockPool, SameContentComputedTwiceIsKeptOnce) {
  BlockPool pool({.blocks = 4, .block_tokens = 2});
  BlockLease first = pool.lease({});
  pool.extend(first, 2);
  BlockLease second = pool.lease({});
  pool.extend(second, 2);
  pool.publish(first, Tokens{1, 2, 3, 4});
  pool.publish(second, Tokens{1, 2, 3, 5});
  EXPECT_EQ(first.ids()[0], second.ids()[0]);
  EXPECT_NE(first.ids()[1], second.ids()[1]);
  EXPECT_EQ(pool.in_use(), 3);
  EXPECT_EQ(fault(pool, {&first, &second}), "");
}

TEST(BlockPool, GivesAwayTheLeastRecentlyUsedAndLastBlocksFirst) {
  BlockPool pool({.blocks = 4, .block_tokens = 1});
  computed(pool, {1, 2}).release();
  computed(pool, {8, 9}).release();
  computed(pool, {1, 2}).release();  // used again: now newer than the other
  BlockLease lease = pool.lease({});
  pool.extend(lease, 1);
  EXPECT_EQ(pool.find(Tokens{8, 9}).ids.size(), 1U) << "the end of the older one is gone";
  pool.extend(lease, 1);
  EXPECT_EQ(pool.find(Tokens{8, 9}).ids.size(), 0U);
  EXPECT_EQ(pool.find(Tokens{1, 2}).ids.size(), 2U);
  EXPECT_EQ(fault(pool, {&lease}), "");
}

TEST(BlockPool, BlocksThatKeepNothingAreGivenAwayBeforeCachedOnes) {
  BlockPool pool({.blocks = 3, .block_tokens = 2});
  computed(pool, {1, 2}).release();
  BlockLease lease = pool.lease({});
  pool.extend(lease, 2);
  EXPECT_EQ(pool.find(Tokens{1, 2}).ids.size(), 1U);
  lease.release();  // later than the cached one, and still they go first
  lease = pool.lease({});
  pool.extend(lease, 2);
  EXPECT_EQ(pool.find(Tokens{1, 2}).ids.size(), 1U);
}

TEST(BlockPool, EqualHashesNeverGiveOtherContent) {
  BlockPool pool(
      {.blocks = 8,
       .block_tokens = 2,
       .hash = [](std::int32_t, std::span<const TokenId>) -> std::uint64_t { return 5; }});
  BlockLease first = computed(pool, {1, 2, 3, 4});
  BlockLease second = computed(pool, {6, 7});
  EXPECT_EQ(pool.find(Tokens{1, 2, 3, 4}).ids.size(), 1U) << "the second block's hash was taken";
  EXPECT_TRUE(pool.find(Tokens{6, 7}).ids.empty());
  EXPECT_TRUE(pool.find(Tokens{3, 4}).ids.empty());
  EXPECT_EQ(fault(pool, {&first, &second}), "");
}

TEST(BlockPool, EqualHashesAtAnotherPlaceNeverGiveOtherContent) {
  BlockPool pool(
      {.blocks = 8, .block_tokens = 2, .hash = [](std::int32_t, std::span<const TokenId> tokens) {
         return static_cast<std::uint64_t>(tokens[0]);
       }});
  const BlockLease lease = computed(pool, {1, 2, 3, 4});
  EXPECT_EQ(pool.find(Tokens{1, 2, 3, 4}).ids.size(), 2U);
  EXPECT_TRUE(pool.find(Tokens{3, 4}).ids.empty());
}

TEST(BlockPool, ForgottenContentIsNotFoundAndNothingFollowsIt) {
  BlockPool pool({.blocks = 8, .block_tokens = 2});
  BlockLease lease = computed(pool, {1, 2, 3, 4});
  pool.forget();
  EXPECT_TRUE(pool.find(Tokens{1, 2}).ids.empty());
  pool.extend(lease, 1);
  pool.publish(lease, Tokens{1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(pool.find(Tokens{1, 2, 3, 4, 5, 6}).ids.empty());
  EXPECT_EQ(fault(pool, {&lease}), "");
  const BlockLease again = computed(pool, {1, 2, 3, 4});
  EXPECT_EQ(pool.find(Tokens{1, 2, 3, 4}).ids, ids_of(again));
}

}  // namespace
}  // namespace nibble::engine
