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

TEST(RunSentences, TheGravestComesFirst) {
  RunReport report = bent_sweep();
  report.incomplete = "interrupted";
  report.setup.notes = {"the server takes no token ids"};
  report.levels.push_back(
      make_level({.level = 6, .max_concurrency = 64},
                 {failed_row(0, 10, Outcome::kRefused), failed_row(0, 10, Outcome::kRefused),
                  failed_row(0, 10, Outcome::kReset)}));
  report.levels[4].audit.client_limited = true;
  report.levels[4].audit.verdict = "client-limited: slow";
  report.levels[1].report.checks = {check_requests(report.levels[1].report.all, 121)};
  ASSERT_TRUE(analyze_sweep(report, nullptr).ok());
  const auto list = sentences(report);
  EXPECT_EQ(list[0], "the run is only a part: interrupted");
  EXPECT_EQ(list[1], "64 users: no request succeeded: 2 refused, 1 reset");
  EXPECT_TRUE(list[2].starts_with("2 users: the check requests fails: 121 sent; 120 succeeded"))
      << list[2];
  EXPECT_EQ(list[3], "16 users: client-limited: slow");
  EXPECT_TRUE(list[4].starts_with("knee at 8 users")) << list[4];
  EXPECT_EQ(list.back(), "the server takes no token ids");
}

TEST(RunSentences, LevelsThatSayTheSameShareASentence) {
  RunReport report = bent_sweep();
  report.levels.resize(3);
  for (LevelResult& level : report.levels) level.report.all.flags = {"it rained"};
  report.levels[0].report.all.flags.push_back("3 requests failed");
  report.levels[2].report.all.flags.push_back("12 requests failed");
  const auto list = sentences(report);
  EXPECT_TRUE(said(list, "every level: it rained")) << all_of(list);
  EXPECT_TRUE(said(list, "4 users: 12 requests failed (much the same: 1 user)")) << all_of(list);
}

TEST(RunSentences, PercentilesThatAreNotShown) {
  // 60, 120 and 240 requests: none carries a P99, which takes 368.
  RunReport report = bent_sweep();
  report.levels.resize(3);
  auto list = sentences(report);
  const std::size_t at = place(list, "P99 of TTFT, TPOT, ITL (chunk) and E2E is not shown");
  ASSERT_LT(at, list.size()) << all_of(list);
  EXPECT_NE(list[at].find("368"), std::string::npos) << list[at];
  EXPECT_FALSE(said(list, "P95 of")) << "a sweep shows the highest alone";
  EXPECT_FALSE(said(list, "withheld"));
  // A single level shows P90, P95 and P99: each has a reason. P95 takes 72.
  report.levels.resize(1);
  list = sentences(report);
  EXPECT_TRUE(said(list, "P99 of TTFT")) << all_of(list);
  EXPECT_TRUE(said(list, "P95 of TTFT")) << all_of(list);
  EXPECT_FALSE(said(list, "P50 of TTFT"));
  EXPECT_FALSE(said(list, "every level"));
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

// 20 requests a second are asked for; rows of one stream give 10.
TEST(RunSentences, ServersThatDoNotKeepUpWithARate) {
  RunReport report;
  report.levels.push_back(make_level({.request_rate = 20}, stream_rows(1, 100, 1000)));
  EXPECT_TRUE(said(sentences(report), "did not keep up")) << all_of(sentences(report));
  report.levels[0].report.plan.request_rate = 10;
  EXPECT_FALSE(said(sentences(report), "did not keep up")) << all_of(sentences(report));
  report.levels[0].report.plan.request_rate = HUGE_VAL;
  EXPECT_FALSE(said(sentences(report), "did not keep up"));
}

TEST(RunSentences, RefusedRequestsMakeLatenciesVoidAndAreSaidOnce) {
  auto rows = stream_rows(1, 100, 20);
  for (int index = 0; index < 20; ++index) rows.push_back(failed_row(0, 5, Outcome::kHttpStatus));
  RunReport report;
  report.levels.push_back(make_level({.max_concurrency = 1}, rows));
  const auto list = sentences(report);
  EXPECT_TRUE(list[0].starts_with("only 50.0 % of the requests")) << all_of(list);
  EXPECT_EQ(std::count_if(list.begin(), list.end(),
                          [](const std::string& text) { return text.starts_with("only "); }),
            1);
}

TEST(RunSentences, NothingWasMeasured) {
  const auto list = sentences(RunReport{.incomplete = "the disk is full"});
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0], "the run is only a part: the disk is full");
  EXPECT_EQ(list[1], "no level was measured");
}

}  // namespace
}  // namespace nibble::load
