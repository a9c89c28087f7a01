#include "drive/driver.h"

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "base/eventually.h"
#include "drive/test_drive.h"

namespace nibble::drive {
namespace {

using load::Outcome;

constexpr Nanoseconds kSecond = 1'000'000'000;

TEST(Driver, AClosedLoopKeepsExactlyItsUsersBusy) {
  // Answers of 0.3 s, beside which the moments without all eight are short on a busy machine, too.
  const TestDrive drive(quick_script(300), {.users = 8, .requests = 40, .grace = 0});
  EXPECT_FALSE(drive.run.fault.has_value());
  EXPECT_EQ(drive.rows.size(), 40U);
  EXPECT_EQ(drive.ok(), 40);
  EXPECT_EQ(drive.run.sent, 40);
  EXPECT_EQ(drive.run.rows, 40);
  EXPECT_EQ(drive.stats.most_running, 8);
  EXPECT_EQ(drive.run.tokens, 200);
  ASSERT_TRUE(drive.run.mean_in_flight.has_value());
  EXPECT_GT(*drive.run.mean_in_flight, 6);
  EXPECT_LE(*drive.run.mean_in_flight, 8.01);
  std::set<std::int64_t> indices;
  for (const load::RequestRecord& row : drive.rows) indices.insert(row.index);
  EXPECT_EQ(indices.size(), 40U);
  EXPECT_EQ(*indices.rbegin(), 39);
  EXPECT_EQ(drive.run.loops.size(), 1U);
}

TEST(Driver, UsersAreSpreadOverLoops) {
  const TestDrive drive(quick_script(200), {.users = 5, .requests = 25}, 2);
  EXPECT_EQ(drive.ok(), 25);
  EXPECT_EQ(drive.stats.most_running, 5);
  EXPECT_EQ(drive.run.loops.size(), 2U);
}

TEST(Driver, OneUserIsOneRequestAtATime) {
  const TestDrive drive(quick_script(2, 1), {.users = 1, .requests = 5});
  EXPECT_EQ(drive.stats.most_running, 1);
  auto rows = drive.rows;
  std::sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.index < b.index; });
  for (std::size_t index = 1; index < rows.size(); ++index) {
    EXPECT_GE(rows[index].sent, rows[index - 1].end);
    EXPECT_GE(rows[index].sent, rows[index].scheduled);
  }
  // The mean over time of one user is a little below one: the moments between two requests.
  EXPECT_LE(*drive.run.mean_in_flight, 1.0);
}

TEST(Driver, AnOpenLoopSendsOnTimeWhateverTheServerDoes) {
  load::ScheduleOptions arrivals{.request_rate = 100, .burstiness = 1e9, .requests = 20};
  arrivals.burstiness = std::numeric_limits<double>::infinity();  // a constant rate
  // Each answer takes 2 s, in which all of them are sent.
  const TestDrive drive(quick_script(2000, 1), {.arrivals = arrivals, .requests = 20});
  EXPECT_EQ(drive.ok(), 20);
  EXPECT_GE(drive.stats.most_running, 19);
  auto rows = drive.rows;
  std::sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.index < b.index; });
  for (std::size_t index = 1; index < rows.size(); ++index) {
    EXPECT_EQ(rows[index].scheduled - rows[index - 1].scheduled, 10'000'000);
  }
}

TEST(Driver, ALimitHoldsAnOpenLoopBackAndTheScheduleStays) {
  load::ScheduleOptions arrivals{.requests = 12};  // all at once
  const TestDrive drive(quick_script(300, 1), {.users = 3, .arrivals = arrivals, .requests = 12});
  EXPECT_EQ(drive.ok(), 12);
  EXPECT_EQ(drive.stats.most_running, 3);
  std::set<Nanoseconds> scheduled;
  Nanoseconds longest = 0;
  for (const load::RequestRecord& row : drive.rows) {
    scheduled.insert(row.scheduled);
    longest = std::max(longest, row.sent - row.scheduled);
  }
  EXPECT_EQ(scheduled.size(), 1U);          // a burst
  EXPECT_GT(longest, 3 * 304'000'000 - 1);  // the last wave waited for three others of 304 ms
}

TEST(Driver, TimeEndsALevelAndWhatRunsMayEnd) {
  const TestDrive drive(quick_script(100, 1), {.users = 4, .duration = 3 * kSecond / 2});
  EXPECT_FALSE(drive.run.fault.has_value());
  EXPECT_EQ(drive.with(Outcome::kCancelled), 0);
  EXPECT_GE(drive.ok(), 4 * 4);  // an idle machine does 15 for each
  EXPECT_EQ(static_cast<std::int64_t>(drive.rows.size()), drive.run.sent);
}

TEST(Driver, WhatOutlivesTheGraceIsCancelled) {
  const TestDrive drive(quick_script(60'000, 1),
                        {.users = 4, .duration = kSecond, .grace = kSecond / 5});
  EXPECT_EQ(drive.with(Outcome::kCancelled), 4);
  EXPECT_EQ(drive.rows.size(), 4U);
  EXPECT_TRUE(drive.run.incomplete.empty());  // as it was asked for
}

TEST(Driver, FailuresAreRowsAndAreNotSentAgain) {
  mock::MockScript script = quick_script(1, 1);
  script.faults = {{.kind = mock::FaultKind::kStatus, .requests = {1, 3}, .status = 503},
                   {.kind = mock::FaultKind::kErrorEvent, .requests = {5}, .after_tokens = 2}};
  const TestDrive drive(script, {.users = 1, .requests = 8});
  EXPECT_EQ(drive.rows.size(), 8U);
  EXPECT_EQ(drive.with(Outcome::kHttpStatus), 2);
  EXPECT_EQ(drive.with(Outcome::kErrorEvent), 1);
  EXPECT_EQ(drive.ok(), 5);
  EXPECT_EQ(drive.stats.requests, 8);
  EXPECT_FALSE(drive.run.fault.has_value());
}

TEST(Driver, AServerThatHasGoneEndsTheRun) {
  const TemporaryFolder folder;
  auto writer = load::RowWriter::create(folder.path() / "rows.jsonl");
  ASSERT_TRUE(writer.ok());
  std::optional<mock::RunningMock> mock = start(quick_script(5, 1));
  auto driver = Driver::make({.target = target_of(mock->url()), .dataset = words(10, 5)}, *writer);
  ASSERT_TRUE(driver.ok());
  std::thread killer([&] {
    EXPECT_TRUE(eventually([&] { return mock->stats().completed >= 20; }));
    mock.reset();
  });
  const std::atomic<bool> never = false;
  const LevelRun run = driver->run_level(0, {.users = 2, .requests = 100'000}, never, {});
  killer.join();
  ASSERT_TRUE(run.fault.has_value());
  EXPECT_EQ(run.fault->kind, ErrorKind::kRun);
  EXPECT_NE(run.fault->message.find("the server has gone"), std::string::npos)
      << run.fault->message;
  EXPECT_EQ(run.incomplete, run.fault->message);
  ASSERT_TRUE(writer->finish().ok());
  const auto rows = rows_of(folder.path() / "rows.jsonl");
  EXPECT_EQ(static_cast<std::int64_t>(rows.size()), run.sent);
  EXPECT_GT(std::count_if(rows.begin(), rows.end(),
                          [](auto& row) { return row.outcome == Outcome::kOk; }),
            5);
}

TEST(Driver, AnInterruptCancelsWhatRunsAndKeepsTheRows) {
  const TemporaryFolder folder;
  auto writer = load::RowWriter::create(folder.path() / "rows.jsonl");
  ASSERT_TRUE(writer.ok());
  mock::RunningMock mock = start(quick_script(5, 60'000));
  auto driver = Driver::make({.target = target_of(mock.url()), .dataset = words(10, 5)}, *writer);
  ASSERT_TRUE(driver.ok());
  std::atomic<bool> interrupted = false;
  Nanoseconds pressed = 0;
  std::thread user([&] {
    EXPECT_TRUE(eventually([&] { return mock.stats().generation_tokens == 3; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // and they are read
    pressed = monotonic_now();
    interrupted = true;
  });
  const LevelRun run = driver->run_level(0, {.users = 3, .requests = 100}, interrupted, {});
  user.join();
  EXPECT_LT(monotonic_now() - pressed, 20 * kSecond);  // the second tokens come after a minute
  ASSERT_TRUE(run.fault.has_value());
  EXPECT_NE(run.fault->message.find("interrupted"), std::string::npos);
  ASSERT_TRUE(writer->finish().ok());
  const auto rows = rows_of(folder.path() / "rows.jsonl");
  EXPECT_EQ(rows.size(), 3U);
  for (const load::RequestRecord& row : rows) {
    EXPECT_EQ(row.outcome, Outcome::kCancelled);
    EXPECT_EQ(row.events.size(), 1U);  // what came is kept
  }
}

TEST(Driver, ALevelEndsWhenItsRateIsKnown) {
  const TestDrive drive(quick_script(5, 2), {.users = 2, .shortest = 2 * kSecond}, 1, 20);
  EXPECT_FALSE(drive.run.fault.has_value());
  const double took = seconds(drive.run.end - drive.run.begin);
  EXPECT_GT(took, 2);   // twenty batches of a tenth, after a first answer of each user
  EXPECT_LT(took, 20);  // and long before its longest time
}

TEST(Driver, WarmUpsAreMarkedAndCountNowhere) {
  const TemporaryFolder folder;
  auto writer = load::RowWriter::create(folder.path() / "rows.jsonl");
  ASSERT_TRUE(writer.ok());
  mock::RunningMock mock = start(quick_script(1, 1));
  auto driver = Driver::make({.target = target_of(mock.url()), .dataset = words(10, 5)}, *writer);
  ASSERT_TRUE(driver.ok());
  const std::atomic<bool> never = false;
  const LevelOptions options{.users = 2, .requests = 4, .warmups = 3};
  driver->warm_up(0, options, never);
  const LevelRun run = driver->run_level(0, options, never, {});
  EXPECT_EQ(run.sent, 4);
  EXPECT_EQ(run.tokens, 20);
  ASSERT_TRUE(writer->finish().ok());
  const auto rows = rows_of(folder.path() / "rows.jsonl");
  EXPECT_EQ(rows.size(), 7U);
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](auto& row) { return row.warmup; }), 3);
}

TEST(Driver, AFileThatRunsOutEndsTheLevelWithASentence) {
  const TemporaryFolder folder;
  auto writer = load::RowWriter::create(folder.path() / "rows.jsonl");
  ASSERT_TRUE(writer.ok());
  mock::RunningMock mock = start(quick_script(1, 1));
  auto file = load::parse_custom(
      "{\"prompt\": \"a\", \"output_tokens\": 3}\n"
      "{\"prompt\": \"b\", \"output_tokens\": 3}\n",
      "two.jsonl", {}, {});
  ASSERT_TRUE(file.ok());
  auto driver =
      Driver::make({.target = target_of(mock.url()), .dataset = std::move(*file)}, *writer);
  ASSERT_TRUE(driver.ok());
  const std::atomic<bool> never = false;
  const LevelRun run = driver->run_level(0, {.users = 1, .requests = 5}, never, {});
  EXPECT_EQ(run.sent, 2);
  ASSERT_TRUE(run.fault.has_value());
  EXPECT_NE(run.fault->message.find("two.jsonl"), std::string::npos);
}

TEST(Driver, ImpossibleArrivalsAreAFault) {
  const TemporaryFolder folder;
  auto writer = load::RowWriter::create(folder.path() / "rows.jsonl");
  ASSERT_TRUE(writer.ok());
  auto driver =
      Driver::make({.target = target_of("http://127.0.0.1:1"), .dataset = words(1, 1)}, *writer);
  ASSERT_TRUE(driver.ok());
  const std::atomic<bool> never = false;
  load::ScheduleOptions arrivals{.request_rate = -1, .requests = 3};
  const LevelRun run = driver->run_level(0, {.arrivals = arrivals, .requests = 3}, never, {});
  ASSERT_TRUE(run.fault.has_value());
  EXPECT_EQ(run.fault->kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace nibble::drive
