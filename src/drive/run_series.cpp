#include "drive/run_series.h"

#include <fmt/format.h>

namespace nibble::drive {
namespace {

std::vector<load::TimedValue> values_of(const std::vector<telemetry::Point>& points) {
  std::vector<load::TimedValue> values;
  values.reserve(points.size());
  for (const telemetry::Point& point : points) values.emplace_back(point.at, point.value);
  return values;
}

std::string rate_unit(const std::string& unit) {
  return unit.empty() ? "1/s" : unit + "/s";
}

}  // namespace

std::vector<load::Series> sampled_series(const telemetry::SampleStore& store,
                                         const load::SeriesGrid& grid) {
  std::vector<load::Series> all;
  for (std::size_t id = 0; id < store.size(); ++id) {
    const auto signal_id = static_cast<telemetry::SignalId>(id);
    const telemetry::Signal signal = store.state(signal_id).signal;
    const bool counter = signal.kind == telemetry::SignalKind::kCounter;
    // A rate needs the reading before the run as well.
    std::vector<load::TimedValue> values =
        values_of(store.points(signal_id, grid.run().start, grid.run().stop, counter));
    if (counter) values = load::rates_of_counter(values);
    load::Series series{.name = signal.name,
                        .unit = counter ? rate_unit(signal.unit) : signal.unit,
                        .points = load::thinned(grid, values)};
    if (!series.points.empty()) all.push_back(std::move(series));
  }
  return all;
}

Result<std::optional<load::RunSeries>> run_series(const std::filesystem::path& rows,
                                                  const std::vector<load::LevelResult>& levels,
                                                  const telemetry::SampleStore* store) {
  NIBBLE_ASSIGN_OR_RETURN(std::optional<load::RunSeries> series, load::client_series(rows));
  if (!series) return series;
  for (const load::LevelResult& level : levels) {
    series->levels.push_back({load::level_name(level.report.plan), level.span});
  }
  if (store == nullptr) {
    series->telemetry_reason = "telemetry is switched off";
    return series;
  }
  for (load::Series& signal : sampled_series(*store, series->grid)) {
    series->signals.push_back(std::move(signal));
  }
  return series;
}

}  // namespace nibble::drive
