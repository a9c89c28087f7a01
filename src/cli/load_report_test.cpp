#include "cli/load_report.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "ledger/test_deployments.h"
#include "load/test_report.h"

namespace nibble::cli {
namespace {

const Chart* chart_of(const Document& document, std::string_view id) {
  for (const Section& section : document.sections) {
    for (const Chart& chart : section.charts) {
      if (chart.id == id) return &chart;
    }
  }
  return nullptr;
}

const ChartSeries* series_of(const Document& document, std::string_view id, std::string_view name) {
  const Chart* chart = chart_of(document, id);
  if (chart == nullptr) return nullptr;
  for (const ChartSeries& series : chart->series) {
    if (series.name == name) return &series;
  }
  return nullptr;
}

bool renders(const Document& document) {
  return render_html(document).find("</html>") != std::string::npos &&
         render_markdown(document).find("What the numbers mean") != std::string::npos;
}

TEST(LoadReport, ASweepWithEverything) {
  load::RunReport report = load::bent_sweep();
  for (load::LevelResult& level : report.levels) load::see_everything(level.joined);
  const auto ledger = Ledger::make(deployment_of("glm-5-nvfp4", "h200", {.tp = 8}));
  ASSERT_TRUE(ledger.ok());
  ASSERT_TRUE(load::analyze_sweep(report, &*ledger).ok());
  const Document document = load_document(report);
  const ChartSeries* measured = series_of(document, "throughput", "measured");
  ASSERT_NE(measured, nullptr);
  ASSERT_EQ(measured->points.size(), 6U);
  EXPECT_EQ(measured->points[3].x, 8);
  EXPECT_NEAR(measured->points[3].y, 400, 4);
  const ChartSeries* knee = series_of(document, "throughput", "knee");
  ASSERT_NE(knee, nullptr);
  ASSERT_EQ(knee->points.size(), 1U);
  EXPECT_EQ(knee->points[0].x, 8);
  const ChartSeries* usl = series_of(document, "throughput", "USL fit");
  ASSERT_NE(usl, nullptr);
  EXPECT_EQ(usl->points.size(), 21U);  // four pieces between six levels, and the end
  const ChartSeries* roof = series_of(document, "throughput", "ledger's floor of decode");
  ASSERT_NE(roof, nullptr);
  EXPECT_EQ(roof->points.size(), 6U);
  const ChartSeries* users = series_of(document, "interactivity", "levels");
  ASSERT_NE(users, nullptr);
  EXPECT_NEAR(users->points[0].x, 50, 1e-6);  // 20 ms a token
  for (const char* id : {"ttft", "tpot"}) EXPECT_NE(chart_of(document, id), nullptr) << id;
  // One token a chunk: the gap is the time of a token. And all levels saw the same: flat lines.
  for (const char* id : {"itl", "power", "activity", "server", "occupancy", "energy"}) {
    EXPECT_EQ(chart_of(document, id), nullptr) << id;
  }
  // One user's 60 requests carry no P99.
  EXPECT_EQ(series_of(document, "ttft", "P99")->points.front().x, 8);
  EXPECT_TRUE(renders(document));
  EXPECT_TRUE(document.subtitle.empty());
}

TEST(LoadReport, SignalsThatVaryAreDrawn) {
  load::RunReport report = load::bent_sweep();
  double share = 0.02;
  for (load::LevelResult& level : report.levels) {
    load::see_everything(level.joined);
    level.joined[load::Seen::kDram].value = share;
    level.joined[load::Seen::kPower].value = 100 + 1000 * share;
    level.joined[load::Seen::kKvUsage].value = 0.01 + 0.1 * share;  // 1.2 to 7.4 %: a share of 6 %
    level.joined[load::Seen::kHostCpu].value = 0.01;
    share *= 2;
  }
  const Document document = load_document(report);
  ASSERT_NE(series_of(document, "activity", "DRAM activity"), nullptr);
  EXPECT_EQ(series_of(document, "activity", "DRAM activity")->points[0].y, 2);
  EXPECT_NE(chart_of(document, "power"), nullptr);
  EXPECT_NE(chart_of(document, "occupancy"), nullptr);
  EXPECT_EQ(chart_of(document, "server"), nullptr);
  for (const Section& section : document.sections) {
    for (const Chart& chart : section.charts) {
      for (const ChartSeries& series : chart.series) {
        const bool percentile = series.name.starts_with('P');
        EXPECT_TRUE(percentile || chart.caption.find(series.name) != std::string::npos ||
                    chart.id == "activity" || chart.id == "energy" || chart.id == "power")
            << chart.id << ": " << series.name;
      }
    }
  }
}

// Levels of one TPOT and its noise make no landscape: their number is in the table.
TEST(LoadReport, NoiseIsNotDrawn) {
  load::RunReport report = load::bent_sweep();
  report.levels.resize(4);  // 20 ms a token each
  const Document flat = load_document(report);
  for (const char* id : {"interactivity", "ttft", "tpot"}) {
    EXPECT_EQ(chart_of(flat, id), nullptr) << id;
  }
  EXPECT_NE(chart_of(flat, "throughput"), nullptr);
  const Document bent = load_document(load::bent_sweep());  // 20 to 80 ms
  for (const char* id : {"interactivity", "ttft", "tpot"}) {
    EXPECT_NE(chart_of(bent, id), nullptr) << id;
  }
}

// The headline first, details in one table, definitions in one at the end.
TEST(LoadReport, ThePageIsShort) {
  load::RunReport report = load::bent_sweep();
  ASSERT_TRUE(load::analyze_sweep(report, nullptr).ok());
  const Document document = load_document(report);
  ASSERT_EQ(document.sections.front().paragraphs.size(), 1U);
  EXPECT_TRUE(document.sections.front().paragraphs[0].starts_with("knee at 8 users"));
  const auto& sections = document.sections;
  const auto levels = std::find_if(sections.begin(), sections.end(), [](const Section& section) {
    return section.heading == "Every level";
  });
  ASSERT_NE(levels, sections.end());
  EXPECT_EQ(levels->tables.size(), 1U);
  EXPECT_EQ(sections.back().heading, "What the numbers mean");
  EXPECT_EQ(sections.back().tables.size(), 1U);
  EXPECT_TRUE(sections.back().bullets.empty());
}

TEST(LoadReport, OpenLoopsAreDrawnOverTheirRate) {
  load::RunReport report;
  for (const double rate : {4.0, 2.0}) {
    report.levels.push_back(
        load::make_level({.request_rate = rate}, load::stream_rows(1, 1000 / rate, 40)));
  }
  const Document document = load_document(report);
  const ChartSeries* measured = series_of(document, "throughput", "measured");
  ASSERT_NE(measured, nullptr);
  EXPECT_EQ(measured->points[0].x, 2);  // in order along the axis
  EXPECT_EQ(measured->points[1].x, 4);
  EXPECT_NE(chart_of(document, "throughput")->x.title.find("offered"), std::string::npos);
  EXPECT_TRUE(renders(document));
}

TEST(LoadReport, PartsAndFailuresRender) {
  load::RunReport report;
  report.incomplete = "the server went away";
  EXPECT_TRUE(renders(load_document(report)));
  const auto failed =
      load::make_level({.max_concurrency = 4}, {load::failed_row(0, 10, load::Outcome::kRefused)});
  report.levels = {failed};
  Document document = load_document(report);
  EXPECT_EQ(document.subtitle, "Only a part of what was asked: the server went away.");
  EXPECT_EQ(chart_of(document, "throughput"), nullptr);
  EXPECT_TRUE(renders(document));
  report.levels = {load::stream_level(0, 1, 100), failed, load::stream_level(2, 4, 100)};
  document = load_document(report);
  ASSERT_NE(series_of(document, "throughput", "measured"), nullptr);
  EXPECT_EQ(series_of(document, "throughput", "measured")->points.size(), 2U);
  EXPECT_TRUE(renders(document));
  report.levels.resize(1);
  EXPECT_EQ(chart_of(load_document(report), "ttft"), nullptr);  // one level is no line
}

}  // namespace
}  // namespace nibble::cli
