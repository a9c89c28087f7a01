#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <string>
#include <unistd.h>

#include "base/file.h"
#include "report/document.h"
#include "report/escape.h"
#include "report/parts.h"
#include "report/terminal.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++found;
  }
  return found;
}

// A folder of its own for one test, removed with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ =
        fs::temp_directory_path() / fmt::format("nibble-report-{}-{}", test->name(), ::getpid());
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~ScratchFolder() { fs::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string text_of(const fs::path& path) {
  const Result<std::string> text = read_file(path, 64 << 20);
  EXPECT_TRUE(text.ok()) << path;
  return text.ok() ? *text : "";
}

Chart small_chart() {
  return {.id = "load",
          .title = "Rate over load",
          .caption = "More is better",
          .x = {"Requests", true},
          .y = {"Rate, tok/s", false},
          .series = {{.name = "Measured", .points = {{1, 40.5, "one"}, {2, 80.25, ""}}}}};
}

Document small_document() {
  Document document;
  document.title = "A model on a machine";
  document.sections.push_back({.heading = "Load", .charts = {small_chart()}});
  return document;
}

constexpr std::string_view kHostile = "<script>alert(1)</script>";

// Every text that a document has, hostile.
Document hostile_document() {
  const std::string text(kHostile);
  Table table({{text}});
  table.row({text});
  Chart chart{.id = text, .title = text, .caption = text, .x = {text}, .y = {text}};
  chart.series = {{.name = text, .points = {{1, 1, text}}}, {.name = text}};
  Finding finding{.id = text, .title = text, .value = 1.0, .unit = text, .verdict = text};
  finding.formula = text;
  finding.inputs = {{text, 1, text, text}};
  finding.assumptions = {text};
  finding.sentence = text;
  Finding missing{.id = text, .title = text, .missing = text};
  Document document{.title = text, .subtitle = text, .facts = {{text, text}}, .command = text};
  document.sections.push_back({.heading = text,
                               .paragraphs = {text},
                               .charts = {chart},
                               .tables = {{text, table}},
                               .findings = {finding, missing},
                               .bullets = {text}});
  return document;
}

TEST(Parts, ChartTableHasARowAPointAndOnlyTheColumnsThatAreFilled) {
  const Table table = chart_table(small_chart());
  ASSERT_EQ(table.columns().size(), 3u);  // one series: no column for it
  EXPECT_EQ(table.columns()[0].title, "Point");
  EXPECT_EQ(table.columns()[1].title, "Requests");
  EXPECT_EQ(table.columns()[2].title, "Rate, tok/s");
  ASSERT_EQ(table.rows().size(), 2u);
  EXPECT_EQ(table.rows()[0][0].text, "one");
  EXPECT_EQ(table.rows()[0][2].text, "40.50");
  EXPECT_EQ(table.rows()[1][1].text, "2");

  Chart bars{.id = "bars", .kind = Chart::Kind::kBars, .y = {"Time, ms"}};
  bars.series = {{.name = "a", .points = {{0, 1, "x"}}}, {.name = "b", .points = {{0, 2, "x"}}}};
  const Table of_bars = chart_table(bars);
  ASSERT_EQ(of_bars.columns().size(), 3u);  // series, part, value: x is unused
  EXPECT_EQ(of_bars.columns()[2].title, "Time, ms");
  EXPECT_EQ(of_bars.rows()[1][0].text, "b");

  EXPECT_TRUE(chart_table(Chart{}).rows().empty());
}

TEST(Parts, FindingAnswerIsTheValueTheVerdictOrTheReason) {
  EXPECT_EQ(finding_answer({.value = 0.5, .unit = "ratio"}), "50.0 %");
  EXPECT_EQ(finding_answer({.value = 0.5, .unit = "ratio", .verdict = "fits"}), "50.0 %, fits");
  EXPECT_EQ(finding_answer({.verdict = "fits"}), "fits");
  EXPECT_EQ(finding_answer({.missing = "no clocks"}), "no value: no clocks");
  EXPECT_EQ(finding_answer({}), "");
}

TEST(ReportJson, HoldsTheDataAndEveryChartPoint) {
  Document document = small_document();
  document.data = Json::object({{"schema", "nibble.ledger/1"}});
  const Result<Json> expected = Json::parse(R"({
    "schema": "nibble.ledger/1",
    "charts": [{
      "id": "load", "kind": "xy", "title": "Rate over load", "caption": "More is better",
      "x": {"title": "Requests", "logarithmic": true},
      "y": {"title": "Rate, tok/s", "logarithmic": false},
      "series": [{
        "name": "Measured", "mark": "line_points", "dashed": false, "label_points": false,
        "points": [{"x": 1.0, "y": 40.5, "label": "one"}, {"x": 2.0, "y": 80.25, "label": ""}]
      }]
    }]})",
                                            "expected");
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  // Compared as text: 1.0 and 1 are one number in JSON.
  const Result<Json> written = Json::parse(report_json(document).dump(), "report.json");
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(written->dump(), expected->dump());
}

TEST(ReportJson, WithoutDataIsStillAnObjectAndNotANumberIsNull) {
  Document document = small_document();
  document.sections[0].charts[0].series[0].points[0].y = std::numeric_limits<double>::quiet_NaN();
  const Result<Json> written = Json::parse(report_json(document).dump(), "report.json");
  ASSERT_TRUE(written.ok());
  const Json& series = written->find("charts")->as_array()[0].find("series")->as_array()[0];
  EXPECT_TRUE(series.find("points")->as_array()[0].find("y")->is_null());
}

TEST(Html, IsSelfContainedAndForbidsRequests) {
  const std::string html = render_html(small_document());
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(
      contains(html, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';"));
  EXPECT_FALSE(contains(html, " src="));
  EXPECT_EQ(count(html, "<link "), 1u);  // the empty icon
  EXPECT_TRUE(contains(html, "<link rel=\"icon\" href=\"data:,\">"));
  EXPECT_EQ(count(html, "Chart.js v3"), 1u);  // one copy inlined
}

TEST(Html, ScriptsEndWhereTheyShould) {
  // JSON block, Chart.js, labels, charts, report: nothing inside them closes or opens a script.
  const std::string html = render_html(hostile_document());
  EXPECT_EQ(count(html, "<script"), 5u);
  EXPECT_EQ(count(html, "</script"), 5u);
  EXPECT_EQ(count(html, "<!--"), 0u);
}

TEST(Html, WithoutChartsCarriesNoChartLibrary) {
  Document document;
  document.title = "Nothing to draw";
  const std::string html = render_html(document);
  EXPECT_FALSE(contains(html, "Chart.js v3"));
  EXPECT_LT(html.size(), 40'000u);
}

TEST(Html, DrawsFromExactlyTheChartsOfTheJson) {
  const Document document = hostile_document();
  const std::string html = render_html(document);
  const std::string_view opening = "<script type=\"application/json\" id=\"nibble-charts\">";
  const std::size_t start = html.find(opening) + opening.size();
  ASSERT_TRUE(contains(html, opening));
  const std::string block = html.substr(start, html.find("</script>", start) - start);
  const Result<Json> drawn = Json::parse(block, "block");
  ASSERT_TRUE(drawn.ok()) << drawn.error().message;
  EXPECT_EQ(drawn->dump(), report_json(document).find("charts")->dump());
}

TEST(Html, EveryTextIsEscaped) {
  const std::string html = render_html(hostile_document());
  EXPECT_FALSE(contains(html, kHostile));
  EXPECT_FALSE(contains(html, "alert(1)</script>"));
  // title, h1, subtitle, fact x2, heading, paragraph, chart (id, h3, caption, aria-label x2,
  // region), its table, table (caption, region, th, td), findings, bullet, command: far more
  // than 30.
  EXPECT_GE(count(html, html_escape(kHostile)), 30u);
}

TEST(Html, FindingShowsItsSentenceFirstAndItsGrounds) {
  Document document;
  document.title = "t";
  Finding finding{.id = "a.b", .title = "Intensity", .value = 54.86, .unit = "FLOP/B"};
  finding.formula = "2*m*n*k / bytes";
  finding.inputs = {{"m", 16, "rows", "case: kernels[1].m"}};
  finding.assumptions = {"weights are read once"};
  finding.confidence = Confidence::kLikely;
  finding.sentence = "It does 54.86 FLOP per byte.";
  document.sections.push_back({.heading = "Findings", .findings = {finding}});
  const std::string html = render_html(document);
  std::size_t last = 0;
  for (const char* part :
       {"It does 54.86 FLOP per byte.", "54.86 FLOP/B", "<details>", "2*m*n*k / bytes", "16 rows",
        "case: kernels[1].m", "weights are read once", "likely: rests on an assumption"}) {
    const std::size_t at = html.find(part, last);
    ASSERT_NE(at, std::string::npos) << part << " is missing or out of order";
    last = at;
  }
}

TEST(Html, TableKeepsAlignmentEmphasisAndRules) {
  Table table({{"op"}, {"time", Align::kRight}});
  table.row({"a", {"1 us", Emphasis::kBad}}).rule().row({"b", "2 us"});
  Document document;
  document.sections.push_back({.heading = "T", .tables = {{"Times", table}}});
  const std::string html = render_html(document);
  EXPECT_TRUE(contains(html, "<th class=\"right\">time</th>"));
  EXPECT_TRUE(contains(html, "<td class=\"bad right\">1 us</td>"));
  EXPECT_EQ(count(html, "<tbody>"), 2u);
  EXPECT_EQ(count(html, "</tbody>"), 2u);
}

TEST(Html, TheDetailBehindHeadlinesOpensOnDemand) {
  Document document;
  document.sections.push_back({.heading = "Findings"});
  std::vector<Finding>& findings = document.sections[0].findings;
  findings.assign(12, Finding{.id = "a", .sentence = "One."});
  EXPECT_FALSE(contains(render_html(document), "more findings"));
  for (int more = 0; more < 3; ++more) {
    findings.insert(findings.begin(), {.id = "b", .sentence = "Two.", .headline = false});
  }
  const std::string html = render_html(document);
  EXPECT_TRUE(contains(html, "<summary>3 more findings behind these</summary>"));
  EXPECT_LT(html.find("One."), html.find("Two."));
  EXPECT_EQ(count(html, "<article"), 15u);
  EXPECT_EQ(count(html, "<details"), 16u);  // one a finding, and the rest
  EXPECT_EQ(count(html, "</details>"), 16u);
  EXPECT_EQ(count(html, "<div class=\"findings\">"), 2u);
}

TEST(Html, SameDocumentGivesTheSameBytes) {
  EXPECT_EQ(render_html(hostile_document()), render_html(hostile_document()));
}

TEST(Markdown, ChartsBecomeTables) {
  Document document = small_document();
  document.subtitle = "fast_enough";
  document.facts = {{"Model", "GLM-5"}};
  document.sections[0].bullets = {"measure `x`"};
  document.command = "nibble analyze";
  EXPECT_EQ(render_markdown(document),
            "# A model on a machine\n\n"
            "fast_enough\n\n"
            "- **Model**: GLM-5\n\n"
            "## Load\n\n"
            "### Rate over load\n\n"
            "More is better\n\n"
            "| Point | Requests | Rate, tok/s |\n"
            "| --- | ---: | ---: |\n"
            "| one | 1 | 40.50 |\n"
            "|  | 2 | 80.25 |\n\n"
            "- measure \\`x\\`\n\n"
            "Made by `nibble analyze`\n");
}

TEST(Markdown, FindingHasItsGrounds) {
  Document document;
  document.title = "t";
  Finding finding{.id = "a", .title = "Share", .value = 0.293, .unit = "ratio"};
  finding.formula = "a / b";
  finding.inputs = {{"a", 9360, "us", "assumed"}};
  finding.assumptions = {"no overlap"};
  finding.sentence = "About 29 %.";
  document.sections.push_back({.findings = {finding}});
  EXPECT_EQ(render_markdown(document),
            "# t\n\n"
            "#### Share\n\n"
            "About 29 %.\n\n"
            "- Value: 29.3 %\n"
            "- Formula: `a / b`\n"
            "- Inputs:\n"
            "  - `a` = 9.360 ms (assumed)\n"
            "- Assumes: no overlap\n"
            "- Confidence: derived (arithmetic on the given numbers, right if they are)\n\n");
}

TEST(Markdown, HostileTextStandsInCodeOrBehindABackslash) {
  std::string text = render_markdown(hostile_document());
  const std::string code = markdown_code(kHostile);
  EXPECT_EQ(count(text, code), 3u);  // formula, input's name, command
  for (std::size_t at = text.find(code); at != std::string::npos; at = text.find(code, at)) {
    text.erase(at, code.size());
  }
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    ASSERT_GT(at, 0u);
    EXPECT_EQ(text[at - 1], '\\') << text.substr(at - 1, 40);
  }
}

TEST(WriteReport, WritesThreeFilesAndNothingElse) {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path() / "new" / "report";  // made, parents included
  const Result<fs::path> page = write_report(small_document(), folder);
  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_EQ(*page, folder / "report.html");
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  EXPECT_EQ(names, (std::set<std::string>{"report.html", "report.json", "report.md"}));
  EXPECT_EQ(text_of(folder / "report.html"), render_html(small_document()));
  EXPECT_EQ(text_of(folder / "report.md"), render_markdown(small_document()));
  EXPECT_EQ(text_of(folder / "report.json"), report_json(small_document()).dump() + "\n");
}

TEST(WriteReport, ReplacesAnOldReportAsideAndLeavesOtherFiles) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "report.html") << "old";
  std::ofstream(scratch.path() / "notes.txt") << "mine";
  // Who has the old page open keeps the old text: the new one is another file, renamed over it.
  std::ifstream open_page(scratch.path() / "report.html");
  ASSERT_TRUE(write_report(small_document(), scratch.path()).ok());
  std::string seen;
  std::getline(open_page, seen);
  EXPECT_EQ(seen, "old");
  EXPECT_EQ(text_of(scratch.path() / "report.html"), render_html(small_document()));
  EXPECT_EQ(text_of(scratch.path() / "notes.txt"), "mine");
}

TEST(WriteReport, FolderThatIsAFileIsOneSentence) {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "report";
  std::ofstream(file) << "text";
  const Result<fs::path> page = write_report(small_document(), file);
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.error().kind, ErrorKind::kInput);
  EXPECT_EQ(page.error().message, "the report folder " + file.string() +
                                      " is a file; name a folder, or one that does not exist yet");
  EXPECT_EQ(text_of(file), "text");

  const Result<fs::path> below = write_report(small_document(), file / "deeper");
  ASSERT_FALSE(below.ok());
  EXPECT_EQ(below.error().kind, ErrorKind::kInput);
  EXPECT_TRUE(contains(below.error().message, "cannot make the report folder"));
  EXPECT_TRUE(contains(below.error().message, (file / "deeper").string()));
}

TEST(WriteReport, TargetThatIsAFolderIsAnError) {
  const ScratchFolder scratch;
  fs::create_directories(scratch.path() / "report.md" / "inside");
  const Result<fs::path> page = write_report(small_document(), scratch.path());
  ASSERT_FALSE(page.ok());
  EXPECT_TRUE(contains(page.error().message, "report.md")) << page.error().message;
  EXPECT_FALSE(fs::exists(scratch.path() / "report.html"));  // the page comes last
}

TEST(Terminal, ShowsHeadlinesTablesAndBulletsAndSaysWhatIsLeftOut) {
  Document document{.title = "T", .subtitle = "S", .facts = {{"Model", "M"}, {"Load", "L"}}};
  Table table({{"op"}, {"time", Align::kRight}});
  table.row({"a", "10 us"});
  document.sections.push_back(
      {.heading = "H",
       .paragraphs = {"P."},
       .tables = {{"", table}},
       .findings = {{.id = "a", .point = 3, .title = "Answer", .sentence = "It is 42."},
                    {.id = "b", .title = "Longer answer", .sentence = "Longer answer: it is 43."},
                    {.id = "c", .title = "Detail", .sentence = "Hidden.", .headline = false}},
       .bullets = {"B"}});
  EXPECT_EQ(render_terminal(document, Style::plain()),
            "T\nS\nModel  M\nLoad   L\n\nH\nP.\nop   time\n--  -----\na   10 us\n"
            " 3. Answer: It is 42.\n- Longer answer: it is 43.\n"
            "1 more findings behind these are in --json and in a --report.\n- B\n");
}

TEST(Report, ControlCharactersOfNamesAreNotPassedOn) {
  Document document{.title = "a\x1b[2Jb\ac"};
  document.sections.push_back(
      {.heading = "h\n", .findings = {{.id = "f", .title = "t\x1b", .sentence = "s\x7f"}}});
  for (const std::string& text : {render_html(document), render_markdown(document),
                                  render_terminal(document, Style::plain())}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find('\a'), std::string::npos);
    EXPECT_EQ(text.find('\x7f'), std::string::npos);
    EXPECT_TRUE(contains(text, "2Jb?c"));
  }
}

}  // namespace
}  // namespace nibble
