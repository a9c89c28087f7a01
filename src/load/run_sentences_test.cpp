#include <algorithm>
#include <gtest/gtest.h>

#include "base/text.h"
#include "load/test_report.h"

namespace nibble::load {
namespace {

// Which sentence holds a text; their number when none does.
std::size_t place(const std::vector<std::string>& list, std::string_view part) {
  const auto found = std::find_if(list.begin(), list.end(), [part](const std::string& text) {
    return text.find(part) != std::string::npos;
  });
  return static_cast<std::size_t>(found - list.begin());
}

bool said(const std::vector<std::string>& list, std::string_view part) {
  return place(list, part) < list.size();
}

std::string all_of(const std::vector<std::string>& list) {
  return join(list, "\n");
}

TEST(RunSentences, WhatCameOutComesFirst) {
  RunReport report = bent_sweep();
  report.incomplete = "interrupted";
  report.setup.notes = {"the server takes no token ids"};
  report.levels.push_back(
      make_level({.level = 6, .max_concurrency = 64},
                 {failed_row(0, 10, Outcome::kRefused), failed_row(0, 10, Outcome::kRefused),
                  failed_row(0, 10, Outcome::kReset)}));
  report.levels[1].report.checks = {check_requests(report.levels[1].report.all, 121)};
  report.levels[4].audit.loops = {{.lag_p99_ms = 20, .cpu_share = 0.06}};
  judge(report.levels[4].audit, 40);
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  const auto list = sentences(report);
  EXPECT_EQ(list[0], "the run is only a part: interrupted");
  EXPECT_TRUE(list[1].starts_with("knee at 8 users")) << list[1];
  EXPECT_EQ(list[2], "64 users: no request succeeded: 2 x refused, 1 x reset");
  EXPECT_TRUE(list[3].starts_with("2 users: the check requests fails: 121 sent; 120 succeeded"))
      << list[3];
  EXPECT_EQ(list[4],
            "16 users: client-limited: loops were up to 20.00 ms late at P99 beside 40.00 ms "
            "between chunks; single gaps and percentiles of latencies are uncertain by about 20.00 "
            "ms; throughput counts");
  EXPECT_EQ(list.back(), "the server takes no token ids");
}

TEST(RunSentences, ALevelAloneIsItsNumbers) {
  RunReport report = bent_sweep();
  report.levels = {report.levels[3]};  // 8 users, 100 ms: 80 req/s of 5 tokens
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  EXPECT_TRUE(sentences(report)[0].starts_with(
      "8 users: 400 tok/s, 80 req/s, TTFT 20.00 ms, TPOT 20.00 ms, E2E 100.0 ms; steady for "))
      << sentences(report)[0];
}

// 32 places: the queue behind them is told whether there is a knee or not.
TEST(RunSentences, AServerThatIsFullIsTold) {
  RunReport report = bent_sweep();
  for (LevelResult& level : report.levels) {
    const double users = *level.report.plan.max_concurrency;
    level.joined[Seen::kRunning].value = std::min(8.0, users);
    level.joined[Seen::kWaiting].value = std::max(0.0, users - 8);
    level.joined[Seen::kKvUsage].value = 0.25;
  }
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  const char* const flat =
      "flat from 8 on: running stays at 8, the queue grows to 24: a limit of its scheduler, with "
      "25.0 % of the KV cache in use";
  EXPECT_EQ(sentences(report)[1], flat);
  for (LevelResult& level : report.levels) level.audit.cpu_limited = true;
  report.knee.reset();
  report.usl.reset();
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  const auto list = sentences(report);
  EXPECT_TRUE(list[0].starts_with("no knee: 0 of 6 levels count")) << list[0];
  EXPECT_EQ(list[1], flat);
}

TEST(RunSentences, LevelsThatSayTheSameShareASentence) {
  RunReport report = bent_sweep();
  report.levels.resize(3);
  for (LevelResult& level : report.levels) level.report.all.flags = {"it rained"};
  report.levels[0].report.all.flags.push_back("3 answers ended");
  report.levels[2].report.all.flags.push_back("12 answers ended");
  const auto list = sentences(report);
  EXPECT_TRUE(said(list, "every level: it rained")) << all_of(list);
  EXPECT_TRUE(said(list, "2 of 3 levels, as 4 users: 12 answers ended")) << all_of(list);
}

// One line for all levels; of those that kept up the latest loop, beside its gap, stands for all.
TEST(RunSentences, TheClientIsOneLine) {
  RunReport report = bent_sweep();
  report.levels.resize(3);
  const double lags[] = {0.5, 1.5, 1};
  for (std::size_t level = 0; level < 3; ++level) {
    report.levels[level].audit.loops = {{.lag_p99_ms = lags[level], .cpu_share = 0.0625}};
    report.levels[level].audit.calibration = test_calibration();
    judge(report.levels[level].audit, 20);
  }
  const auto line = [&report]() {
    const auto list = sentences(report);
    EXPECT_EQ(std::count_if(
                  list.begin(), list.end(),
                  [](const std::string& text) { return text.find("client") != std::string::npos; }),
              1)
        << all_of(list);
    return list[std::min(place(list, "client"), list.size() - 1)];
  };
  EXPECT_EQ(line(),
            "every level, at worst 2 users: the client kept up: loops 1.500 ms late at P99, 6.25 % "
            "of a core; by the built-in mock it is off by 62.50 us in TTFT and 31.25 us in a gap "
            "(medians)");
  for (std::size_t level = 0; level < 2; ++level) {
    report.levels[level].audit.loops[0].cpu_share = level == 0 ? 0.95 : 0.9;
    judge(report.levels[level].audit, 20);
  }
  EXPECT_EQ(
      line(),
      "2 of 3 levels, at worst 1 user: client-limited: a loop used 95.0 % of a core; "
      "throughput and latencies are the client's, so that the level is in no knee and no fit");
}

TEST(RunSentences, PercentilesThatAreNotShown) {
  // 60, 120 and 240 requests: none carries a P99, which takes 368.
  RunReport report = bent_sweep();
  report.levels.resize(3);
  const char* const p99 = "percentiles of too few requests are left out (P99 takes 368)";
  EXPECT_TRUE(said(sentences(report), p99)) << all_of(sentences(report));
  EXPECT_FALSE(said(sentences(report), "withheld"));
  // A single level shows P90, P95 and P99: each has a reason. P95 takes 72.
  report.levels.resize(1);
  EXPECT_TRUE(said(sentences(report),
                   "percentiles of too few requests are left out (P95 takes 72 and P99 takes 368)"))
      << all_of(sentences(report));
  report.levels = {make_level({.max_concurrency = 1}, stream_rows(1, 100, 10),
                              {.quantiles = {0.5, 0.9, 0.99}, .asked = {0.99}})};
  EXPECT_TRUE(said(sentences(report),
                   "* marks percentiles of too few requests for an interval (P99 takes 368)"))
      << all_of(sentences(report));
}

TEST(RunSentences, NoKneeWhereThereIsNone) {
  RunReport report = bent_sweep();
  report.levels.resize(4);  // 50, 100, 200, 400: a straight line
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  auto list = sentences(report);
  EXPECT_TRUE(said(list, "no knee: throughput still grows at 8")) << all_of(list);
  report.levels.resize(2);
  report.knee.reset();
  report.usl.reset();
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  EXPECT_TRUE(said(sentences(report), "no knee: 2 levels show no shape"));
  report.levels.resize(1);
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  EXPECT_FALSE(said(sentences(report), "knee"));  // nobody asked for a sweep
}

TEST(RunSentences, MoreThanTheRoofIsAnAccountingError) {
  RunReport report;
  report.levels.push_back(make_level({.max_concurrency = 8}, stream_rows(8, 100, 100)));
  report.roof = Roof{.of = "a model on a machine",
                     .levels = {{.concurrency = 8, .context = 100, .tokens_per_s = 50}}};
  report.roof->levels[0].reached = 0.5;
  EXPECT_TRUE(said(sentences(report), "allows 50")) << all_of(sentences(report));
  EXPECT_FALSE(said(sentences(report), "accounting error"));
  report.roof->levels[0].reached = 1.36;
  EXPECT_TRUE(said(sentences(report), "accounting error: 136")) << all_of(sentences(report));
}

// 20 requests a second are asked for; rows of one stream give 10.
TEST(RunSentences, ServersThatDoNotKeepUpWithARate) {
  RunReport report;
  report.levels.push_back(make_level({.request_rate = 20}, stream_rows(1, 100, 1000)));
  EXPECT_TRUE(said(sentences(report), "did not keep up")) << all_of(sentences(report));
  // 1,000 requests: the client is to blame when more than half of them left late.
  report.levels[0].audit.late_sends = 500;
  EXPECT_TRUE(said(sentences(report), "the server did not keep up"));
  report.levels[0].audit.late_sends = 501;
  EXPECT_FALSE(said(sentences(report), "the server did not keep up")) << all_of(sentences(report));
  EXPECT_TRUE(said(sentences(report), "the client sent more than half of them late"));
  report.levels[0].audit.late_sends = 0;
  report.levels[0].report.plan.request_rate = 10;
  EXPECT_FALSE(said(sentences(report), "did not keep up")) << all_of(sentences(report));
  report.levels[0].report.plan.request_rate = HUGE_VAL;
  EXPECT_FALSE(said(sentences(report), "did not keep up"));
}

// Of the rates offered: 10 is what rows of one stream give.
TEST(RunSentences, RatesAreToldUpToWhichTheServerKeepsUp) {
  RunReport report;
  for (const double rate : {5.0, 10.0, 20.0, 40.0}) {
    const double latency_ms = rate < 10 ? 1000 / rate : 100;
    report.levels.push_back(make_level({.request_rate = rate}, stream_rows(1, latency_ms, 1000)));
  }
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  EXPECT_TRUE(sentences(report)[0].starts_with(
      "the server kept up to 10 req/s: of 20 req/s it answered 10"))
      << sentences(report)[0];
  report.levels.resize(2);
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  EXPECT_EQ(sentences(report)[0], "the server kept up with every rate, up to 10 req/s");
}

TEST(RunSentences, FailuresAreNamedWithTheirCommonestMessage) {
  auto rows = stream_rows(1, 100, 20);
  for (int index = 0; index < 20; ++index) {
    rows.push_back(failed_row(0, 5, index < 15 ? Outcome::kHttpStatus : Outcome::kReset));
    if (index < 15) rows.back().message = index == 3 ? "503: other" : "503: full";
  }
  RunReport report;
  report.levels.push_back(make_level({.max_concurrency = 1}, rows));
  const std::string words =
      "20 of 40 requests failed: 15 x http_status \"503: full\", 5 x reset; latencies are those of "
      "the ones that the server chose to answer";
  EXPECT_EQ(sentences(report)[1], words);
  EXPECT_FALSE(said(sentences(report), "only 50.0 %"));  // once is enough
  report.levels.push_back(make_level({.max_concurrency = 2},
                                     {stream_rows(1, 100, 1)[0], failed_row(0, 5, Outcome::kReset),
                                      failed_row(0, 5, Outcome::kReset)}));
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  EXPECT_TRUE(
      said(sentences(report), "every level, at worst 2 users: 2 of 3 requests failed: 2 x reset"))
      << all_of(sentences(report));
}

Json silent_host() {
  return Json::object().set(
      "signals", Json::array({Json::object().set("name", "cpu.utilization").set("mean", 50),
                              Json::object()
                                  .set("name", "node7:9753/clock.offset_bound")
                                  .set("reason", "no connection: Connection refused")}));
}

TEST(RunSentences, WhatWasNotSeenIsToldWithItsReason) {
  RunReport report;
  report.levels.push_back(stream_level(0, 8, 100));
  Joined& joined = report.levels[0].joined;
  see_everything(joined);
  for (const Seen seen : {Seen::kRunning, Seen::kWaiting, Seen::kKvUsage}) {
    joined[seen] = {.value = std::nullopt, .reason = "server.x: self-signed certificate"};
  }
  joined[Seen::kTensor] = {.value = std::nullopt, .reason = "node7:9753/gpu0.tensor: not allowed"};
  const auto list = sentences(report);
  EXPECT_TRUE(said(list, "no server metrics: self-signed certificate")) << all_of(list);
  EXPECT_TRUE(said(list, "no tensor activity: not allowed")) << all_of(list);
}

TEST(RunSentences, AHostThatCannotBeReachedIsTold) {
  RunReport report;
  report.levels.push_back(stream_level(0, 8, 100));
  LevelResult& level = report.levels[0];
  see_everything(level.joined);
  level.telemetry = silent_host();
  const std::string silent = "no telemetry of node7:9753: no connection: Connection refused";
  EXPECT_EQ(sentences(report).back(), silent);
  for (const Seen seen : {Seen::kPower, Seen::kTensor, Seen::kDram, Seen::kSmClock,
                          Seen::kEnergyPerOutput, Seen::kHostCpu}) {
    level.joined[seen] = {.value = std::nullopt,
                          .reason = "node7:9753: no connection: Connection refused"};
  }
  EXPECT_EQ(sentences(report).back(),
            silent +
                "; it counts as the server's host, so that GPUs and processor of this one do "
                "not stand in for it");
  EXPECT_FALSE(said(sentences(report), "no GPU signals"));
}

// 3 of 64 users were never in flight together: no window, and signals are marked.
TEST(RunSentences, LevelsWithoutAWindowAreToldTogether) {
  RunReport report = bent_sweep();
  report.levels.resize(3);
  for (const std::size_t level : {0U, 2U}) {
    report.levels[level] =
        make_level({.max_concurrency = 64.0 + static_cast<double>(level)}, stream_rows(3, 100, 10));
    report.levels[level].joined[Seen::kRunning].value = 3;
  }
  EXPECT_TRUE(said(sentences(report),
                   "2 of 3 levels, as 66 users: no steady window (63 requests were never in flight "
                   "together): numbers are of the whole level (~), ramp and drain included"))
      << all_of(sentences(report));
}

TEST(RunSentences, NothingWasMeasured) {
  const auto list = sentences(RunReport{.incomplete = "the disk is full"});
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0], "the run is only a part: the disk is full");
  EXPECT_EQ(list[1], "no level was measured");
}

}  // namespace
}  // namespace nibble::load
