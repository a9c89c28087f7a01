#include "report/parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/units.h"

namespace nibble {
namespace {

bool any_point_label(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(), [](const ChartSeries& series) {
    return std::any_of(series.points.begin(), series.points.end(),
                       [](const ChartPoint& point) { return !point.label.empty(); });
  });
}

}  // namespace

Table chart_table(const Chart& chart) {
  const bool is_xy = chart.kind == Chart::Kind::kXy;
  const bool has_series = chart.series.size() > 1;
  const bool has_label = !is_xy || any_point_label(chart);
  const auto title_or = [](const std::string& title, const char* otherwise) {
    return title.empty() ? std::string(otherwise) : title;
  };
  std::vector<Column> columns;
  if (has_series) columns.push_back({"Series"});
  if (has_label) columns.push_back({is_xy ? "Point" : "Part"});
  if (is_xy) columns.push_back({title_or(chart.x.title, "x"), Align::kRight});
  columns.push_back({title_or(chart.y.title, is_xy ? "y" : "Value"), Align::kRight});

  Table table(std::move(columns));
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      std::vector<Cell> cells;
      if (has_series) cells.emplace_back(series.name);
      if (has_label) cells.emplace_back(point.label);
      if (is_xy) cells.emplace_back(format_number(point.x));
      cells.emplace_back(format_number(point.y));
      table.row(std::move(cells));
    }
  }
  return table;
}

std::string finding_answer(const Finding& finding) {
  if (!finding.value && !finding.missing.empty()) return "no value: " + finding.missing;
  std::string answer = finding.value ? format_quantity(*finding.value, finding.unit) : "";
  if (!answer.empty() && !finding.verdict.empty()) answer += ", ";
  return answer + finding.verdict;
}

std::string_view confidence_sentence(Confidence confidence) {
  switch (confidence) {
    case Confidence::kDerived:
      return "arithmetic on the given numbers, right if they are";
    case Confidence::kLikely:
      return "rests on an assumption that usually holds";
    case Confidence::kPossible:
      return "consistent with the numbers; other explanations are too";
  }
  NIBBLE_CHECK(false);
  return "";
}

}  // namespace nibble
