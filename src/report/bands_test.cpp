// Bands, own numbers, leads, lists and details of a document, in every form that it takes.
#include <gtest/gtest.h>
#include <string>
#include <string_view>

#include "report/document.h"
#include "report/parts.h"
#include "report/terminal.h"

namespace nibble {
namespace {

bool page_has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Chart banded_chart() {
  return {.id = "load",
          .title = "Rate over load",
          .caption = "More is better",
          .x = {"Requests", true},
          .y = {"Rate, tok/s"},
          .series = {{.name = "Measured", .points = {{1, 40.5, "one"}, {2, 80.25, ""}}}}};
}

Document banded_document() {
  Document document{.title = "T"};
  document.sections.push_back({.heading = "Load", .charts = {banded_chart()}});
  return document;
}

TEST(Parts, BandsHaveARowEachAndOwnNumbersReplaceThePoints) {
  Chart chart = banded_chart();
  chart.bands = {{1, 1.5, "warm"}, {1.5, 2, "steady"}};
  const Table table = chart_table(chart);
  ASSERT_EQ(table.rows().size(), 5u);  // two points, a rule, two bands
  EXPECT_TRUE(table.rows()[2].empty());
  EXPECT_EQ(table.rows()[4][0].text, "steady");
  EXPECT_EQ(table.rows()[4][1].text, "1.500 to 2");

  Table own({{"what"}});
  own.row({"mine"});
  chart.numbers = own;
  ASSERT_EQ(chart_table(chart).rows().size(), 1u);
  EXPECT_EQ(chart_table(chart).rows()[0][0].text, "mine");
}

TEST(Parts, WordsOfAChartTellItsSeriesAndItsBandsWithNumbers) {
  Chart chart = banded_chart();
  chart.bands = {{1, 1.5, "warm"}};
  EXPECT_EQ(chart_words(chart),
            "Rate over load. More is better. Rate, tok/s over Requests. Measured: 40.50 at 1 to "
            "80.25 at 2, lowest 40.50 at 1, highest 80.25 at 2. Shaded along the x axis: warm from "
            "1 to 1.500");
  Chart bars{.id = "b", .kind = Chart::Kind::kBars, .title = "Bars.", .y = {"Time, ms"}};
  bars.series = {{.name = "a", .points = {{0, 1.5, "x"}, {0, 2, "y"}}}};
  EXPECT_EQ(chart_words(bars), "Bars. x 1.500, y 2");
  Chart empty{.title = "None"};
  empty.series = {{.name = "nothing"}};
  EXPECT_EQ(chart_words(empty), "None. nothing: no points");
}

TEST(ReportJson, HasBandsBoundsAndOwnNumbersWhereAChartHasThem) {
  Document document = banded_document();
  Chart& chart = document.sections[0].charts[0];
  chart.bands = {{1, 2, "all"}};
  chart.x.min = 0;
  chart.x.max = 3;
  chart.small = true;
  chart.numbers = Table({{"what"}});
  chart.numbers->row({"mine"}).rule();
  const Json json = report_json(document);
  const Json& written = json.find("charts")->as_array()[0];
  EXPECT_EQ(written.find("x")->find("max")->as_number(), 3);
  EXPECT_EQ(written.find("bands")->dump(0), R"([{"from":1,"to":2,"label":"all"}])");
  EXPECT_TRUE(written.find("small")->as_bool());
  EXPECT_EQ(written.find("numbers")->dump(0), R"({"columns":["what"],"rows":[["mine"]]})");
}

TEST(Report, LeadAndListsAreShownEverywhereAndDetailsOnlyOutsideTheTerminal) {
  Document document{.title = "T", .lead = {"Do it."}};
  document.sections = {{.heading = "Why", .lists = {{"Grounds", {"one", "two"}}}},
                       {.heading = "More", .paragraphs = {"Deep."}, .detail = true}};
  EXPECT_EQ(render_terminal(document, Style::plain()),
            "T\nDo it.\n\nWhy\nGrounds\n- one\n- two\n\nAlso in a --report: More.\n");
  EXPECT_EQ(render_markdown(document),
            "# T\n\nDo it.\n\n## Why\n\n### Grounds\n\n- one\n- two\n\n## More\n\nDeep.\n\n");
  const std::string html = render_html(document);
  EXPECT_TRUE(page_has(html, "<p class=\"lead\">Do it.</p>"));
  EXPECT_TRUE(page_has(html, "<h3>Grounds</h3>\n<ul class=\"prose\">\n<li>one</li>"));
  EXPECT_TRUE(page_has(html, "Deep."));
}

TEST(Html, FlagsStayOnOneLine) {
  Document document{.title = "T",
                    .lead = {"Use --max-num-seqs 256 -- not --" + std::string(60, 'x')}};
  const std::string html = render_html(document);
  EXPECT_TRUE(page_has(html, "Use <span class=\"flag\">--max-num-seqs</span> 256 -- not --xx"));
  EXPECT_EQ(html.find("class=\"flag\""), html.rfind("class=\"flag\""));
}

}  // namespace
}  // namespace nibble
