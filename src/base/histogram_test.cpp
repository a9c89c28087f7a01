#include "base/histogram.h"

#include <gtest/gtest.h>
#include <limits>
#include <thread>
#include <vector>

namespace nibble {
namespace {

constexpr Nanoseconds kLongest = std::numeric_limits<Nanoseconds>::max();

// A longer span beside it, so that the end of the bin is seen and not the maximum.
Nanoseconds bin_end(Nanoseconds span) {
  LogHistogram histogram;
  histogram.record(span);
  histogram.record(kLongest);
  return histogram.quantile(0.5);
}

// From 2^k to 2^(k+1) there are 16 bins, each 2^(k-4) wide; below 32 that is one value each.
TEST(LogHistogram, BinsAreASixteenthOfADoubling) {
  EXPECT_EQ(bin_end(0), 0);
  EXPECT_EQ(bin_end(15), 15);
  EXPECT_EQ(bin_end(16), 16);
  EXPECT_EQ(bin_end(31), 31);
  EXPECT_EQ(bin_end(32), 33);  // 2 wide
  EXPECT_EQ(bin_end(33), 33);
  EXPECT_EQ(bin_end(34), 35);
  EXPECT_EQ(bin_end(1000), 1023);  // 32 wide: 992 + 31
  EXPECT_EQ(bin_end(1023), 1023);
  EXPECT_EQ(bin_end(1024), 1087);  // 64 wide
  // 2^20 = 1'048'576 is above a million; 2^19 + 14 * 2^15 = 983'040, 32'768 wide.
  EXPECT_EQ(bin_end(1'000'000), 1'015'807);
  EXPECT_EQ(bin_end((Nanoseconds{1} << 62) - 1), (Nanoseconds{1} << 62) - 1);
  EXPECT_EQ(bin_end(Nanoseconds{1} << 62), (Nanoseconds{17} << 58) - 1);
}

// Of 1, 2 .. 10 the nearest ranks are the numbers themselves.
TEST(LogHistogram, NearestRank) {
  LogHistogram histogram;
  for (Nanoseconds span = 10; span >= 1; --span) histogram.record(span);
  EXPECT_EQ(histogram.count(), 10U);
  EXPECT_EQ(histogram.max(), 10);
  EXPECT_EQ(histogram.quantile(0), 1);
  EXPECT_EQ(histogram.quantile(0.1), 1);
  EXPECT_EQ(histogram.quantile(0.11), 2);
  EXPECT_EQ(histogram.quantile(0.5), 5);
  EXPECT_EQ(histogram.quantile(0.51), 6);
  EXPECT_EQ(histogram.quantile(0.99), 10);
  EXPECT_EQ(histogram.quantile(1), 10);
}

TEST(LogHistogram, NeverAboveTheMaximum) {
  LogHistogram histogram;
  histogram.record(1000);  // its bin ends at 1023
  EXPECT_EQ(histogram.quantile(0.5), 1000);
  histogram.record(kLongest);
  EXPECT_EQ(histogram.quantile(1), kLongest);
}

TEST(LogHistogram, EmptyAndNegative) {
  LogHistogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.quantile(0.5), 0);
  histogram.record(std::numeric_limits<Nanoseconds>::min());
  EXPECT_EQ(histogram.count(), 1U);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.quantile(1), 0);
}

TEST(LogHistogram, Clear) {
  LogHistogram histogram;
  histogram.record(7);
  histogram.clear();
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.max(), 0);
  histogram.record(3);
  EXPECT_EQ(histogram.quantile(1), 3);
}

// Four threads of 10'000 spans each, 0 to 39'999 in all: none is lost.
TEST(LogHistogram, ThreadsRecordTogether) {
  LogHistogram histogram;
  std::vector<std::thread> threads;
  for (Nanoseconds part = 0; part < 4; ++part) {
    threads.emplace_back([&histogram, part] {
      for (Nanoseconds i = 0; i < 10'000; ++i) histogram.record(4 * i + part);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(histogram.count(), 40'000U);
  EXPECT_EQ(histogram.max(), 39'999);
  // The 20'000th is 19'999: 16'384 + 3 * 1'024 = 19'456, 1'024 wide.
  EXPECT_EQ(histogram.quantile(0.5), 20'479);
}

TEST(LogHistogramDeath, AQuantileIsBetween0And1) {
  const LogHistogram histogram;
  EXPECT_DEATH(histogram.quantile(99), "q >= 0");
}

}  // namespace
}  // namespace nibble
