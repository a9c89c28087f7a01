#include "measure/ring.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

namespace nibble {
namespace {

TEST(ColdBytes, AreFourCachesAnd512MB) {
  EXPECT_EQ(cold_bytes(0), 512e6);
  EXPECT_EQ(cold_bytes(32e6), 512e6);
  EXPECT_EQ(cold_bytes(384e6), 1536e6);
}

TEST(PlanRing, HasEnoughUnits) {
  // 512e6 / 7,077,888 = 72.3
  const Ring ring = plan_ring({7'077'888, 8, 32e6, 8e9});
  EXPECT_EQ(ring.units, 73);
  EXPECT_EQ(ring.bytes, 73.0 * 7'077'888);
  EXPECT_TRUE(ring.cold);
  EXPECT_EQ(ring.note, "");
}

TEST(PlanRing, NeverHasFewerThanOneRunTouches) {
  EXPECT_EQ(plan_ring({7e6, 256, 32e6, 8e9}).units, 256);
  EXPECT_EQ(plan_ring({2e9, 3, 32e6, 8e9}).units, 3);  // more than half of the memory: the caller's
}

TEST(PlanRing, StaysWithinHalfOfTheMemoryAndSaysSo) {
  const Ring ring = plan_ring({1e6, 1, 32e6, 200e6});
  EXPECT_EQ(ring.units, 100);
  EXPECT_FALSE(ring.cold);
  EXPECT_NE(ring.note.find("100.0 MB"), std::string::npos) << ring.note;
}

TEST(PlanRing, TinyUnitsDoNotMakeEndlessRings) {
  const Ring tiny = plan_ring({1, 1, 32e6, 8e9});
  EXPECT_EQ(tiny.units, 1 << 14);
  EXPECT_FALSE(tiny.cold);
  EXPECT_NE(tiny.note.find("16.38 kB"), std::string::npos) << tiny.note;
  const Ring ring = plan_ring({1e5, 8, 32e6, 8e9, 1024});
  EXPECT_EQ(ring.units, 1024);
  EXPECT_FALSE(ring.cold);
}

TEST(PlanRing, CountsPaddingAsMemory) {
  // Half of 100 MB holds 50 units of 1 MB, whatever part of them are weights.
  const Ring ring = plan_ring({1e5, 1, 32e6, 100e6, 1 << 14, 1e6});
  EXPECT_EQ(ring.units, 50);
  EXPECT_EQ(ring.bytes, 50 * 1e5);
}

// Between two turns of a unit all others have had theirs.
TEST(ColdOrder, EveryUnitWaitsForAllOthers) {
  constexpr std::int64_t kUnits = 30;
  ColdOrder order(kUnits, 7);
  std::vector<std::int64_t> touched;
  for (const std::int64_t count : {4, 1, 7, 30, 2, 29, 3, 8, 8, 8}) {
    const std::vector<std::int64_t> units = order.next(count);
    EXPECT_EQ(std::set<std::int64_t>(units.begin(), units.end()).size(), units.size());
    touched.insert(touched.end(), units.begin(), units.end());
  }
  for (std::size_t at = kUnits; at < touched.size(); ++at) {
    EXPECT_EQ(touched[at], touched[at - kUnits]);
  }
}

TEST(ColdOrder, IsShuffledBySeed) {
  std::vector<std::int64_t> ascending(100);
  std::iota(ascending.begin(), ascending.end(), 0);
  const std::vector<std::int64_t> one = ColdOrder(100, 1).next(100);
  EXPECT_NE(one, ascending);
  EXPECT_EQ(one, ColdOrder(100, 1).next(100));
  EXPECT_NE(one, ColdOrder(100, 2).next(100));
  EXPECT_TRUE(std::is_permutation(one.begin(), one.end(), ascending.begin()));
}

}  // namespace
}  // namespace nibble
