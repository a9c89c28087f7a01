#include <algorithm>
#include <gtest/gtest.h>

#include "base/text.h"
#include "load/test_report.h"

namespace nibble::load {
namespace {

std::vector<std::string> titles_of(const Table& table) {
  std::vector<std::string> titles;
  for (const Column& column : table.columns()) titles.push_back(column.title);
  return titles;
}

std::string cell(const Table& table, std::size_t row, std::string_view title) {
  for (std::size_t column = 0; column < table.columns().size(); ++column) {
    if (table.columns()[column].title == title) return table.rows()[row][column].text;
  }
  return "no column";
}

// Cells of the row that begins with a name.
std::string level_cell(const Table& table, std::string_view name, std::size_t column) {
  for (const std::vector<Cell>& row : table.rows()) {
    if (!row.empty() && row[0].text == name) return row[column].text;
  }
  return "no row";
}

std::size_t width_of(const Table& table) {
  std::size_t width = 0;
  for (const std::string& line : split(table.render(Style::plain()), '\n')) {
    width = std::max(width, display_width(line));
  }
  return width;
}

TEST(SweepTable, ARowALevel) {
  const RunReport report = bent_sweep();
  const Table table = sweep_table(report);
  ASSERT_EQ(table.rows().size(), 6U);
  EXPECT_EQ(cell(table, 0, "users"), "1");
  EXPECT_EQ(cell(table, 3, "users"), "8");
  EXPECT_EQ(cell(table, 3, "TTFT ms"), "20");
  EXPECT_EQ(cell(table, 5, "TTFT ms"), "80");  // a fifth of 32 x 12.5
  EXPECT_EQ(cell(table, 5, "TPOT ms"), "80");
  EXPECT_EQ(cell(table, 5, "ITL ms"), "80");
  // One user's 60 requests carry no P99, 32 users' 1920 do.
  EXPECT_EQ(cell(table, 0, "TTFT P99"), "-");
  EXPECT_EQ(cell(table, 5, "TTFT P99"), "80");
  EXPECT_EQ(cell(table, 0, "failed"), "no column");
  EXPECT_EQ(cell(table, 0, "W"), "no column");
}

TEST(SweepTable, WhatNoLevelHasIsLeftOut) {
  RunReport report = bent_sweep();
  report.levels[2].joined[Seen::kRunning].value = 4;
  report.levels[2].joined[Seen::kWaiting].value = 0;
  report.levels[3].joined[Seen::kRunning].value = 8;
  report.levels[3].window = "whole level";
  const Table table = sweep_table(report);
  EXPECT_EQ(cell(table, 2, "run"), "4");
  EXPECT_EQ(cell(table, 1, "run"), "-");
  EXPECT_EQ(cell(table, 3, "run"), "8~");  // of the whole level, unlike the others
  EXPECT_EQ(cell(table, 2, "KV"), "no column");
}

TEST(SweepTable, NarrowTerminalsKeepWhatMattersMost) {
  RunReport report;
  for (const int users : {512, 1024}) {
    report.levels.push_back(stream_level(0, users, 512.3, 2));
    see_everything(report.levels.back().joined);
  }
  const Table table = sweep_table(report);
  EXPECT_EQ(join(titles_of(table), " "),
            "users tok/s req/s TTFT ms TTFT P99 TPOT ms tok/s/user ITL ms E2E ms run queue KV W "
            "tensor DRAM MHz J/tok");
  EXPECT_LE(width_of(table), 130U) << table.render(Style::plain());
  const auto head_at = [&table](std::size_t width) {
    const std::string head = split(table.render({.width = width}), '\n').front();
    EXPECT_LE(display_width(head), width);
    std::vector<std::string> words;
    for (const std::string& word : split(head, ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    return join(words, " ");
  };
  EXPECT_EQ(head_at(80), "users tok/s req/s TTFT ms TTFT P99 TPOT ms E2E ms run queue KV");
  EXPECT_EQ(head_at(110),
            "users tok/s req/s TTFT ms TTFT P99 TPOT ms tok/s/user ITL ms E2E ms run queue KV W "
            "J/tok");
}

// 8 users, 100 ms each: 80 req/s. TTFT is 20 ms: a limit of 20 holds, one of 19 does not.
TEST(SweepTable, GoodputHasAColumnWhereLimitsWereGiven) {
  RunReport report;
  for (const double limit : {20.0, 19.0}) {
    report.levels.push_back(
        make_level({.max_concurrency = 8}, stream_rows(8, 100, 60), {.slo = {.ttft_ms = limit}}));
  }
  const Table table = sweep_table(report);
  EXPECT_EQ(cell(table, 0, "req/s"), "80");
  EXPECT_EQ(cell(table, 0, "good/s"), "80");
  EXPECT_EQ(cell(table, 1, "good/s"), "0");
  EXPECT_EQ(cell(sweep_table(bent_sweep()), 0, "good/s"), "no column");
}

// Ten requests: no interval for P90 (36) and P99 (368). What was asked for is shown and marked.
TEST(SweepTable, PercentilesThatWereAskedForAreMarked) {
  const MetricsOptions options = {.quantiles = {0.5, 0.9, 0.99}, .asked = {0.5, 0.9}};
  RunReport report;
  report.levels.assign(2, make_level({.max_concurrency = 1}, stream_rows(1, 100, 10), options));
  const Table table = sweep_table(report);
  EXPECT_EQ(cell(table, 0, "TTFT P50"), "20");
  EXPECT_EQ(cell(table, 0, "TTFT P90"), "20*");
  EXPECT_EQ(cell(table, 0, "TTFT P99"), "no column");
  const Table one = level_table(report.levels[0]);
  EXPECT_EQ(level_cell(one, "Median TTFT (ms)", 1), "20");
  EXPECT_EQ(level_cell(one, "P90 TTFT (ms)", 1), "20*");
  EXPECT_EQ(level_cell(one, "P99 TTFT (ms)", 1), "-");
}

// The steady numbers of all levels side by side.
TEST(LevelsTable, ARowANumberAndAColumnALevel) {
  RunReport report = bent_sweep();
  report.levels[0].joined[Seen::kPower].value = 445;
  report.levels[2].report.steady.enough = false;
  const Table table = levels_table(report);
  EXPECT_EQ(join(titles_of(table), "|"), "number|1 user|2 users|4 users|8 users|16 users|32 users");
  EXPECT_EQ(level_cell(table, "Successful requests", 6), "1920");
  EXPECT_EQ(level_cell(table, "Output token throughput (tok/s)", 4), "400");
  EXPECT_EQ(level_cell(table, "Mean TTFT (ms)", 6), "80");
  EXPECT_EQ(level_cell(table, "P99 TTFT (ms)", 1), "-");
  EXPECT_EQ(level_cell(table, "power (W)", 1), "445");
  EXPECT_EQ(level_cell(table, "power (W)", 2), "-");
}

TEST(SweepTable, OpenLoopsHaveRates) {
  RunReport report;
  report.levels.push_back(make_level({.request_rate = 2.5}, stream_rows(1, 400, 20)));
  report.levels.push_back(
      make_level({.max_concurrency = 8, .request_rate = 5}, stream_rows(2, 400, 20)));
  report.levels.push_back(make_level({.request_rate = HUGE_VAL}, stream_rows(2, 400, 20)));
  const Table table = sweep_table(report);
  EXPECT_EQ(cell(table, 0, "offered"), "2.5");
  EXPECT_EQ(cell(table, 0, "users"), "-");
  EXPECT_EQ(cell(table, 1, "users"), "8");
  EXPECT_EQ(cell(table, 2, "offered"), "inf");
  EXPECT_EQ(cell(table, 1, "flight"), "2");
}

TEST(SweepTable, LevelsWithoutASuccess) {
  RunReport report = bent_sweep();
  report.levels[0] = make_level({.max_concurrency = 1}, {failed_row(0, 10, Outcome::kReset)});
  const Table table = sweep_table(report);
  EXPECT_EQ(cell(table, 0, "failed"), "1");
  EXPECT_EQ(cell(table, 0, "TTFT ms"), "-");
  EXPECT_EQ(cell(table, 1, "failed"), "-");
  report.levels.resize(1);
  const Table alone = sweep_table(report);
  EXPECT_EQ(join(titles_of(alone), " "), "users failed tok/s req/s");
  report.levels.clear();
  EXPECT_TRUE(sweep_table(report).rows().empty());
}

TEST(LevelTable, AsVllmPrintsIt) {
  LevelResult level = stream_level(0, 8, 100);
  level.joined[Seen::kPower].value = 445;
  const Table table = level_table(level);
  EXPECT_EQ(join(titles_of(table), "|"), "number|whole level|steady window|what it is");
  EXPECT_EQ(level_cell(table, "Load", 1), "8 users");
  EXPECT_EQ(level_cell(table, "Successful requests", 1), "480");
  EXPECT_EQ(level_cell(table, "Failed requests", 1), "0");
  EXPECT_EQ(level_cell(table, "Benchmark duration (s)", 1), "6");
  EXPECT_EQ(level_cell(table, "Total input tokens", 1), "4800");
  EXPECT_EQ(level_cell(table, "Total generated tokens", 1), "2400");
  EXPECT_EQ(level_cell(table, "Request throughput (req/s)", 1), "80");
  EXPECT_EQ(level_cell(table, "Output token throughput (tok/s)", 1), "400");
  EXPECT_EQ(level_cell(table, "Total token throughput (tok/s)", 1), "1200");
  EXPECT_EQ(level_cell(table, "Peak concurrent requests", 1), "8");
  EXPECT_EQ(level_cell(table, "Concurrency", 2), "8");
  EXPECT_EQ(level_cell(table, "Mean TTFT (ms)", 1), "20");
  EXPECT_EQ(level_cell(table, "Median TPOT (ms)", 1), "20");
  EXPECT_EQ(level_cell(table, "P99 E2EL (ms)", 1), "100");
  EXPECT_EQ(level_cell(table, "power (W)", 1), "");
  EXPECT_EQ(level_cell(table, "power (W)", 2), "445");
  EXPECT_EQ(level_cell(table, "Request goodput (req/s)", 1), "no row");
  EXPECT_LE(width_of(table), 120U);
}

TEST(LevelTable, SmallSamplesAndNothingAtAll) {
  // Ten requests: a median has an interval from 6 values on, P99 from 368.
  const Table few = level_table(make_level({.max_concurrency = 64}, stream_rows(1, 100, 10)));
  EXPECT_EQ(few.columns().size(), 3U);  // 64 were never in flight: no steady window
  EXPECT_EQ(level_cell(few, "Median TTFT (ms)", 1), "20");
  EXPECT_EQ(level_cell(few, "P99 TTFT (ms)", 1), "-");
  const Table none =
      level_table(make_level({.max_concurrency = 1}, {failed_row(0, 10, Outcome::kReset)}));
  EXPECT_EQ(level_cell(none, "Mean TTFT (ms)", 1), "-");
  EXPECT_EQ(level_cell(none, "Mean TTFT (ms)", 2), "none: no request succeeded");
  EXPECT_EQ(level_cell(none, "P99 TTFT (ms)", 1), "no row");
}

}  // namespace
}  // namespace nibble::load
