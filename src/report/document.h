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
  std::string label;   // in the tooltip, and beside the point when `label_points` is set
};

struct ChartSeries {
  enum class Mark { kLine, kPoints, kLinePoints };
  std::string name;
  std::vector<ChartPoint> points;
  Mark mark = Mark::kLinePoints;
  bool dashed = false;
};

struct ChartAxis {
  std::string title;  // with its unit
  bool logarithmic = false;
};

// kXy: points and lines over a numeric x axis. kWaterfall: each bar starts where the last ended
// (points' y are the steps, labels the names; x is unused; the last bar is the total).
// kBars: horizontal bars, one a point (label, y).
struct Chart {
  enum class Kind { kXy, kWaterfall, kBars };
  std::string id;       // unique in the document: "roofline"
  Kind kind = Kind::kXy;
  std::string title;
  std::string caption;  // what to see in it
  ChartAxis x, y;
  std::vector<ChartSeries> series;
};

struct Section {
  std::string heading;
  std::vector<std::string> paragraphs;
  std::vector<Chart> charts;
  std::vector<std::pair<std::string, Table>> tables;  // caption, table
  std::vector<Finding> findings;
  std::vector<std::string> bullets;
};

struct Document {
  std::string title;
  std::string subtitle;
  std::vector<std::pair<std::string, std::string>> facts;  // "Model" -> "GLM-5-NVFP4, ..."
  std::vector<Section> sections;
  std::string command;   // that made it
  Json data;             // report.json: the command's whole JSON; charts' data sets are added by id
};

std::string render_html(const Document& document);      // self-contained
std::string render_markdown(const Document& document);  // charts become tables
// `data` with a member "charts": [{id, kind, title, x, y, series: [{name, points: [{x, y, label}]}]}].
Json report_json(const Document& document);

// Writes report.html, report.md and report.json into `directory` (made if absent), each aside and
// renamed. Returns the path of report.html.
Result<std::filesystem::path> write_report(const Document& document,
                                           const std::filesystem::path& directory);

}  // namespace nibble
