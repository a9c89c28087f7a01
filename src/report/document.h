// A report as a document: sections of sentences, findings, tables and charts. Knows nothing of
// what it reports; whoever has numbers builds a Document.
//
//   Document document{.title = "GLM-5-NVFP4 on 8 x RTX PRO 6000"};
//   document.sections.push_back({.heading = "The step", .charts = {waterfall}});
//   NIBBLE_RETURN_IF_ERROR(write_report(document, "nibble-report"));
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/json.h"
#include "base/result.h"
#include "base/table.h"

namespace nibble {

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::string label;  // in the tooltip, and beside the point when `label_points` is set
};

struct ChartSeries {
  enum class Mark { kLine, kPoints, kLinePoints };
  std::string name;
  std::vector<ChartPoint> points;
  Mark mark = Mark::kLinePoints;
  bool dashed = false;
  // kXy: writes the points' labels beside them, as many as fit without touching each other.
  bool label_points = false;
};

struct ChartAxis {
  std::string title;  // with its unit
  bool logarithmic = false;
  std::optional<double> min, max;  // of a linear kXy axis; default: what its points need
};

// A part of a kXy chart's x axis, shaded behind the data: a level's window, a phase.
struct ChartBand {
  double from = 0;
  double to = 0;
  std::string label;  // above it, where there is room
};

// kXy: points and lines over a numeric x axis. kWaterfall: each bar starts where the last ended
// (points' y are the steps, labels the names; x is unused; the last point is the total, whose bar
// starts at 0). kBars: horizontal bars, one a point (label, y). The bars of both lie along the axis
// `y`; with several series, every series has the same labels in the same order.
struct Chart {
  enum class Kind { kXy, kWaterfall, kBars };
  std::string id;  // unique in the document: "roofline"
  Kind kind = Kind::kXy;
  std::string title;
  std::string caption;  // what to see in it
  ChartAxis x, y;
  std::vector<ChartSeries> series;
  std::vector<ChartBand> bands = {};
  bool small = false;  // half as high: one of several over the same axis, whose areas line up
  // What the page and Markdown show as the chart's numbers, instead of a row a point: for charts of
  // more points than anybody reads. report.json has all points.
  std::optional<Table> numbers = {};
};

// Bullets under a heading of their own.
struct BulletList {
  std::string heading;
  std::vector<std::string> bullets;
};

// A section is drawn in the order of its fields. All texts are plain: every renderer escapes them.
struct Section {
  std::string heading;
  std::vector<std::string> paragraphs;
  std::vector<Chart> charts;
  std::vector<std::pair<std::string, Table>> tables;  // caption, table
  std::vector<Finding> findings;
  std::vector<std::string> bullets;
  std::vector<BulletList> lists = {};
  bool detail = false;  // of the report: the terminal only names it
};

struct Document {
  std::string title;
  std::string subtitle;
  std::vector<std::string> lead = {};  // sentences under the subtitle: what matters most
  std::vector<std::pair<std::string, std::string>> facts;  // "Model" -> "GLM-5-NVFP4, ..."
  std::vector<Section> sections;
  std::string command;  // that made it
  Json data;            // report.json: the command's whole JSON; charts' data sets are added by id
};

std::string render_html(const Document& document);      // self-contained
std::string render_markdown(const Document& document);  // charts become tables
// The document's charts: [{id, kind, title, caption, x: {title, logarithmic}, y: {...}, series:
// [{name, mark, dashed, label_points, points: [{x, y, label}]}]}], and where a chart has them
// "min" and "max" of an axis, "bands": [{from, to, label}], "small": true and "numbers": {columns,
// rows}. The page draws from exactly this.
Json charts_json(const Document& document);
// `data` (an object, or null for an empty one) with a member "charts" that holds charts_json.
Json report_json(const Document& document);

// Writes report.html, report.md and report.json into `directory` (made if absent), each aside and
// renamed. Returns the path of report.html.
Result<std::filesystem::path> write_report(const Document& document,
                                           const std::filesystem::path& directory);

}  // namespace nibble
