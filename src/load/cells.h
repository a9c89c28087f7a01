// Numbers of a level as cells of a table.
//
//   cell_of(metrics.output_throughput)                 // "812.4", "-"
//   quantile_cell(metrics, Metric::kTtft, 0.99)        // "93.2", "93.2*", "-"
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "load/metrics.h"

namespace nibble::load {

inline constexpr std::string_view kNoCell = "-";
inline constexpr double kMedian = 0.5;
inline constexpr char kUncertain = '*';   // a percentile without an interval
inline constexpr char kWholeLevel = '~';  // seen beside a whole level, not its steady window

inline std::string cell_of(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? format_number(*value) : std::string(kNoCell);
}

// Of requests: a whole number shows no zeros after the point.
inline std::string in_flight_cell(const LevelMetrics& metrics) {
  return metrics.mean_in_flight ? format_compact(*metrics.mean_in_flight) : std::string(kNoCell);
}

inline std::string mean_cell(const LevelMetrics& metrics, Metric metric) {
  const Summary& summary = metrics[metric];
  return summary.empty() ? std::string(kNoCell) : format_number(summary.mean);
}

inline std::string goodput_cell(const LevelMetrics& metrics) {
  return cell_of(metrics.goodput ? metrics.goodput->per_s : std::nullopt);
}

// '-' where the sample is too small to carry it, unless somebody asked for it.
inline std::string quantile_cell(const LevelMetrics& metrics, Metric metric, double q) {
  const Quantile* quantile = metrics[metric].find(q);
  if (quantile == nullptr) return std::string(kNoCell);
  if (quantile->supported()) return format_number(quantile->value);
  if (!metrics.options.is_asked(q)) return std::string(kNoCell);
  return format_number(quantile->value) + kUncertain;
}

// "P99", "P99.9".
inline std::string percentile_title(double q) {
  return "P" + format_compact(q * 100);
}

}  // namespace nibble::load
