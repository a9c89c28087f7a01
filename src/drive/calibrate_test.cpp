#include "drive/calibrate.h"

#include <gtest/gtest.h>
#include <limits>
#include <thread>

#include "base/file.h"
#include "base/testing.h"
#include "load/test_rows.h"

namespace nibble::drive {
namespace {

constexpr double kNow = 1.7e9;
constexpr double kDay = 24 * 3600;

load::Calibration sample(double concurrency, double itl_ms, double taken = kNow) {
  return {.concurrency = concurrency,
          .itl_ms = itl_ms,
          .ttft_ms = 50,
          .requests = 10,
          .events = 1000,
          .ttft_error_ms = {-0.01, 0.5, 0.9},
          .itl_error_ms = {0.02, 0.3, 1.5},
          .mock_error_p99_ms = 0.1,
          .client_cpu_us_per_event = 25,
          .taken_unix_s = taken};
}

TEST(CalibrationPlan, IsAsHardAsAskedAndALittleHarder) {
  const CalibrationPlan plan = plan_calibration({.concurrency = 64, .itl_ms = 12.5});
  EXPECT_EQ(plan.users, 64);
  EXPECT_EQ(plan.ttft_ms, 50);
  EXPECT_NEAR(plan.itl_ms, 11.3137085, 1e-6);  // 2^3.5, the next below
  EXPECT_EQ(plan.output_tokens, 36);           // 400 / 11.31 = 35.4 gaps
  EXPECT_DOUBLE_EQ(plan_calibration({.concurrency = 64, .itl_ms = 16}).itl_ms, 16);
  EXPECT_EQ(plan_calibration({.concurrency = 64, .itl_ms = plan.itl_ms}).itl_ms, plan.itl_ms);
}

TEST(CalibrationPlan, ClampsWhatNobodyCanRun) {
  for (const double itl_ms : {0.001, 0.0, -5.0, std::numeric_limits<double>::quiet_NaN(),
                              -std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(plan_calibration({.concurrency = 8, .itl_ms = itl_ms}).itl_ms, 1) << itl_ms;
  }
  const double slowest =
      plan_calibration({.concurrency = 4096, .itl_ms = std::numeric_limits<double>::infinity()})
          .itl_ms;
  EXPECT_LE(slowest, 100);
  EXPECT_GE(slowest, 64);
  EXPECT_EQ(plan_calibration({.concurrency = 0, .itl_ms = 10}).users, 1);
}

TEST(CalibrationPlan, HasEnoughEventsForItsP99) {
  for (const std::int64_t users : {1, 2, 8, 64, 1024}) {
    for (const double itl_ms : {1.0, 7.0, 50.0, 400.0}) {
      const CalibrationPlan plan = plan_calibration({.concurrency = users, .itl_ms = itl_ms});
      const double request_ms =
          plan.ttft_ms + static_cast<double>(plan.output_tokens - 1) * plan.itl_ms;
      const double counted_ms = milliseconds(plan.duration - plan.ramp);
      const double events =
          static_cast<double>(users * plan.output_tokens) * counted_ms / request_ms;
      EXPECT_GE(events, 900) << users << " users, " << itl_ms << " ms";
      EXPECT_LE(milliseconds(plan.duration), 3500);
    }
  }
}

TEST(CalibrationTally, TakesErrorsAgainstTheScript) {
  const CalibrationPlan plan{.users = 2, .ttft_ms = 50, .itl_ms = 10};
  CalibrationTally tally(plan, load::test_time(100));
  load::RequestRecord early = load::make_row({.sent = 99, .events = {500}, .end = 501});
  load::RequestRecord warmup = load::make_row({.sent = 200, .events = {500}, .end = 501});
  warmup.warmup = true;
  load::RequestRecord failed = load::failed_row(200, 300, load::Outcome::kReset);
  load::RequestRecord cancelled = load::failed_row(200, 300, load::Outcome::kCancelled);
  for (const load::RequestRecord& row : {early, warmup, failed, cancelled}) tally.add(row);
  EXPECT_FALSE(tally.finish().ok());  // no event counts yet
  // 101 requests: TTFT 50.0, 50.1, ... 60.0 ms: errors 0 to 10 ms. Gaps of 10 + 2 and 10 - 4 ms.
  for (int row = 0; row <= 100; ++row) {
    const double ttft = 50 + 0.1 * row;
    tally.add(load::make_row(
        {.sent = 100.0 + row, .events = {ttft, ttft + 12, ttft + 18}, .end = ttft + 18}));
  }
  const auto found = tally.finish();
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->concurrency, 2);
  EXPECT_EQ(found->itl_ms, 10);
  EXPECT_EQ(found->requests, 102);
  EXPECT_EQ(found->failed, 1);
  EXPECT_EQ(found->events, 303);
  EXPECT_NEAR(found->ttft_error_ms.p50, 5, 1e-5);
  EXPECT_NEAR(found->ttft_error_ms.p99, 9.9, 1e-5);
  EXPECT_NEAR(found->ttft_error_ms.max, 10, 1e-5);
  EXPECT_NEAR(found->itl_error_ms.p50, 3, 1e-5);  // 101 of 2 and 101 of 4: between the two
  EXPECT_NEAR(found->itl_error_ms.max, 4, 1e-5);
}

TEST(CalibrationCache, KeepsAndFinds) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "new" / "calibrations.json";
  EXPECT_FALSE(find_calibration(path, {.concurrency = 64, .itl_ms = 8}, kNow));
  ASSERT_TRUE(keep_calibration(path, sample(64, 8)).ok());
  const auto found = find_calibration(path, {.concurrency = 64, .itl_ms = 8}, kNow + 60);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->cached);
  EXPECT_EQ(found->age_s, 60);
  EXPECT_EQ(found->ttft_error_ms.p50, -0.01);
  EXPECT_EQ(found->itl_error_ms.p99, 0.3);
  EXPECT_EQ(found->events, 1000);
}

TEST(CalibrationCache, ServesOnlyWhatIsEasierAndNotMuchEasier) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "calibrations.json";
  ASSERT_TRUE(keep_calibration(path, sample(64, 8)).ok());
  const auto serves = [&](std::int64_t users, double itl_ms) {
    return find_calibration(path, {.concurrency = users, .itl_ms = itl_ms}, kNow).has_value();
  };
  EXPECT_TRUE(serves(64, 8));
  EXPECT_TRUE(serves(33, 8));
  EXPECT_TRUE(serves(64, 15));
  EXPECT_FALSE(serves(65, 8));   // more streams
  EXPECT_FALSE(serves(32, 8));   // half of them
  EXPECT_FALSE(serves(64, 7));   // a faster pace
  EXPECT_FALSE(serves(64, 16));  // half as fast
  EXPECT_FALSE(find_calibration(path, {64, 8}, kNow + 8 * kDay));
  EXPECT_FALSE(find_calibration(path, {64, 8}, kNow - 60));  // of the future
  ASSERT_TRUE(keep_calibration(path, sample(48, 8)).ok());
  EXPECT_EQ(find_calibration(path, {40, 8}, kNow)->concurrency, 48);  // the nearest
}

TEST(CalibrationCache, ReplacesItsLikeAndDropsTheOld) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "calibrations.json";
  ASSERT_TRUE(keep_calibration(path, sample(16, 4, kNow - 30 * kDay)).ok());
  ASSERT_TRUE(keep_calibration(path, sample(64, 8)).ok());
  ASSERT_TRUE(keep_calibration(path, sample(64, 8, kNow + 10)).ok());
  const Json file = *Json::parse(*read_file(path, 1 << 20), "cache");
  ASSERT_EQ(file.find("entries")->as_array().size(), 1u);
  EXPECT_EQ(find_calibration(path, {64, 8}, kNow + 20)->age_s, 10);
}

TEST(CalibrationCache, IsOfThisMachineAndVersion) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "calibrations.json";
  ASSERT_TRUE(keep_calibration(path, sample(64, 8)).ok());
  const std::string text = *read_file(path, 1 << 20);
  for (const char* field : {"version", "cpu", "cores"}) {
    Json file = *Json::parse(text, "cache");
    Json& machine = *file.find("entries")->as_array()[0].find("machine");
    machine.set(field, "another");
    ASSERT_TRUE(write_file(path, file.dump()).ok());
    EXPECT_FALSE(find_calibration(path, {64, 8}, kNow)) << field;
  }
  // And the other machine's stays when this one keeps its own: a home folder may be shared.
  ASSERT_TRUE(keep_calibration(path, sample(64, 8)).ok());
  EXPECT_EQ(Json::parse(*read_file(path, 1 << 20), "cache")->find("entries")->as_array().size(),
            2u);
}

TEST(CalibrationCache, ABrokenFileHoldsNone) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "calibrations.json";
  for (const char* text :
       {"", "{", "[]", "null", R"({"schema": "other/1", "entries": []})",
        R"({"schema": "nibble.calibrations/1"})",
        R"({"schema": "nibble.calibrations/1", "entries": {}})",
        R"({"schema": "nibble.calibrations/1", "entries": [3, null, {}, {"machine": 1}]})"}) {
    ASSERT_TRUE(write_file(path, text).ok());
    EXPECT_FALSE(find_calibration(path, {64, 8}, kNow)) << text;
    ASSERT_TRUE(keep_calibration(path, sample(64, 8)).ok()) << text;
    EXPECT_TRUE(find_calibration(path, {64, 8}, kNow)) << text;
  }
}

TEST(CalibrationCache, IsWholeAtEveryMoment) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "calibrations.json";
  ASSERT_TRUE(keep_calibration(path, sample(64, 8)).ok());
  const auto keep = [&](int first) {
    for (int users = first; users < first + 10; ++users) {
      EXPECT_TRUE(keep_calibration(path, sample(users, 2)).ok());
    }
  };
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) EXPECT_TRUE(Json::parse(*read_file(path, 1 << 20), "cache").ok());
  });
  std::thread one(keep, 100);
  std::thread two(keep, 200);
  one.join();
  two.join();
  done = true;
  reader.join();
}

TEST(CalibrationCache, LiesBesideTheRoofs) {
  const ScopedEnvironment cache("XDG_CACHE_HOME", "/somewhere");
  EXPECT_EQ(calibration_path(), "/somewhere/nibble/calibrations.json");
}

TEST(Calibrate, MeasuresThisClient) {
  const std::atomic<bool> never = false;
  const Nanoseconds begin = monotonic_now();
  const auto found = calibrate({.concurrency = 8, .itl_ms = 4}, never);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_LT(seconds(monotonic_now() - begin), 8);
  EXPECT_EQ(found->concurrency, 8);
  EXPECT_EQ(found->itl_ms, 4);
  EXPECT_EQ(found->failed, 0);
  // 8 users, 26 tokens in 150 ms each, 2.5 s: 3,466 events; a busy machine brings less.
  EXPECT_GT(found->events, 500);
  EXPECT_LT(found->events, 5000);
  // Some 0.1 ms on an idle machine. A busy one makes both late, so that only this is sure.
  EXPECT_LT(std::abs(found->ttft_error_ms.p50), 500);
  EXPECT_LE(found->itl_error_ms.p50, found->itl_error_ms.p99);
  EXPECT_LE(found->itl_error_ms.p99, found->itl_error_ms.max);
  EXPECT_GT(found->mock_error_p99_ms, 0);
  EXPECT_GT(found->client_cpu_us_per_event, 0);
  EXPECT_LT(found->client_cpu_us_per_event, 1000);
  EXPECT_FALSE(found->cached);
}

TEST(Calibrate, EndsWhenInterrupted) {
  const std::atomic<bool> interrupted = true;
  const Nanoseconds begin = monotonic_now();
  EXPECT_FALSE(calibrate({.concurrency = 4, .itl_ms = 10}, interrupted).ok());
  EXPECT_LT(seconds(monotonic_now() - begin), 1.5);
}

}  // namespace
}  // namespace nibble::drive
