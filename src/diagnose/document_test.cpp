#include "diagnose/document.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "diagnose/document_fixture.h"
#include "report/terminal.h"

namespace nibble::diagnose {
namespace {

bool document_has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Document full_document() {
  return diagnosis_document(full_diagnosis(), {.command = "nibble diagnose"});
}

const Section* section_named(const Document& document, std::string_view heading) {
  for (const Section& section : document.sections) {
    if (section.heading == heading) return &section;
  }
  return nullptr;
}

std::vector<std::string> headings_of(const Document& document) {
  std::vector<std::string> headings;
  for (const Section& section : document.sections) headings.push_back(section.heading);
  return headings;
}

// The row that starts with `name`, as texts; empty: there is none.
std::vector<std::string> row_named(const Table& table, std::string_view name) {
  for (const std::vector<Cell>& row : table.rows()) {
    if (row.empty() || row.front().text != name) continue;
    std::vector<std::string> texts;
    for (const Cell& cell : row) texts.push_back(cell.text);
    return texts;
  }
  return {};
}

TEST(DiagnosisDocument, HasItsPartsInTheOrderInWhichTheyAreRead) {
  EXPECT_EQ(headings_of(full_document()),
            (std::vector<std::string>{"Where the time goes", "Why", "What was tried",
                                      "What to change", "The sweep", "Kernels alone on the GPU",
                                      "Kernels under the roofs", "Signals under load",
                                      "As served, by operation", "Tactics and kernels", "Energy",
                                      "Notes", "Findings", "Every part of a token's time",
                                      "Every number and its source", "What this was made from"}));
}

TEST(DiagnosisDocument, OpensWithTheVerdictItsCertaintyAndWhatToDoFirst) {
  const Document document = full_document();
  EXPECT_EQ(document.title,
            "The server runs 64 requests at most and lets 192 wait, though memory for 4 x as many "
            "is free.");
  EXPECT_TRUE(document_has(document.subtitle, "(93 %): scheduler cap. Regime: queue. "))
      << document.subtitle;
  ASSERT_EQ(document.lead.size(), 1u);
  // 256 users / 905 tok/s = 282.9 ms
  EXPECT_EQ(
      document.lead[0],
      "Do first: Raise the cap on running requests to 256 (a restart). It wins at most 212 of "
      "283 ms per token and user at 256 users, 2.31 x the throughput. How: vLLM: "
      "--max-num-seqs 256.");
}

TEST(DiagnosisDocument, WithoutProposalsTheExperimentComesFirst) {
  Diagnosis diagnosis = full_diagnosis();
  diagnosis.proposals.clear();
  const Document document = diagnosis_document(diagnosis, {});
  ASSERT_EQ(document.lead.size(), 1u);
  EXPECT_TRUE(document.lead[0].starts_with("Find out first: run 256 users with"));
  EXPECT_EQ(section_named(document, "What to change"), nullptr);
}

TEST(DiagnosisDocument, WaterfallHasTheKnownBarsAndTheMeasuredTotal) {
  const Document document = full_document();
  const Section* section = section_named(document, "Where the time goes");
  ASSERT_NE(section, nullptr);
  ASSERT_EQ(section->charts.size(), 1u);
  const Chart& chart = section->charts[0];
  EXPECT_EQ(chart.kind, Chart::Kind::kWaterfall);
  ASSERT_EQ(chart.series.size(), 1u);
  const std::vector<ChartPoint>& points = chart.series[0].points;
  double sum = 0;
  for (std::size_t at = 0; at + 1 < points.size(); ++at) {
    sum += points[at].y;
    EXPECT_NE(points[at].label, "kernels above their floor");  // not known
    EXPECT_NE(points[at].label, "arithmetic");                 // nothing
  }
  EXPECT_EQ(points.back().label, "measured");
  EXPECT_NEAR(points.back().y, 282.87, 0.01);  // 256 / 905 s
  EXPECT_NEAR(sum, points.back().y, 1e-9);
  EXPECT_TRUE(document_has(chart.caption, "the largest loss is queue before the batch with 212 ms"))
      << chart.caption;
}

TEST(DiagnosisDocument, LevelsStandSideBySideAndUnknownBarsSayWhyOnce) {
  const Document document = full_document();
  const Section* section = section_named(document, "Where the time goes");
  ASSERT_NE(section, nullptr);
  ASSERT_EQ(section->tables.size(), 1u);
  const Table& table = section->tables[0].second;
  EXPECT_EQ(table.columns().size(), 6u);
  // users / rate: 1 / 39.6, 16 / 410, 64 / 900, 256 / 905, 512 / 902, in ms
  EXPECT_EQ(row_named(table, "measured"),
            (std::vector<std::string>{"measured", "25.25", "39.02", "71.11", "282.9", "567.6"}));
  EXPECT_EQ(row_named(table, "tok/s of all users"),
            (std::vector<std::string>{"tok/s of all users", "39.6", "410", "900", "905", "902"}));
  EXPECT_EQ(row_named(table, "kernels above their floor"),
            (std::vector<std::string>{"kernels above their floor", "-", "-", "-", "-", "-"}));
  const std::vector<std::string>& bullets = section->bullets;
  ASSERT_EQ(bullets.size(), 2u);  // two reasons, each of five levels
  EXPECT_EQ(bullets[0],
            "Not known (kernels above their floor): no kernels were timed; give --kernels "
            "bench.json.");
}

TEST(DiagnosisDocument, SweepMarksTheKneeAndTheFloor) {
  const Document document = full_document();
  const Section* section = section_named(document, "The sweep");
  ASSERT_NE(section, nullptr);
  ASSERT_EQ(section->charts.size(), 2u);
  const std::vector<ChartSeries>& series = section->charts[0].series;
  ASSERT_EQ(series.size(), 3u);
  EXPECT_EQ(series[0].name, "knee");
  ASSERT_EQ(series[0].points.size(), 1u);
  EXPECT_EQ(series[0].points[0].x, 64);
  EXPECT_EQ(series[2].name, "floor");
  ASSERT_EQ(series[2].points.size(), 5u);
  EXPECT_NEAR(series[2].points[0].y, 161.29, 0.01);   // 1 / 6.2 ms
  EXPECT_NEAR(series[2].points[3].y, 2471.04, 0.01);  // 64 / 25.9 ms
  const Table& table = section->tables.back().second;
  // The step: 64 running / 905 tok/s = 70.7 ms
  const std::vector<std::string> row = row_named(table, "256 users");
  ASSERT_EQ(row.size(), 6u);
  EXPECT_EQ(row[2], "70.7");
  EXPECT_EQ(row[3], "25.9");
}

TEST(DiagnosisDocument, SignalsShareOneClockAndShowTheLevelsWindows) {
  const Document document = full_document();
  const Section* section = section_named(document, "Signals under load");
  ASSERT_NE(section, nullptr);
  std::vector<std::string> titles;
  for (const Chart& chart : section->charts) {
    titles.push_back(chart.title);
    EXPECT_EQ(chart.x.title, "time since the run began (s)");
    ASSERT_TRUE(chart.x.min && chart.x.max);
    EXPECT_EQ(*chart.x.min, 0);
    EXPECT_EQ(*chart.x.max, 294);
    ASSERT_EQ(chart.bands.size(), 5u);
    EXPECT_EQ(chart.bands[1].from, 70);
    EXPECT_EQ(chart.bands[1].to, 110);
    EXPECT_EQ(chart.bands[1].label, "16 users");
    EXPECT_LE(chart.series.size(), 8u);
    EXPECT_TRUE(chart.numbers.has_value());
  }
  EXPECT_EQ(titles,
            (std::vector<std::string>{
                "Tokens per second", "Requests by the server's own count", "The server's shares",
                "Power", "Activity of the GPUs: sm_active", "Activity of the GPUs: dram",
                "Activity of the processors", "Clocks", "Temperature"}));
  // The server's queue in the window of 256 users is 192 at every point.
  const Table& numbers = *section->charts[1].numbers;
  bool seen = false;
  for (const std::vector<Cell>& row : numbers.rows()) {
    if (row[0].text != "server.waiting" || row[1].text != "256 users") continue;
    seen = true;
    EXPECT_EQ(row[2].text, "190 to 230");
    EXPECT_EQ(row[3].text, "192");
    EXPECT_EQ(row[5].text, "192");
  }
  EXPECT_TRUE(seen);
}

TEST(DiagnosisDocument, MoreSeriesThanColoursShowTheExtremes) {
  Diagnosis diagnosis;
  for (int gpu = 0; gpu < 16; ++gpu) {
    diagnosis.evidence.series.push_back({.name = fmt::format("gpu{}.power", gpu),
                                         .unit = "W",
                                         .points = {{0, 100.0 + gpu}, {1, 100.0 + gpu}}});
  }
  const Document document = diagnosis_document(diagnosis, {});
  const Section* section = section_named(document, "Signals under load");
  ASSERT_NE(section, nullptr);
  ASSERT_EQ(section->charts.size(), 1u);
  const Chart& chart = section->charts[0];
  ASSERT_EQ(chart.series.size(), 8u);
  EXPECT_EQ(chart.series.front().name, "gpu0");
  EXPECT_EQ(chart.series[3].name, "gpu3");
  EXPECT_EQ(chart.series[4].name, "gpu12");
  EXPECT_EQ(chart.series.back().name, "gpu15");
  EXPECT_TRUE(document_has(chart.caption, "Shown are 8 of 16"));
  // All sixteen as one row: 100 to 115 W, 107.5 on average.
  ASSERT_EQ(chart.numbers->rows().size(), 1u);
  const std::vector<Cell>& row = chart.numbers->rows()[0];
  EXPECT_EQ(row[0].text, "power of 16");
  EXPECT_EQ(row[3].text, "108");
  EXPECT_EQ(row[4].text, "100");
  EXPECT_EQ(row[5].text, "115");
}

TEST(DiagnosisDocument, RooflineHasKernelsTheirFloorAndTheRoofs) {
  const Document document = full_document();
  const Section* section = section_named(document, "Kernels under the roofs");
  ASSERT_NE(section, nullptr);
  const std::vector<ChartSeries>& series = section->charts.at(0).series;
  ASSERT_EQ(series.size(), 4u);
  EXPECT_EQ(series[0].points.size(), 4u);
  // moe.gate_up: 8.03 TFLOPS in 401 us; in the floor's 284 us it would be 11.34.
  EXPECT_NEAR(series[1].points[0].y, 11.338, 0.001);
  EXPECT_NEAR(series[2].points[1].x, 1158.4, 0.1);  // 1850 TFLOPS / 1.597 TB/s
  EXPECT_EQ(series[2].points[1].y, 1850);
}

TEST(DiagnosisDocument, ServedOperationsStandBesideTheirFloorAndUnmappedIsARow) {
  const Document document = full_document();
  const Section* section = section_named(document, "As served, by operation");
  ASSERT_NE(section, nullptr);
  const Table& table = section->tables.at(0).second;
  // 30.4 ms of 70.9: 42.9 %; 75 kernels: 405 us each
  EXPECT_EQ(row_named(table, "moe.gate_up"),
            (std::vector<std::string>{"moe.gate_up", "30.4", "42.9 %", "75", "405", "401", "284",
                                      "cutlass::gemm_nvfp4<128,128>"}));
  EXPECT_EQ(row_named(table, "unmapped").size(), 8u);
  EXPECT_EQ(row_named(table, "no kernel running")[1], "4.80");  // 70.9 - 66.1
}

TEST(DiagnosisDocument, EveryKnownFactHasItsSourceAndEveryMissingOneItsReason) {
  const Document document = full_document();
  const Section* section = section_named(document, "Every number and its source");
  ASSERT_NE(section, nullptr);
  std::size_t known = 0;
  for (const Datum& datum : full_diagnosis().evidence.levels[kFixtureHeadline].facts) {
    known += datum.known() ? 1 : 0;
  }
  const Table& table = section->tables.at(0).second;
  EXPECT_EQ(table.rows().size(), known);
  for (const std::vector<Cell>& row : table.rows()) EXPECT_FALSE(row[3].text.empty());
  ASSERT_EQ(section->lists.size(), 1u);
  EXPECT_EQ(section->lists[0].bullets.size(), 2u);  // two reasons for three facts
}

TEST(DiagnosisDocument, OfNothingIsATitleAndNoSections) {
  Diagnosis nothing;
  nothing.headline = 7;
  const Document document = diagnosis_document(nothing, {});
  EXPECT_EQ(document.title, "Diagnosis");
  EXPECT_TRUE(document.sections.empty());
  EXPECT_TRUE(document.lead.empty());
  EXPECT_FALSE(render_html(document).empty());
}

TEST(DiagnosisDocument, NumbersThatAreNoneDrawNothing) {
  const double kNone = std::numeric_limits<double>::quiet_NaN();
  Diagnosis diagnosis = full_diagnosis();
  for (LevelDiagnosis& level : diagnosis.levels) {
    level.measured_ms = kNone;
    for (WaterfallBar& bar : level.waterfall) bar.ms = kNone;
  }
  for (LevelEvidence& level : diagnosis.evidence.levels) {
    for (Datum& datum : level.facts) datum.value = kNone;
    level.start_s = kNone;
  }
  for (Series& series : diagnosis.evidence.series) {
    for (auto& point : series.points) point.second = std::numeric_limits<double>::infinity();
  }
  for (KernelEvidence& kernel : diagnosis.evidence.kernels) kernel.time_us = kNone;
  const Document document = diagnosis_document(diagnosis, {});
  for (const Section& section : document.sections) {
    for (const Chart& chart : section.charts) {
      for (const ChartSeries& series : chart.series) {
        for (const ChartPoint& point : series.points) {
          EXPECT_TRUE(std::isfinite(point.x) && std::isfinite(point.y)) << chart.id;
        }
      }
    }
  }
  EXPECT_EQ(section_named(document, "Signals under load"), nullptr);
}

TEST(DiagnosisDocument, TerminalOf80ColumnsTellsTheMostImportantFirst) {
  const std::string text = render_terminal(full_document(), {.width = 80});
  const std::vector<std::string> lines = split(text, '\n');
  std::string first;
  for (std::size_t at = 0; at < 25; ++at) first += lines.at(at) + "\n";
  for (const char* part : {"The server runs 64 requests", "Do first:", "256 users", "GLM-5-NVFP4",
                           "Where the time goes", "expert weights"}) {
    EXPECT_TRUE(document_has(first, part)) << part << "\n" << first;
  }
  for (const std::string& line : lines) EXPECT_LE(display_width(line), 80u) << line;
  EXPECT_TRUE(document_has(text, "queue before the batch"));
  // Details are named, not shown.
  EXPECT_TRUE(document_has(text, "Signals under load; "));
  EXPECT_FALSE(document_has(text, "node7"));
}

TEST(DiagnosisDocument, SameDiagnosisGivesTheSameBytes) {
  EXPECT_EQ(render_html(full_document()), render_html(full_document()));
}

// ---- What is not passed on

std::string redacted_text(std::string text, const std::vector<std::string>& hosts = {}) {
  Diagnosis diagnosis;
  diagnosis.sentence = std::move(text);
  return redacted(std::move(diagnosis), hosts).sentence;
}

TEST(DiagnosisRedacted, HostsGetNumbersInTheirOrder) {
  EXPECT_EQ(redacted_text("see http://node7.lab:8000/v1/models and https://b/x, http://node7.lab/"),
            "see http://host1/v1/models and https://host2/x, http://host1/");
  EXPECT_EQ(redacted_text("node7:9753/gpu0.power is low."), "host1/gpu0.power is low.");
  EXPECT_EQ(redacted_text("from 10.0.12.7, port 80"), "from host1, port 80");
  EXPECT_EQ(redacted_text("node7 is slow: http://node7:8000"), "host1 is slow: http://host1");
  EXPECT_EQ(redacted_text("alpha waits for beta", {"beta", "alpha"}), "host2 waits for host1");
  EXPECT_EQ(redacted_text("http://[2001:db8::7]:8000/v1"), "http://host1/v1");
}

TEST(DiagnosisRedacted, LoopbackTellsNothingAndStays) {
  for (const char* text : {"http://localhost:8000/v1", "http://127.0.0.1:31000", "127.0.0.1:9753",
                           "http://[::1]:8000/v1"}) {
    EXPECT_EQ(redacted_text(text), text);
  }
}

TEST(DiagnosisRedacted, PathsLoseTheirFolder) {
  EXPECT_EQ(redacted_text("/home/me/runs/load.json: levels[3].joined"),
            "load.json: levels[3].joined");
  EXPECT_EQ(redacted_text("(../secret-project/trace.json.gz)"), "(trace.json.gz)");
  EXPECT_EQ(redacted_text("runs/today/load.json:levels[3]"), "load.json:levels[3]");
  EXPECT_EQ(redacted_text("~/models/GLM-5"), "GLM-5");
  EXPECT_EQ(redacted_text("file:///srv/x/bench.json"), "bench.json");
}

TEST(DiagnosisRedacted, SecretsAreHidden) {
  EXPECT_EQ(redacted_text("nibble load --api-key abc123 --seed 1"),
            "nibble load --api-key *** --seed 1");
  EXPECT_EQ(redacted_text("--api-key=abc123"), "--api-key=***");
  EXPECT_EQ(redacted_text("Authorization: Bearer abc123"), "Authorization: Bearer ***");
  EXPECT_EQ(redacted_text("hf_token: abc"), "hf_token: ***");
  EXPECT_EQ(redacted_text("got sk-abcdefghijklmnopqrstuvwxyz back"), "got *** back");
  EXPECT_EQ(redacted_text("http://admin:pw@node7:8000/metrics?token=x"), "http://host1/metrics");
}

TEST(DiagnosisRedacted, OtherTextsStayAsTheyAre) {
  for (const char* text :
       {"905 tok/s at 54.9 FLOP/B, n/a", "meta-llama/Llama-3.1-8B", "2026-02-03T04:05:06Z at 12:30",
        "--max-num-seqs 256", "load.json: levels[3].joined.server_running", "key: memory",
        "moe.gate_up 256 x [2, 512, 6144]", "/v1/completions", "CUDA 12.8", "", " ", "a  b"}) {
    EXPECT_EQ(redacted_text(text), text);
  }
}

TEST(DiagnosisRedacted, NothingOfTheFixtureLeaksIntoPageJsonMarkdownOrTerminal) {
  const Document document = diagnosis_document(
      full_diagnosis(), {.command = "nibble diagnose --server http://node7:8000 --token qwerty"});
  const std::string all = render_html(document) + render_markdown(document) +
                          report_json(document).dump() + render_terminal(document, {.width = 80});
  for (const char* secret :
       {"node7", "sk-abcdef", "/srv/", "/home/me", "/models/", "admin", "qwerty", "monday"}) {
    EXPECT_FALSE(document_has(all, secret)) << secret;
  }
  EXPECT_TRUE(document_has(all, "host1/gpu4"));
  EXPECT_TRUE(document_has(document.command, "http://host1"));
}

TEST(DiagnosisRedacted, ShownWhereAskedFor) {
  const Document document = diagnosis_document(full_diagnosis(), {.show_hosts = true});
  EXPECT_TRUE(document_has(render_markdown(document), "node7"));
}

}  // namespace
}  // namespace nibble::diagnose
