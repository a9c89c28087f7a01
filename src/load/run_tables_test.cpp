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

bool any_holds(const std::vector<std::string>& texts, std::string_view part) {
  return std::any_of(texts.begin(), texts.end(), [part](const std::string& text) {
    return text.find(part) != std::string::npos;
  });
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
  std::vector<std::string> without;
  const RunReport report = bent_sweep();
  const Table table = sweep_table(report, without);
  ASSERT_EQ(table.rows().size(), 6U);
  EXPECT_EQ(cell(table, 0, "users"), "1");
  EXPECT_EQ(cell(table, 3, "users"), "8");
  EXPECT_EQ(cell(table, 3, "TTFT ms"), "20");
  EXPECT_EQ(cell(table, 5, "TTFT ms"), "80");  // a fifth of 32 x 12.5
  EXPECT_EQ(cell(table, 5, "TPOT ms"), "80");
  EXPECT_EQ(cell(table, 5, "ITL ms"), "80");
  // One user's 60 requests carry no P99, 32 users' 1920 do.
  EXPECT_EQ(cell(table, 0, "P99"), "-");
  EXPECT_EQ(cell(table, 5, "P99"), "80");
  EXPECT_EQ(cell(table, 0, "failed"), "no column");
  EXPECT_EQ(cell(table, 0, "W"), "no column");
  EXPECT_EQ(without.size(), 1U);
  EXPECT_TRUE(any_holds(without, "not measured"));
}

TEST(SweepTable, WhatNoLevelHasIsLeftOutWithItsReasonOnce) {
  RunReport report = bent_sweep();
  for (LevelResult& level : report.levels) {
    for (const Seen seen :
         {Seen::kPower, Seen::kTensor, Seen::kDram, Seen::kSmClock, Seen::kEnergyPerOutput}) {
      level.joined[seen].reason = "no GPU";
    }
    level.joined[Seen::kKvUsage].reason = "no metrics page";
  }
  report.levels[2].joined[Seen::kRunning].value = 4;
  report.levels[2].joined[Seen::kWaiting].value = 0;
  std::vector<std::string> without;
  const Table table = sweep_table(report, without);
  EXPECT_EQ(cell(table, 2, "run"), "4");
  EXPECT_EQ(cell(table, 1, "run"), "-");
  ASSERT_EQ(without.size(), 2U);
  EXPECT_EQ(without[0], "no KV cache in use: no metrics page");
  EXPECT_EQ(without[1],
            "no power, tensor activity, DRAM activity, SM clock, energy per output token: no GPU");
}

TEST(SweepTable, AHundredColumnsHoldEverything) {
  RunReport report;
  for (const int users : {512, 1024}) {
    report.levels.push_back(stream_level(0, users, 512.3, 2));
    see_everything(report.levels.back().joined);
  }
  std::vector<std::string> without;
  const Table table = sweep_table(report, without);
  EXPECT_TRUE(without.empty());
  EXPECT_EQ(join(titles_of(table), " "),
            "users tok/s TTFT ms P99 TPOT ms ITL ms run queue KV W tensor DRAM MHz J/tok");
  EXPECT_LE(width_of(table), 100U) << table.render(Style::plain());
}

TEST(SweepTable, OpenLoopsHaveRates) {
  RunReport report;
  report.levels.push_back(make_level({.request_rate = 2.5}, stream_rows(1, 400, 20)));
  report.levels.push_back(
      make_level({.max_concurrency = 8, .request_rate = 5}, stream_rows(2, 400, 20)));
  report.levels.push_back(make_level({.request_rate = HUGE_VAL}, stream_rows(2, 400, 20)));
  std::vector<std::string> without;
  const Table table = sweep_table(report, without);
  EXPECT_EQ(cell(table, 0, "req/s"), "2.5");
  EXPECT_EQ(cell(table, 0, "users"), "-");
  EXPECT_EQ(cell(table, 1, "users"), "8");
  EXPECT_EQ(cell(table, 2, "req/s"), "inf");
  EXPECT_EQ(cell(table, 1, "flight"), "2");
}

TEST(SweepTable, LevelsWithoutASuccess) {
  RunReport report = bent_sweep();
  report.levels[0] = make_level({.max_concurrency = 1}, {failed_row(0, 10, Outcome::kReset)});
  std::vector<std::string> without;
  const Table table = sweep_table(report, without);
  EXPECT_EQ(cell(table, 0, "failed"), "1");
  EXPECT_EQ(cell(table, 0, "TTFT ms"), "-");
  EXPECT_EQ(cell(table, 1, "failed"), "-");
  report.levels.resize(1);
  without.clear();
  const Table alone = sweep_table(report, without);
  EXPECT_EQ(join(titles_of(alone), " "), "users failed tok/s");
  EXPECT_TRUE(any_holds(without, "TTFT, TPOT, ITL (chunk): no request succeeded")) << without[0];
  report.levels.clear();
  without.clear();
  EXPECT_TRUE(sweep_table(report, without).rows().empty());
  EXPECT_TRUE(without.empty());
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
