// The levels beside each other: throughput with its knee and floor, latencies, verdicts; and the
// machine's roofs with the kernels under them.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "diagnose/document_parts.h"
#include "load/knee.h"

namespace nibble::diagnose {
namespace {

constexpr const char* kUsersAxis = "users (requests in flight)";

bool has_place(const std::optional<double>& value) {
  return value && std::isfinite(*value) && *value > 0;
}

// Tokens/s if the sequences that ran had taken the floor's step.
std::optional<double> floor_rate(const LevelEvidence& level) {
  const std::optional<double> running = fact_of(level, Fact::kRunning);
  const std::optional<double> floor = fact_of(level, Fact::kFloor);
  if (!has_place(running) || !has_place(floor)) return std::nullopt;
  return *running / *floor * 1000;
}

// ms of a step: by the server's own count, else by running sequences over their rate.
std::optional<double> step_of_level(const LevelEvidence& level) {
  if (const auto step = fact_of(level, Fact::kServerStep)) return step;
  const std::optional<double> running = fact_of(level, Fact::kRunning);
  const std::optional<double> rate = fact_of(level, Fact::kOutputRate);
  if (!running || !has_place(rate)) return std::nullopt;
  return *running / *rate * 1000;
}

using LevelValue = std::optional<double> (*)(const LevelEvidence&);

void add_level_series(Chart& chart, const Evidence& evidence, ChartSeries series,
                      LevelValue value) {
  for (const LevelEvidence& level : evidence.levels) {
    const std::optional<double> x = users_place(level);
    const std::optional<double> y = value(level);
    if (has_place(x) && has_place(y)) series.points.push_back({*x, *y, level.name});
  }
  if (!series.points.empty()) chart.series.push_back(std::move(series));
}

load::Knee knee_of_levels(const Evidence& evidence) {
  std::vector<load::KneeLevel> levels;
  for (const LevelEvidence& level : evidence.levels) {
    const std::optional<double> x = users_place(level);
    const std::optional<double> rate = fact_of(level, Fact::kOutputRate);
    if (level.counts && has_place(x) && has_place(rate)) {
      levels.push_back({*x, *rate, fact_of(level, Fact::kRateNoise)});
    }
  }
  return load::find_knee(std::move(levels));
}

void mark_knee(Chart& chart, const Evidence& evidence) {
  const load::Knee knee = knee_of_levels(evidence);
  if (!knee.concurrency || chart.series.empty()) {
    chart.caption += " No knee: throughput grows to the last level, or the levels cannot tell.";
    return;
  }
  ChartSeries mark{.name = "knee", .mark = ChartSeries::Mark::kPoints, .label_points = true};
  for (const ChartPoint& point : chart.series.front().points) {
    if (point.x != *knee.concurrency || !mark.points.empty()) continue;
    mark.points.push_back({point.x, point.y, "knee"});
    chart.caption +=
        fmt::format(" Knee at {} users, {} tok/s: from there twice the users gain less than 5 %.",
                    format_number(point.x), format_number(point.y, 3));
  }
  // Earlier series lie above later ones.
  if (!mark.points.empty()) chart.series.insert(chart.series.begin(), std::move(mark));
}

Chart throughput_over_users(const Evidence& evidence) {
  Chart chart{.id = "throughput",
              .title = "Output tokens per second over users",
              .x = {.title = kUsersAxis, .logarithmic = true},
              .y = {.title = "output of all users (tok/s)", .logarithmic = true}};
  add_level_series(chart, evidence, {.name = "measured"},
                   [](const LevelEvidence& level) { return fact_of(level, Fact::kOutputRate); });
  if (chart.series.empty()) return chart;
  chart.caption = "Measured, per level.";
  const std::size_t before = chart.series.size();
  add_level_series(chart, evidence,
                   {.name = "floor", .mark = ChartSeries::Mark::kLine, .dashed = true}, floor_rate);
  if (chart.series.size() > before) {
    chart.caption += " Floor: as many sequences as ran, at the speed of the machine.";
  }
  mark_knee(chart, evidence);
  return chart;
}

Chart latency_over_users(const Evidence& evidence) {
  Chart chart{.id = "latency",
              .title = "Latency over users",
              .x = {.title = kUsersAxis, .logarithmic = true},
              .y = {.title = "mean time (ms)", .logarithmic = true}};
  add_level_series(chart, evidence, {.name = "TTFT, to the first token"},
                   [](const LevelEvidence& level) { return fact_of(level, Fact::kTtft); });
  add_level_series(chart, evidence, {.name = "TPOT, per token after it"},
                   [](const LevelEvidence& level) { return fact_of(level, Fact::kTpot); });
  const std::size_t before = chart.series.size();
  add_level_series(chart, evidence,
                   {.name = "floor of a step", .mark = ChartSeries::Mark::kLine, .dashed = true},
                   [](const LevelEvidence& level) { return fact_of(level, Fact::kFloor); });
  if (before == 0) chart.series.clear();  // a floor alone is no latency
  chart.caption = "TTFT that grows while TPOT does not: requests wait before they run.";
  return chart;
}

bool is_curve(const Chart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(),
                     [](const ChartSeries& series) { return series.points.size() > 1; });
}

Table verdicts_by_level(const Diagnosis& diagnosis) {
  Table table({{"level"},
               {"tok/s", Align::kRight},
               {"step, ms", Align::kRight},
               {"floor, ms", Align::kRight},
               {"certainty", Align::kLeft, 1},
               {"verdict"}});
  for (std::size_t at = 0; at < diagnosis.levels.size(); ++at) {
    const LevelDiagnosis& level = diagnosis.levels[at];
    const LevelEvidence none;
    const LevelEvidence& evidence =
        at < diagnosis.evidence.levels.size() ? diagnosis.evidence.levels[at] : none;
    const auto rate = fact_of(evidence, Fact::kOutputRate);
    const Verdict* verdict = level.verdicts.empty() ? nullptr : &level.verdicts.front();
    const Emphasis emphasis = at == diagnosis.headline ? Emphasis::kStrong : Emphasis::kNone;
    table.row({{level.name, emphasis},
               rate ? format_number(*rate, 3) : "-",
               ms_cell(step_of_level(evidence)),
               ms_cell(fact_of(evidence, Fact::kFloor)),
               verdict == nullptr ? "-" : certainty_text(*verdict),
               verdict == nullptr ? "-" : std::string(info_of(verdict->cls).title)});
  }
  return table;
}

// ---- Roofline

// A number as machine files ({"value": ..}), benchmarks and plain files have it.
std::optional<double> roof_number(const Json* json) {
  if (json != nullptr && json->is_object()) json = json->find("value");
  if (json == nullptr || !json->is_number()) return std::nullopt;
  const double value = json->as_number();
  return std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

struct RoofsRead {
  std::optional<double> bandwidth_gb_s;
  std::vector<std::pair<std::string, double>> peaks;  // "fp4", TFLOPS
};

// nibble.machine/1 (bandwidth_gb_s, peaks) or the roofs of nibble.bench/1 (read_gb_s, tflops).
RoofsRead read_roofs(const Json& roofs) {
  RoofsRead read;
  read.bandwidth_gb_s = roof_number(roofs.find("bandwidth_gb_s"));
  if (!read.bandwidth_gb_s) read.bandwidth_gb_s = roof_number(roofs.find("read_gb_s"));
  const auto add = [&read](const std::string& name, const Json* value) {
    const std::optional<double> tflops = roof_number(value);
    if (tflops) read.peaks.emplace_back(name, *tflops);
  };
  if (const Json* peaks = roofs.find("peaks"); peaks != nullptr && peaks->is_object()) {
    for (const auto& [name, peak] : peaks->as_object()) add(name, peak.find("dense_tflops"));
  }
  if (const Json* tflops = roofs.find("tflops"); tflops != nullptr && tflops->is_object()) {
    for (const auto& [name, peak] : tflops->as_object()) add(name, &peak);
  }
  return read;
}

ChartSeries kernels_measured(const Evidence& evidence) {
  ChartSeries series{
      .name = "kernels, alone", .mark = ChartSeries::Mark::kPoints, .label_points = true};
  for (const KernelEvidence& kernel : evidence.kernels) {
    if (!has_place(kernel.intensity) || !has_place(kernel.tflops)) continue;
    series.points.push_back(
        {kernel.intensity, kernel.tflops,
         kernel.shape.empty() ? kernel.op : fmt::format("{} {}", kernel.op, kernel.shape)});
  }
  return series;
}

// The same operations as the ledger has them: their FLOP in the floor's time.
ChartSeries operations_at_floor(const Evidence& evidence) {
  ChartSeries series{.name = "the same at their floor", .mark = ChartSeries::Mark::kPoints};
  for (const KernelEvidence& kernel : evidence.kernels) {
    if (!has_place(kernel.intensity) || !has_place(kernel.tflops)) continue;
    if (!has_place(kernel.time_us) || !has_place(kernel.floor_us)) continue;
    series.points.push_back(
        {kernel.intensity, kernel.tflops * kernel.time_us / kernel.floor_us, kernel.op});
  }
  return series;
}

// From a little left of everything to a little right of it.
std::pair<double, double> roof_reach(const Chart& chart, const RoofsRead& roofs) {
  constexpr double kMargin = 3;
  double low = 1;
  double high = 10;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      low = std::min(low, point.x);
      high = std::max(high, point.x);
    }
  }
  for (const auto& [name, tflops] : roofs.peaks) {
    high = std::max(high, tflops * 1000 / *roofs.bandwidth_gb_s);
  }
  return {low / kMargin, high * kMargin};
}

void add_roofs(Chart& chart, const RoofsRead& roofs) {
  const auto [low, high] = roof_reach(chart, roofs);
  const double tb_s = *roofs.bandwidth_gb_s / 1000;
  for (const auto& [name, tflops] : roofs.peaks) {
    const double ridge = tflops / tb_s;
    if (!(low < ridge && ridge < high)) continue;
    ChartSeries roof{.name = fmt::format("{} roof, {} TFLOPS", name, format_number(tflops, 3)),
                     .mark = ChartSeries::Mark::kLine};
    roof.points = {{low, low * tb_s, "memory"},
                   {ridge, tflops, fmt::format("ridge {} FLOP/B", format_number(ridge, 3))},
                   {high, tflops, ""}};
    chart.series.push_back(std::move(roof));
  }
}

}  // namespace

Section sweep_section(const Diagnosis& diagnosis) {
  Section section{.heading = "The sweep"};
  for (const auto chart_of : {throughput_over_users, latency_over_users}) {
    Chart chart = chart_of(diagnosis.evidence);
    if (is_curve(chart)) section.charts.push_back(std::move(chart));
  }
  section.tables.emplace_back("", verdicts_by_level(diagnosis));
  return section;
}

Section roofline_section(const Diagnosis& diagnosis) {
  const RoofsRead roofs = read_roofs(diagnosis.evidence.roofs);
  Section section{.heading = "Kernels under the roofs", .detail = true};
  if (!roofs.bandwidth_gb_s || roofs.peaks.empty()) return section;
  Chart chart{.id = "roofline",
              .title = "Roofline",
              .x = {.title = "arithmetic intensity (FLOP/B)", .logarithmic = true},
              .y = {.title = "rate (TFLOPS)", .logarithmic = true}};
  chart.caption = fmt::format(
      "Memory reads {} GB/s. Left of a ridge memory holds a kernel back, right of it arithmetic; a "
      "kernel below its roof loses time that the machine would allow it.",
      format_number(*roofs.bandwidth_gb_s));
  for (ChartSeries series :
       {kernels_measured(diagnosis.evidence), operations_at_floor(diagnosis.evidence)}) {
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  add_roofs(chart, roofs);
  section.charts.push_back(std::move(chart));
  return section;
}

}  // namespace nibble::diagnose
