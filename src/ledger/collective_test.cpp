#include "ledger/collective.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

TEST(Collective, RingAllReduceOfAThousandTokensOverEight) {
  // 1,024 tokens x 6,144 x 2 B = 12,582,912 B; 2 * 7/8 of it = 22,020,096 B on the wire;
  // at 64 GB/s 344.064 us, at 35 GB/s 629.146 us.
  const double bytes = 1024.0 * 6144 * 2;
  EXPECT_NEAR(all_reduce(AllReduce::kRing, 8, bytes, {64, 0}).time_us, 344.064, 0.001);
  EXPECT_NEAR(all_reduce(AllReduce::kRing, 8, bytes, {35, 0}).time_us, 629.146, 0.001);
  EXPECT_DOUBLE_EQ(all_reduce(AllReduce::kRing, 8, bytes, {64, 0}).link_bytes, 22020096);
  // 156 of them: 53.7 ms and 98.1 ms.
  EXPECT_NEAR(156 * all_reduce(AllReduce::kRing, 8, bytes, {64, 0}).time_us, 53674, 1);
}

TEST(Collective, LatencyTerms) {
  // Ring: 2 (n-1) hops; one-shot: 1; two-shot: 2. No bytes, 3 us a hop, 8 ranks.
  EXPECT_DOUBLE_EQ(all_reduce(AllReduce::kRing, 8, 0, {64, 3}).time_us, 42);
  EXPECT_DOUBLE_EQ(all_reduce(AllReduce::kOneShot, 8, 0, {64, 3}).time_us, 3);
  EXPECT_DOUBLE_EQ(all_reduce(AllReduce::kTwoShot, 8, 0, {64, 3}).time_us, 6);
}

TEST(Collective, OneShotSendsToEveryPeer) {
  // 4 ranks, 1 MB, 35 GB/s, 6 us: 6 + 3e6 / 35e3 = 91.7 us (measured on four cards: 95.6).
  EXPECT_NEAR(all_reduce(AllReduce::kOneShot, 4, 1e6, {35, 6}).time_us, 91.71, 0.01);
}

TEST(Collective, FastestIsOneShotForSmallAndTwoShotForLargeMessages) {
  const LinkSpeed link{50, 5};
  EXPECT_DOUBLE_EQ(all_reduce(AllReduce::kFastest, 8, 4096, link).time_us,
                   all_reduce(AllReduce::kOneShot, 8, 4096, link).time_us);
  EXPECT_DOUBLE_EQ(all_reduce(AllReduce::kFastest, 8, 1e7, link).time_us,
                   all_reduce(AllReduce::kTwoShot, 8, 1e7, link).time_us);
}

TEST(Collective, GatherAllToAllAndSend) {
  EXPECT_DOUBLE_EQ(all_gather(8, 8e6, {70, 0}).time_us, 100);  // 7 MB at 70 GB/s
  EXPECT_DOUBLE_EQ(all_to_all(8, 7e6, {70, 2}).time_us, 102);
  EXPECT_DOUBLE_EQ(send(7e6, {70, 2}).time_us, 102);
}

TEST(Collective, OneRankSendsNothing) {
  for (const AllReduce algorithm :
       {AllReduce::kRing, AllReduce::kOneShot, AllReduce::kTwoShot, AllReduce::kFastest}) {
    EXPECT_EQ(all_reduce(algorithm, 1, 1e6, {64, 5}).time_us, 0);
  }
  EXPECT_EQ(all_gather(1, 1e6, {64, 5}).link_bytes, 0);
  EXPECT_EQ(all_to_all(1, 1e6, {64, 5}).link_bytes, 0);
}

TEST(Collective, DistinctRanks) {
  EXPECT_DOUBLE_EQ(distinct_ranks(256, 8, 1), 1);
  // 4 experts on 2 ranks, top-1: always one rank. Top-2: a rank is missed when both come from the
  // other: C(2,2)/C(4,2) = 1/6, so 2 * 5/6.
  EXPECT_DOUBLE_EQ(distinct_ranks(4, 1, 2), 1);
  EXPECT_NEAR(distinct_ranks(4, 2, 2), 2 * 5.0 / 6, 1e-12);
  EXPECT_NEAR(distinct_ranks(8, 8, 4), 4, 1e-12);  // all experts: all ranks
}

TEST(Collective, Names) {
  for (const AllReduce algorithm :
       {AllReduce::kRing, AllReduce::kOneShot, AllReduce::kTwoShot, AllReduce::kFastest}) {
    EXPECT_EQ(all_reduce_from_string(to_string(algorithm)), algorithm);
  }
  EXPECT_FALSE(all_reduce_from_string("tree").has_value());
}

}  // namespace
}  // namespace nibble
