#include "report/parts.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
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

constexpr std::size_t kMostSaid = 12;  // series, bars or bands that anybody listens to

std::string more_words(std::size_t count) {
  return count > kMostSaid ? fmt::format("; {} more", count - kMostSaid) : "";
}

// "measured: 41 at 1 to 2120 at 256, lowest 41 at 1, highest 2120 at 256".
std::string series_words(const ChartSeries& series) {
  std::vector<const ChartPoint*> points;
  for (const ChartPoint& point : series.points) {
    if (std::isfinite(point.x) && std::isfinite(point.y)) points.push_back(&point);
  }
  if (points.empty()) return series.name + ": no points";
  const auto at = [](const ChartPoint& point) {
    return fmt::format("{} at {}", format_number(point.y), format_number(point.x));
  };
  if (points.size() == 1) return fmt::format("{}: {}", series.name, at(*points.front()));
  const auto [low, high] = std::minmax_element(
      points.begin(), points.end(),
      [](const ChartPoint* one, const ChartPoint* other) { return one->y < other->y; });
  const std::string range = fmt::format("lowest {}, highest {}", at(**low), at(**high));
  if (series.mark == ChartSeries::Mark::kPoints) {
    return fmt::format("{}: {} points, {}", series.name, points.size(), range);
  }
  return fmt::format("{}: {} to {}, {}", series.name, at(*points.front()), at(*points.back()),
                     range);
}

// "KV cache 0.3180, measured 31.90".
std::string bars_words(const Chart& chart, const ChartSeries& series) {
  std::string words = chart.series.size() > 1 ? series.name + ": " : "";
  for (std::size_t at = 0; at < std::min(series.points.size(), kMostSaid); ++at) {
    const ChartPoint& point = series.points[at];
    words += fmt::format("{}{} {}", at > 0 ? ", " : "", point.label, format_number(point.y));
  }
  return words + more_words(series.points.size());
}

std::string bands_words(const Chart& chart) {
  std::string words = "Shaded along the x axis: ";
  for (std::size_t at = 0; at < std::min(chart.bands.size(), kMostSaid); ++at) {
    const ChartBand& band = chart.bands[at];
    words += fmt::format("{}{} from {} to {}", at > 0 ? ", " : "", band.label,
                         format_number(band.from), format_number(band.to));
  }
  return words + more_words(chart.bands.size());
}

// A sentence ends with its full stop, whoever wrote it.
void say(std::string& words, const std::string& sentence) {
  if (sentence.empty()) return;
  if (!words.empty()) words += words.back() == '.' ? " " : ". ";
  words += sentence;
}

void add_bands(Table& table, const Chart& chart, bool has_series, bool has_label) {
  if (chart.bands.empty()) return;
  table.rule();
  for (const ChartBand& band : chart.bands) {
    std::vector<Cell> cells;
    if (has_series) cells.emplace_back("shaded");
    if (has_label) cells.emplace_back(band.label);
    cells.emplace_back(fmt::format("{} to {}", format_number(band.from), format_number(band.to)));
    cells.emplace_back("");
    table.row(std::move(cells));
  }
}

}  // namespace

std::string chart_words(const Chart& chart) {
  std::string words;
  say(words, chart.title);
  say(words, chart.caption);
  const bool is_xy = chart.kind == Chart::Kind::kXy;
  if (is_xy && (!chart.x.title.empty() || !chart.y.title.empty())) {
    say(words, fmt::format("{} over {}", chart.y.title, chart.x.title));
  }
  for (std::size_t at = 0; at < std::min(chart.series.size(), kMostSaid); ++at) {
    const ChartSeries& series = chart.series[at];
    say(words, is_xy ? series_words(series) : bars_words(chart, series));
  }
  if (chart.series.size() > kMostSaid) {
    say(words, fmt::format("{} more series", chart.series.size() - kMostSaid));
  }
  if (!chart.bands.empty()) say(words, bands_words(chart));
  return words;
}

Table chart_table(const Chart& chart) {
  if (chart.numbers) return *chart.numbers;
  const bool is_xy = chart.kind == Chart::Kind::kXy;
  const bool has_series = chart.series.size() > 1;
  const bool has_label = !is_xy || any_point_label(chart) || !chart.bands.empty();
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
  if (is_xy) add_bands(table, chart, has_series, has_label);
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
