#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "report/document.h"

namespace nibble {
namespace {

std::string_view to_string(Chart::Kind kind) {
  switch (kind) {
    case Chart::Kind::kXy:
      return "xy";
    case Chart::Kind::kWaterfall:
      return "waterfall";
    case Chart::Kind::kBars:
      return "bars";
  }
  NIBBLE_CHECK(false);
  return "";
}

std::string_view to_string(ChartSeries::Mark mark) {
  switch (mark) {
    case ChartSeries::Mark::kLine:
      return "line";
    case ChartSeries::Mark::kPoints:
      return "points";
    case ChartSeries::Mark::kLinePoints:
      return "line_points";
  }
  NIBBLE_CHECK(false);
  return "";
}

Json axis_json(const ChartAxis& axis) {
  Json json = Json::object({{"title", axis.title}, {"logarithmic", axis.logarithmic}});
  if (axis.min) json.set("min", *axis.min);
  if (axis.max) json.set("max", *axis.max);
  return json;
}

Json bands_json(const std::vector<ChartBand>& bands) {
  Json json = Json::array();
  for (const ChartBand& band : bands) {
    json.push(Json::object({{"from", band.from}, {"to", band.to}, {"label", band.label}}));
  }
  return json;
}

Json numbers_json(const Table& table) {
  Json columns = Json::array();
  for (const Column& column : table.columns()) columns.push(column.title);
  Json rows = Json::array();
  for (const std::vector<Cell>& row : table.rows()) {
    if (row.empty()) continue;  // a rule
    Json cells = Json::array();
    for (const Cell& cell : row) cells.push(cell.text);
    rows.push(std::move(cells));
  }
  return Json::object({{"columns", std::move(columns)}, {"rows", std::move(rows)}});
}

Json series_json(const ChartSeries& series) {
  Json points = Json::array();
  for (const ChartPoint& point : series.points) {
    points.push(Json::object({{"x", point.x}, {"y", point.y}, {"label", point.label}}));
  }
  return Json::object({{"name", series.name},
                       {"mark", to_string(series.mark)},
                       {"dashed", series.dashed},
                       {"label_points", series.label_points},
                       {"points", std::move(points)}});
}

Json chart_json(const Chart& chart) {
  Json series = Json::array();
  for (const ChartSeries& one : chart.series) series.push(series_json(one));
  Json json = Json::object({{"id", chart.id},
                            {"kind", to_string(chart.kind)},
                            {"title", chart.title},
                            {"caption", chart.caption},
                            {"x", axis_json(chart.x)},
                            {"y", axis_json(chart.y)},
                            {"series", std::move(series)}});
  if (!chart.bands.empty()) json.set("bands", bands_json(chart.bands));
  if (chart.small) json.set("small", true);
  if (chart.numbers) json.set("numbers", numbers_json(*chart.numbers));
  return json;
}

Result<> make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  if (std::filesystem::exists(directory, error) &&
      !std::filesystem::is_directory(directory, error)) {
    return input_error(
        "the report folder {} is a file; name a folder, or one that does not exist yet",
        directory.string());
  }
  std::filesystem::create_directories(directory, error);
  if (error) {
    return input_error("cannot make the report folder {}: {}; name a folder that you may write to",
                       directory.string(), error.message());
  }
  return {};
}

}  // namespace

Json charts_json(const Document& document) {
  Json charts = Json::array();
  for (const Section& section : document.sections) {
    for (const Chart& chart : section.charts) charts.push(chart_json(chart));
  }
  return charts;
}

Json report_json(const Document& document) {
  NIBBLE_CHECK(document.data.is_null() || document.data.is_object());
  Json json = document.data;
  json.set("charts", charts_json(document));
  return json;
}

Result<std::filesystem::path> write_report(const Document& document,
                                           const std::filesystem::path& directory) {
  NIBBLE_RETURN_IF_ERROR(make_directory(directory));
  std::filesystem::path page = directory / "report.html";
  const std::pair<std::filesystem::path, std::string> files[] = {
      {directory / "report.json", report_json(document).dump() + "\n"},
      {directory / "report.md", render_markdown(document)},
      {page, render_html(document)},
  };
  NIBBLE_RETURN_IF_ERROR(write_files(files));
  return page;
}

}  // namespace nibble
