#include "engine/expert_load.h"

#include <gtest/gtest.h>
#include <vector>

namespace nibble::engine {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

TEST(ExpertLoad, BusiestOverTheMeanOfALayerMeanOverLayers) {
  // 12 tokens over 4 experts: mean 3, busiest 6: 2. 8 over 4: mean 2, busiest 2: 1. A dense layer
  // between them counts for nothing: (2 + 1) / 2.
  std::vector<std::int64_t> counts = {6, 1, 2, 3, 0, 0, 0, 0, 2, 2, 2, 2};
  EXPECT_EQ(busiest_over_mean({counts, 4}), 1.5);
  // All through one expert of four.
  std::vector<std::int64_t> one = {0, 0, 5, 0};
  EXPECT_EQ(busiest_over_mean({one, 4}), 4.0);
}

TEST(ExpertLoad, WithoutTokensOrExpertsThereIsNone) {
  std::vector<std::int64_t> counts(8, 0);
  EXPECT_EQ(busiest_over_mean({counts, 4}), std::nullopt);
  EXPECT_EQ(busiest_over_mean({}), std::nullopt);
}

TEST(ExpertLoad, AWindowIsToldOnceASecondHasPassed) {
  std::vector<std::int64_t> counts = {0, 0};
  ExpertLoad load;
  load.step_begins({counts, 2}, 5 * kSecond);
  counts = {3, 1};
  load.step_begins({counts, 2}, 6 * kSecond - 1);
  EXPECT_EQ(load.ratio(), std::nullopt);
  EXPECT_EQ(counts, (std::vector<std::int64_t>{3, 1}));
  load.step_begins({counts, 2}, 6 * kSecond);
  EXPECT_EQ(load.ratio(), 1.5);
  EXPECT_EQ(counts, (std::vector<std::int64_t>{0, 0}));
  // After a pause the next window begins anew, and what was told stays until it has ended.
  counts = {1, 1};
  load.step_begins({counts, 2}, 60 * kSecond);
  EXPECT_EQ(load.ratio(), 1.0);
  load.step_begins({counts, 2}, 62 * kSecond);
  EXPECT_EQ(load.ratio(), 1.0);  // no token since: nothing new
}

}  // namespace
}  // namespace nibble::engine
