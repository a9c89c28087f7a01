#include "telemetry/clock_offset.h"

#include <gtest/gtest.h>
#include <limits>

namespace nibble::telemetry {
namespace {

TEST(ClockOffset, SymmetricWaysGiveItExactly) {
  // Theirs is 1000 ahead; each way takes 50, the answer 20.
  const std::vector<ClockExchange> exchanges = {{100, 1150, 1170, 220}};
  const Result<ClockOffset> clock = estimate_offset(exchanges);
  ASSERT_TRUE(clock.ok());
  EXPECT_EQ(clock->offset, 1000);
  EXPECT_EQ(clock->round_trip, 100);
  EXPECT_EQ(clock->bound, 50);
  EXPECT_EQ(clock->exchanges, 1U);
}

TEST(ClockOffset, TheFastestExchangeIsTaken) {
  // Theirs is 1000 behind. The second: 10 there, 30 back, so that the middle is off by 10.
  const std::vector<ClockExchange> exchanges = {
      {5000, 4500, 4500, 6000}, {7000, 6010, 6010, 7040}, {8000, 7500, 7500, 8700}};
  const Result<ClockOffset> clock = estimate_offset(exchanges);
  ASSERT_TRUE(clock.ok());
  EXPECT_EQ(clock->round_trip, 40);
  EXPECT_EQ(clock->bound, 20);
  EXPECT_EQ(clock->offset, -1010);
  EXPECT_LE(std::abs(clock->offset - -1000), clock->bound);
  EXPECT_EQ(clock->exchanges, 3U);
}

// Whatever the two ways take, the true offset lies within the bound.
TEST(ClockOffset, TheBoundHoldsForEveryAsymmetry) {
  for (const Nanoseconds there : {0, 1, 7, 100}) {
    for (const Nanoseconds back : {0, 1, 8, 250}) {
      const Nanoseconds offset = 123'456'789;
      const ClockExchange exchange{1000, 1000 + there + offset, 1005 + there + offset,
                                   1005 + there + back};
      const Result<ClockOffset> clock = estimate_offset({&exchange, 1});
      ASSERT_TRUE(clock.ok());
      EXPECT_LE(std::abs(clock->offset - offset), clock->bound) << there << " " << back;
    }
  }
}

TEST(ClockOffset, TimesThatRunBackwardsArePassedOver) {
  const std::vector<ClockExchange> senseless = {{100, 50, 40, 200}, {100, 50, 90, 110}};
  EXPECT_FALSE(estimate_offset(senseless).ok());
  EXPECT_FALSE(estimate_offset({}).ok());
}

}  // namespace
}  // namespace nibble::telemetry
