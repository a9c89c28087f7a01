#include "load/series.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "base/testing.h"
#include "load/row_file.h"
#include "load/test_rows.h"

namespace nibble::load {
namespace {

using Points = std::vector<std::pair<double, double>>;
constexpr Nanoseconds kS = 1'000'000'000;

TEST(SeriesGrid, AtMost240BinsAndNoneShorterThanATenthOfASecond) {
  EXPECT_EQ(SeriesGrid({0, 480 * kS}).bins(), 240U);
  EXPECT_EQ(SeriesGrid({0, 480 * kS}).bin_s(), 2);
  EXPECT_EQ(SeriesGrid({0, 24 * kS}).bins(), 240U);
  EXPECT_EQ(SeriesGrid({0, kS}).bins(), 10U);
  EXPECT_EQ(SeriesGrid({0, kS / 20}).bins(), 1U);
  EXPECT_EQ(SeriesGrid({5, 5}).bins(), 1U);
  EXPECT_EQ(SeriesGrid({5, 4}).bins(), 1U);
}

TEST(SeriesGrid, EveryMomentOfTheRunHasOneBin) {
  // A length that 240 does not divide: bins are a nanosecond longer or shorter.
  const SeriesGrid grid({100, 100 + 25 * kS + 7});
  EXPECT_EQ(grid.begin_of(0), 100);
  EXPECT_EQ(grid.begin_of(240), 100 + 25 * kS + 7);
  for (std::size_t bin = 0; bin < 240; ++bin) {
    EXPECT_EQ(grid.bin_of(grid.begin_of(bin)), bin);
    if (bin > 0) {
      EXPECT_EQ(grid.bin_of(grid.begin_of(bin) - 1), bin - 1);
    }
  }
  EXPECT_EQ(grid.bin_of(100 + 25 * kS + 7), 239U);
  EXPECT_EQ(grid.bin_of(100 + 25 * kS + 8), std::nullopt);
  EXPECT_EQ(grid.bin_of(99), std::nullopt);
}

TEST(Thinned, MeansOfBinsAndNothingForEmptyOnes) {
  // One second in ten bins: 0.0 to 0.1 s has 1 and 3, 0.1 to 0.2 s begins with 5, then nothing, and
  // the end of the run belongs to the last bin.
  const SeriesGrid grid({10 * kS, 11 * kS});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<TimedValue> values = {
      {9 * kS, 100},           {10 * kS, 1}, {10 * kS + kS / 20, 3}, {10 * kS + kS / 10, 5},
      {10 * kS + kS / 2, nan}, {11 * kS, 7}, {12 * kS, 100}};
  const Points points = thinned(grid, values);
  ASSERT_EQ(points.size(), 3U);
  EXPECT_NEAR(points[0].first, 0.05, 1e-12);
  EXPECT_EQ(points[0].second, 2);
  EXPECT_NEAR(points[1].first, 0.15, 1e-12);
  EXPECT_EQ(points[1].second, 5);
  EXPECT_NEAR(points[2].first, 0.95, 1e-12);
  EXPECT_EQ(points[2].second, 7);
  EXPECT_TRUE(thinned(grid, {}).empty());
}

TEST(RatesOfCounter, StandInTheMiddleOfTwoReadings) {
  const std::vector<TimedValue> readings = {
      {0, 100}, {2 * kS, 150}, {3 * kS, 150}, {4 * kS, 10}, {5 * kS, 30}};
  // 50 in 2 s, nothing in 1 s, a restart, 20 in 1 s.
  const std::vector<TimedValue> expected = {{kS, 25}, {2 * kS + kS / 2, 0}, {4 * kS + kS / 2, 20}};
  EXPECT_EQ(rates_of_counter(readings), expected);
  EXPECT_TRUE(rates_of_counter(std::vector<TimedValue>{{0, 1}}).empty());
  EXPECT_TRUE(rates_of_counter({}).empty());
}

class ClientSeries : public ::testing::Test {
 protected:
  std::optional<RunSeries> of(const std::vector<RequestRecord>& rows) {
    const auto path = folder_.path() / "rows.jsonl";
    auto writer = RowWriter::create(path);
    EXPECT_TRUE(writer.ok());
    for (const RequestRecord& row : rows) EXPECT_TRUE(writer->write(row).ok());
    EXPECT_TRUE(writer->finish().ok());
    auto series = client_series(path);
    EXPECT_TRUE(series.ok()) << series.error().message;
    return series.ok() ? *series : std::nullopt;
  }
  TemporaryFolder folder_;
};

TEST_F(ClientSeries, TokensAndRequestsInFlightByHand) {
  // A warm-up from 0 to 100 ms with one token at 50; a request from 150 to 400 ms with tokens at
  // 160, 250 and 400; a failure from 200 to 250 ms. 400 ms are four bins of 100 ms.
  RequestRecord warmup = make_row({.sent = 0, .events = {50}, .end = 100, .output = 1});
  warmup.warmup = true;
  const auto series =
      of({warmup, make_row({.sent = 150, .events = {10, 100, 250}, .end = 250, .output = 3}),
          failed_row(200, 50, Outcome::kReset)});
  ASSERT_TRUE(series.has_value());
  EXPECT_EQ(series->grid.run().start, kTestStart);
  EXPECT_EQ(series->grid.run().stop, test_time(400));
  ASSERT_EQ(series->grid.bins(), 4U);
  ASSERT_EQ(series->signals.size(), 2U);
  EXPECT_EQ(series->signals[0].name, "client.output_rate");
  EXPECT_EQ(series->signals[1].name, "client.in_flight");
  const double rate[] = {10, 10, 10, 10};       // one token in 0.1 s
  const double in_flight[] = {1, 0.5, 1.5, 1};  // of each bin's 100 ms: 100, 50, 100 + 50, 100
  for (std::size_t bin = 0; bin < 4; ++bin) {
    EXPECT_NEAR(series->signals[0].points[bin].second, rate[bin], 1e-9) << bin;
    EXPECT_NEAR(series->signals[1].points[bin].second, in_flight[bin], 1e-9) << bin;
    EXPECT_NEAR(series->signals[1].points[bin].first, 0.05 + 0.1 * static_cast<double>(bin), 1e-9);
  }
}

TEST_F(ClientSeries, WhatWasNeverSentHasNone) {
  EXPECT_FALSE(of({}).has_value());
  RequestRecord never = failed_row(0, 10, Outcome::kRefused);
  never.sent = 0;
  EXPECT_FALSE(of({never}).has_value());
}

TEST(RunSeries, IsJsonOnTheClockOfItsFirstSend) {
  RunSeries series{.grid = SeriesGrid({5 * kS, 6 * kS}),
                   .levels = {{"8 users", {5 * kS + kS / 4, 5 * kS + kS / 2}}},
                   .signals = {{"gpu0.power", "W", {{0.05, 445.1234567}, {0.95, 1.0 / 3}}}},
                   .telemetry_reason = ""};
  EXPECT_EQ(to_json(series).dump(0),
            R"({"t0_ns":5000000000,"bin_s":0.1,"levels":[{"name":"8 users","start_s":0.25,)"
            R"("end_s":0.5}],"signals":[{"name":"gpu0.power","unit":"W","points":[[0.05,445.123],)"
            R"([0.95,0.333333]]}],"telemetry_reason":null})");
}

}  // namespace
}  // namespace nibble::load
