#include "load/run_report.h"

#include <gtest/gtest.h>

#include "ledger/test_deployments.h"
#include "load/test_report.h"

namespace nibble::load {
namespace {

TEST(RunReport, FindsTheKneeOfASweep) {
  RunReport report = bent_sweep();
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  ASSERT_TRUE(report.knee);
  ASSERT_TRUE(report.knee->concurrency);
  EXPECT_EQ(*report.knee->concurrency, 8);
  EXPECT_NEAR(report.knee->best_throughput, 400, 4);
  EXPECT_TRUE(report.knee_reason.empty());
  ASSERT_TRUE(report.usl);
  EXPECT_TRUE(report.usl->valid());
  EXPECT_FALSE(report.step_fit);
  EXPECT_FALSE(report.roof);
  EXPECT_TRUE(has(report.step_note, "--gpu")) << report.step_note;
}

TEST(RunReport, TwoLevelsAndOneShowNoShape) {
  RunReport report = bent_sweep();
  report.levels.resize(2);
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  EXPECT_FALSE(report.knee);
  EXPECT_EQ(report.knee_reason, "2 levels show no shape; sweep at least 3");
  report.levels.resize(1);
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  EXPECT_EQ(report.knee_reason, "1 level shows no shape; sweep at least 3");
}

TEST(RunReport, LevelsThatDoNotCountAreLeftOut) {
  RunReport report = bent_sweep();
  report.levels[5].audit.cpu_limited = true;
  report.levels.push_back(
      make_level({.level = 6, .max_concurrency = 64}, {failed_row(0, 10, Outcome::kRefused)}));
  // Interrupted before its window opened.
  LevelResult part = make_level({.level = 7, .max_concurrency = 128}, stream_rows(2, 100, 3));
  ASSERT_FALSE(part.report.inside);
  part.report.incomplete = "interrupted";
  report.levels.push_back(part);
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  ASSERT_TRUE(report.knee);
  EXPECT_EQ(report.knee->gains.size(), 4U);  // between 1, 2, 4, 8, 16
  for (int level = 1; level < 5; ++level) report.levels[level].audit.cpu_limited = true;
  report.knee.reset();
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  EXPECT_FALSE(report.knee);
  EXPECT_TRUE(has(report.knee_reason, "1 of 8 levels count")) << report.knee_reason;
}

// Late loops make single gaps uncertain; how many tokens came is right.
TEST(RunReport, LateLoopsCountForTheKnee) {
  RunReport report = bent_sweep();
  for (LevelResult& level : report.levels) {
    level.audit.loops = {{.lag_p99_ms = 5, .cpu_share = 0.06}};
    judge(level.audit, 20);  // a quarter of the gap
    ASSERT_TRUE(level.audit.client_limited());
  }
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  ASSERT_TRUE(report.knee && report.knee->concurrency);
  EXPECT_EQ(*report.knee->concurrency, 8);
}

TEST(RunReport, OpenLoopsHaveNoKnee) {
  RunReport report;
  for (const double rate : {1.0, 2.0, 4.0}) {
    report.levels.push_back(make_level({.request_rate = rate}, stream_rows(1, 1000 / rate, 30)));
  }
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  EXPECT_FALSE(report.knee);
  EXPECT_TRUE(has(report.knee_reason, "open loops")) << report.knee_reason;
}

TEST(RunReport, TheLedgerGivesRegressorsAndRoofs) {
  RunReport report = bent_sweep();
  const Deployment deployment = deployment_of("glm-5-nvfp4", "h200", {.tp = 8});
  const auto ledger = Ledger::make(deployment);
  ASSERT_TRUE(ledger.ok()) << ledger.error().message;
  ASSERT_TRUE(analyze_sweep(report, &*ledger).ok());
  ASSERT_TRUE(report.step_fit);
  EXPECT_TRUE(report.step_fit->valid()) << report.step_fit->reason;
  ASSERT_TRUE(report.roof);
  ASSERT_EQ(report.roof->levels.size(), 6U);
  const RoofLevel& last = report.roof->levels[5];
  EXPECT_EQ(last.concurrency, 32);
  EXPECT_EQ(last.context, 13);  // 10 of the prompt, half of 5, rounded
  Deployment at_context = deployment;
  at_context.context = 13;
  const auto step = decode_step(at_context, 32);
  ASSERT_TRUE(step.ok());
  EXPECT_DOUBLE_EQ(last.tokens_per_s, step->tokens_per_s);
  EXPECT_NEAR(*last.reached, 400 / step->tokens_per_s, 0.01 * *last.reached);
}

// The rates of a window are free of its edges; latencies need a window that holds long requests.
TEST(RunReport, WhichNumbersAreShown) {
  LevelResult level = stream_level(0, 2, 100);  // 6 s, four times 100 ms and more than 5 s
  ASSERT_TRUE(level.report.inside);
  EXPECT_TRUE(level.report.steady.enough);
  EXPECT_EQ(&rates_of(level), &*level.report.inside);
  EXPECT_EQ(&latencies_of(level), &*level.report.inside);
  level.report.steady.enough = false;
  EXPECT_EQ(&rates_of(level), &*level.report.inside);
  EXPECT_EQ(&latencies_of(level), &level.report.all);
  level.report.inside.reset();
  EXPECT_EQ(&rates_of(level), &level.report.all);
}

TEST(RunReport, NamesOfLevels) {
  EXPECT_EQ(level_name({.max_concurrency = 1}), "1 user");
  EXPECT_EQ(level_name({.max_concurrency = 64}), "64 users");
  EXPECT_EQ(level_name({.request_rate = 2.5}), "2.5 req/s");
  EXPECT_EQ(level_name({.max_concurrency = 64, .request_rate = 8}), "8 req/s, at most 64");
  EXPECT_EQ(level_name({.request_rate = HUGE_VAL}), "all at once");
  EXPECT_EQ(level_name({}), "all at once");
}

}  // namespace
}  // namespace nibble::load
