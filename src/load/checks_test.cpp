#include "load/checks.h"

#include <gtest/gtest.h>

#include "load/test_rows.h"

namespace nibble::load {
namespace {

LevelMetrics metrics_within(const std::vector<RequestRecord>& rows,
                            std::optional<Window> window = std::nullopt) {
  LevelAccumulator level({.window = window});
  for (const RequestRecord& row : rows) level.add(row);
  return level.finish();
}

// Two at a time for a second: ten requests of 200 ms.
std::vector<RequestRecord> ten() {
  std::vector<RequestRecord> rows;
  for (int index = 0; index < 10; ++index) {
    rows.push_back(
        make_row({.sent = 200.0 * (index / 2), .events = {100, 200}, .end = 200, .output = 2}));
  }
  return rows;
}

TEST(Little, HoldsAndFails) {
  const LevelMetrics m = metrics_within(ten());
  const Check alone = check_little(m, std::nullopt);
  EXPECT_NEAR(*alone.value, 0, 1e-9);
  EXPECT_TRUE(*alone.holds);
  EXPECT_NE(alone.sentence.find("same intervals"), std::string::npos);
  EXPECT_TRUE(*check_little(m, 2.03).holds);   // 0.03 / 2.03 = 1.5 %
  EXPECT_FALSE(*check_little(m, 2.05).holds);  // 2.4 %: the generator saw more than the rows have
  EXPECT_FALSE(check_little(metrics_within({}), 1).holds);
}

TEST(Little, InAWindowTellsWhetherItWasSteady) {
  // Arrivals that departures do not follow: ten requests begin in the first tenth and last long.
  std::vector<RequestRecord> rows = ten();
  for (int index = 0; index < 20; ++index) {
    rows.push_back(make_row({.sent = 500, .events = {10, 5000}, .end = 5000, .output = 2}));
  }
  const Window window{test_time(0), test_time(1000)};
  EXPECT_TRUE(*check_little(metrics_within(ten(), window), std::nullopt).holds);
  EXPECT_FALSE(*check_little(metrics_within(rows, window), std::nullopt).holds);
}

TEST(Requests, AreConserved) {
  auto rows = ten();
  rows.push_back(failed_row(5, 6, Outcome::kReset));
  rows.push_back(failed_row(5, 6, Outcome::kCancelled));
  const LevelMetrics m = metrics_within(rows);
  EXPECT_TRUE(*check_requests(m, 12).holds);
  const Check lost = check_requests(m, 13);
  EXPECT_FALSE(*lost.holds);
  EXPECT_EQ(*lost.value, 1);
  EXPECT_NE(lost.sentence.find("13 sent; 10 succeeded + 1 failed + 1 cancelled = 12"),
            std::string::npos);
  EXPECT_FALSE(check_requests(m, std::nullopt).holds.has_value());
}

TEST(Tokens, AreConserved) {
  auto rows = ten();  // 20 tokens
  RequestRecord cancelled = make_row({.sent = 5, .events = {1, 2}, .end = 3, .output = 180});
  cancelled.outcome = Outcome::kCancelled;
  rows.push_back(cancelled);
  const LevelMetrics m = metrics_within(rows);  // 200 with what the server made in vain
  EXPECT_TRUE(*check_output_tokens(m, 200).holds);
  EXPECT_TRUE(*check_output_tokens(m, 200.9).holds);   // 0.45 %
  EXPECT_FALSE(*check_output_tokens(m, 201.1).holds);  // 0.55 %
  EXPECT_FALSE(*check_output_tokens(m, 0).holds);
  EXPECT_FALSE(check_output_tokens(m, std::nullopt).holds.has_value());
  EXPECT_FALSE(check_output_tokens(m, -5).holds.has_value());
  EXPECT_TRUE(*check_prompt_tokens(m, 110).holds);  // eleven prompts of 10
  EXPECT_FALSE(*check_prompt_tokens(m, 100).holds);
}

TEST(Tokens, OfRequestsThatWereCutOffTheServerMayHaveCountedMore) {
  auto rows = ten();  // 20 tokens of ten prompts of 10
  RequestRecord cut = make_row({.sent = 5, .events = {}, .end = 3, .asked = 50});
  cut.outcome = Outcome::kCancelled;
  rows.push_back(cut);
  const LevelMetrics m = metrics_within(rows);
  for (const double server : {20.0, 41.0, 70.0}) {
    EXPECT_TRUE(*check_output_tokens(m, server).holds) << server;
  }
  EXPECT_FALSE(*check_output_tokens(m, 71).holds);  // 20 and all 50 that were asked for
  EXPECT_FALSE(*check_output_tokens(m, 19).holds);
  EXPECT_TRUE(*check_prompt_tokens(m, 100).holds);
  EXPECT_TRUE(*check_prompt_tokens(m, 110).holds);
  EXPECT_FALSE(*check_prompt_tokens(m, 111).holds);
  EXPECT_NE(check_output_tokens(m, 41).sentence.find("cut off"), std::string::npos);
  EXPECT_EQ(check_output_tokens(m, 20).sentence.find("cut off"), std::string::npos);
}

}  // namespace
}  // namespace nibble::load
