// What was seen over time under the load: small charts over one clock, grouped by what is measured.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "diagnose/document_parts.h"
#include "telemetry/signal.h"

namespace nibble::diagnose {
namespace {

constexpr std::size_t kMostSeries = 8;  // as many colours as there are
constexpr std::size_t kFewSeries = 3;   // of one kind, each named

// "node7:9753/gpu12.power" -> "gpu".
std::string family_of(std::string_view name) {
  std::string_view owner = telemetry::owner_of(name);
  const std::size_t slash = owner.rfind('/');
  if (slash != std::string_view::npos) owner.remove_prefix(slash + 1);
  while (!owner.empty() && owner.back() >= '0' && owner.back() <= '9') owner.remove_suffix(1);
  return std::string(owner);
}

struct SignalGroup {
  std::string key;
  std::string title;
  std::string axis;
  std::vector<const Series*> series;
};

struct KnownGroup {
  std::string_view unit, family, title, axis;
};
// The order is that of the page. An empty family: of any.
constexpr KnownGroup kKnownGroups[] = {
    {"tok/s", "", "Tokens per second", "rate (tok/s)"},
    {"", "server", "Requests by the server's own count", "requests (count)"},
    {"requests", "", "Requests", "requests (count)"},
    {"%", "server", "The server's shares", "share (%)"},
    {"W", "", "Power", "power (W)"},
    {"%", "gpu", "Activity of the GPUs", "share of the time (%)"},
    {"%", "", "Activity of the processors", "share of the time (%)"},
    {"MHz", "", "Clocks", "clock (MHz)"},
    {"C", "", "Temperature", "temperature (C)"},
    {"ms", "", "Times", "time (ms)"},
};

SignalGroup group_for(const Series& series) {
  const std::string family = family_of(series.name);
  for (const KnownGroup& known : kKnownGroups) {
    if (known.unit != series.unit) continue;
    if (!known.family.empty() && known.family != family) continue;
    return {.key = std::string(known.title),
            .title = std::string(known.title),
            .axis = std::string(known.axis),
            .series = {}};
  }
  const std::string what(telemetry::quantity_of(series.name));
  // Names of others' signals: the axis has room for a few words.
  constexpr std::size_t kWidestName = 18;
  constexpr std::size_t kWidestUnit = 8;
  const std::string unit = series.unit.empty() ? "count" : printable(series.unit, kWidestUnit);
  return {.key = family + "\n" + what + "\n" + series.unit,
          .title = capitalised(family.empty() ? what : fmt::format("{}: {}", family, what)),
          .axis = fmt::format("{} ({})", printable(what, kWidestName), unit),
          .series = {}};
}

std::size_t order_of(const SignalGroup& group) {
  const auto* found =
      std::find_if(std::begin(kKnownGroups), std::end(kKnownGroups),
                   [&group](const KnownGroup& known) { return known.title == group.key; });
  return static_cast<std::size_t>(found - std::begin(kKnownGroups));
}

void put_into(std::vector<SignalGroup>& groups, SignalGroup group, const Series& series) {
  auto found = std::find_if(groups.begin(), groups.end(),
                            [&group](const SignalGroup& one) { return one.key == group.key; });
  if (found == groups.end()) found = groups.insert(groups.end(), std::move(group));
  found->series.push_back(&series);
}

// Many GPUs with several signals each: a chart a signal.
std::vector<SignalGroup> split_crowded(const std::vector<SignalGroup>& groups) {
  std::vector<SignalGroup> all;
  for (const SignalGroup& group : groups) {
    if (group.series.size() <= kMostSeries) {
      all.push_back(group);
      continue;
    }
    for (const Series* series : group.series) {
      SignalGroup part = group;
      part.series.clear();
      const std::string what(telemetry::quantity_of(series->name));
      part.key += "\n" + what;
      part.title += ": " + what;
      put_into(all, std::move(part), *series);
    }
  }
  return all;
}

bool is_drawn(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

std::vector<SignalGroup> groups_of(const Evidence& evidence) {
  std::vector<SignalGroup> groups;
  for (const Series& series : evidence.series) {
    if (std::none_of(series.points.begin(), series.points.end(), is_drawn)) continue;
    put_into(groups, group_for(series), series);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const SignalGroup& a, const SignalGroup& b) {
    return order_of(a) < order_of(b);
  });
  return split_crowded(groups);
}

// The levels' windows; where they are not known, the levels themselves.
std::vector<ChartBand> bands_of(const Evidence& evidence) {
  std::vector<ChartBand> bands;
  const auto add = [&bands](double from, double to, const std::string& label) {
    if (std::isfinite(from) && std::isfinite(to) && to > from) bands.push_back({from, to, label});
  };
  for (const LevelEvidence& level : evidence.levels) add(level.start_s, level.end_s, level.name);
  if (!bands.empty()) return bands;
  for (const auto& [name, span] : evidence.phases) add(span.first, span.second, name);
  return bands;
}

std::pair<double, double> shared_clock(const Evidence& evidence,
                                       const std::vector<ChartBand>& bands) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  const auto reach = [&](double at) {
    low = std::min(low, at);
    high = std::max(high, at);
  };
  for (const Series& series : evidence.series) {
    for (const auto& point : series.points) {
      if (is_drawn(point)) reach(point.first);
    }
  }
  for (const ChartBand& band : bands) {
    reach(band.from);
    reach(band.to);
  }
  return {low, high > low ? high : low + 1};
}

struct WindowStats {
  std::size_t count = 0;
  double mean = 0, low = 0, high = 0;
};

WindowStats stats_within(const Series& series, double from, double to) {
  WindowStats stats;
  for (const auto& point : series.points) {
    if (!is_drawn(point) || point.first < from || point.first > to) continue;
    const double value = point.second;
    stats.low = stats.count == 0 ? value : std::min(stats.low, value);
    stats.high = stats.count == 0 ? value : std::max(stats.high, value);
    ++stats.count;
    stats.mean += (value - stats.mean) / static_cast<double>(stats.count);
  }
  return stats;
}

bool share_quantity(const std::vector<const Series*>& shown) {
  return std::all_of(shown.begin(), shown.end(), [&shown](const Series* one) {
    return telemetry::quantity_of(one->name) == telemetry::quantity_of(shown.front()->name);
  });
}

void window_row(Table& table, const std::string& name, const ChartBand& window,
                const WindowStats& stats) {
  if (stats.count == 0) return;
  const std::string seconds =
      std::isfinite(window.from)
          ? fmt::format("{} to {}", format_number(window.from, 3), format_number(window.to, 3))
          : "-";
  table.row({name, window.label, seconds, format_number(stats.mean, 3), format_number(stats.low, 3),
             format_number(stats.high, 3)});
}

// Several of one kind as one: the mean of their means, the lowest and the highest of all.
WindowStats stats_of_all(const std::vector<const Series*>& series, const ChartBand& window) {
  WindowStats all;
  for (const Series* one : series) {
    const WindowStats stats = stats_within(*one, window.from, window.to);
    if (stats.count == 0) continue;
    all.low = all.count == 0 ? stats.low : std::min(all.low, stats.low);
    all.high = all.count == 0 ? stats.high : std::max(all.high, stats.high);
    ++all.count;
    all.mean += (stats.mean - all.mean) / static_cast<double>(all.count);
  }
  return all;
}

// Of a thousand points nobody reads a table: each signal in each window, many of one kind as one.
Table windows_table(const SignalGroup& group, const std::vector<ChartBand>& bands) {
  Table table({{"signal"},
               {"window"},
               {"seconds", Align::kRight},
               {"mean", Align::kRight},
               {"lowest", Align::kRight},
               {"highest", Align::kRight}});
  std::vector<ChartBand> windows = bands;
  if (windows.empty()) {
    constexpr double kAll = std::numeric_limits<double>::infinity();
    windows.push_back({-kAll, kAll, "all"});
  }
  if (group.series.size() > kFewSeries && share_quantity(group.series)) {
    const std::string name = fmt::format(
        "{} of {}", telemetry::quantity_of(group.series.front()->name), group.series.size());
    for (const ChartBand& window : windows) {
      window_row(table, name, window, stats_of_all(group.series, window));
    }
    return table;
  }
  for (const Series* series : group.series) {
    for (const ChartBand& window : windows) {
      window_row(table, series->name, window, stats_within(*series, window.from, window.to));
    }
  }
  return table;
}

// Of too many alike those that differ most: lowest and highest on the whole.
std::vector<const Series*> shown_series(const SignalGroup& group) {
  std::vector<const Series*> all = group.series;
  if (all.size() <= kMostSeries) return all;
  constexpr double kAll = std::numeric_limits<double>::infinity();
  std::stable_sort(all.begin(), all.end(), [](const Series* a, const Series* b) {
    return stats_within(*a, -kAll, kAll).mean < stats_within(*b, -kAll, kAll).mean;
  });
  const auto half = static_cast<std::ptrdiff_t>(kMostSeries / 2);
  all.erase(all.begin() + half, all.end() - half);
  return all;
}

std::string with_unit(double value, const std::string& unit) {
  return format_number(value, 3) + (unit.empty() ? "" : " " + unit);
}

// Of several alike: "power of 8: 235 W on average (231 to 240)".
std::string alike_words(const std::vector<const Series*>& series, const ChartBand& band) {
  const WindowStats stats = stats_of_all(series, band);
  const Series& like = *series.front();
  return fmt::format("{} of {}: {} on average ({} to {})", telemetry::quantity_of(like.name),
                     stats.count, with_unit(stats.mean, like.unit), format_number(stats.low, 3),
                     format_number(stats.high, 3));
}

// "In the window of 64 users: server.running 64, server.waiting 192."
std::string window_sentence(const std::vector<const Series*>& shown, const ChartBand& band) {
  std::vector<std::string> parts;
  for (const Series* series : shown) {
    const WindowStats stats = stats_within(*series, band.from, band.to);
    if (stats.count == 0) continue;
    parts.push_back(fmt::format("{} {}", series->name, with_unit(stats.mean, series->unit)));
  }
  if (parts.empty()) return "";
  if (parts.size() > kFewSeries && share_quantity(shown)) {
    parts = {alike_words(shown, band)};
  }
  return fmt::format("In the window of {}: {}.", band.label, join(parts, ", "));
}

Chart signal_chart(const SignalGroup& group, std::size_t number,
                   const std::vector<ChartBand>& bands, const std::string& headline) {
  const std::vector<const Series*> shown = shown_series(group);
  Chart chart{.id = fmt::format("signals_{}", number),
              .title = group.title,
              .x = {.title = "time since the run began (s)"},
              .y = {.title = group.axis},
              .bands = bands,
              .small = true};
  const auto band = std::find_if(bands.begin(), bands.end(), [&headline](const ChartBand& one) {
    return one.label == headline;
  });
  if (band != bands.end()) chart.caption = window_sentence(shown, *band);
  if (shown.size() < group.series.size()) {
    if (!chart.caption.empty()) chart.caption += " ";
    chart.caption += fmt::format("Shown are {} of {}: the lowest and the highest.", shown.size(),
                                 group.series.size());
  }
  // "gpu0" where the chart's title says what of it is shown.
  const bool by_owner = shown.size() > 1 && share_quantity(shown);
  for (const Series* one : shown) {
    const std::string owner(telemetry::owner_of(one->name));
    ChartSeries series{.name = by_owner && !owner.empty() ? owner : one->name,
                       .mark = ChartSeries::Mark::kLine};
    for (const auto& point : one->points) {
      if (is_drawn(point)) series.points.push_back({point.first, point.second, ""});
    }
    chart.series.push_back(std::move(series));
  }
  chart.numbers = windows_table(group, bands);
  return chart;
}

}  // namespace

Section signals_section(const Diagnosis& diagnosis) {
  Section section{.heading = "Signals under load", .detail = true};
  const std::vector<SignalGroup> groups = groups_of(diagnosis.evidence);
  if (groups.empty()) return section;
  const std::vector<ChartBand> bands = bands_of(diagnosis.evidence);
  const auto [low, high] = shared_clock(diagnosis.evidence, bands);
  std::string text = "All on one clock, that of the load: seconds since the run began.";
  if (!bands.empty()) text += " Shaded: the windows that the levels' numbers are of.";
  section.paragraphs.push_back(std::move(text));
  for (std::size_t at = 0; at < groups.size(); ++at) {
    Chart chart = signal_chart(groups[at], at + 1, bands, headline_name(diagnosis));
    chart.x.min = low;
    chart.x.max = high;
    section.charts.push_back(std::move(chart));
  }
  return section;
}

}  // namespace nibble::diagnose
