#include "load/series.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

#include "base/json_parts.h"
#include "load/metrics_request.h"
#include "load/record_json.h"
#include "load/row_file.h"

namespace nibble::load {
namespace {

constexpr std::int64_t kMostBins = 240;
constexpr Nanoseconds kShortestBin = 100'000'000;

double to_digits(double value) {
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

double to_milliseconds(double time_s) {
  return std::round(time_s * 1e3) / 1e3;
}

Json points_json(const Series& series) {
  Json points = Json::array();
  for (const auto& [time_s, value] : series.points) {
    points.push(Json::array({Json(to_milliseconds(time_s)), Json(to_digits(value))}));
  }
  return points;
}

// Sums a bin: tokens that came, time that requests were in flight.
class ClientBins {
 public:
  explicit ClientBins(const SeriesGrid& grid)
      : grid_(grid), tokens_(grid.bins(), 0), flight_s_(grid.bins(), 0) {}

  void add(const RequestRecord& record) {
    add_flight(record);
    const bool real = record.outcome == Outcome::kOk || record.outcome == Outcome::kCancelled;
    if (!real) return;
    const RequestMetrics request = derive(record);
    for (std::size_t event = 0; event < record.events.size(); ++event) {
      add_tokens(record.events[event].at, tokens_of(record, request, event));
    }
    if (record.events.empty()) {
      add_tokens(record.end, static_cast<double>(request.output.tokens));
    }
  }

  std::vector<Series> series() const {
    Series rate{.name = "client.output_rate", .unit = "tok/s", .points = {}};
    Series flight{.name = "client.in_flight", .unit = "requests", .points = {}};
    const double bin_s = grid_.bin_s();
    for (std::size_t bin = 0; bin < grid_.bins() && bin_s > 0; ++bin) {
      rate.points.emplace_back(grid_.middle_s(bin), tokens_[bin] / bin_s);
      flight.points.emplace_back(grid_.middle_s(bin), flight_s_[bin] / bin_s);
    }
    return {std::move(rate), std::move(flight)};
  }

 private:
  void add_flight(const RequestRecord& record) {
    const auto first = grid_.bin_of(record.sent);
    const auto last = grid_.bin_of(record.end);
    if (!first || !last) return;
    for (std::size_t bin = *first; bin <= *last; ++bin) {
      const Nanoseconds begin = std::max(record.sent, grid_.begin_of(bin));
      const Nanoseconds end = std::min(record.end, grid_.begin_of(bin + 1));
      flight_s_[bin] += seconds(std::max<Nanoseconds>(0, end - begin));
    }
  }
  void add_tokens(Nanoseconds at, double tokens) {
    if (const auto bin = grid_.bin_of(at)) tokens_[*bin] += tokens;
  }

  const SeriesGrid& grid_;
  std::vector<double> tokens_;
  std::vector<double> flight_s_;
};

}  // namespace

SeriesGrid::SeriesGrid(const Window& run) : run_(run) {
  const Nanoseconds length = std::max<Nanoseconds>(0, run.stop - run.start);
  run_.stop = run.start + length;
  bins_ = static_cast<std::size_t>(std::clamp<std::int64_t>(length / kShortestBin, 1, kMostBins));
}

std::optional<std::size_t> SeriesGrid::bin_of(Nanoseconds at) const {
  if (at < run_.start || at > run_.stop) return std::nullopt;
  if (run_.stop == run_.start) return 0;
  const double share = static_cast<double>(at - run_.start) /
                       static_cast<double>(run_.stop - run_.start) * static_cast<double>(bins_);
  std::size_t bin = std::min(static_cast<std::size_t>(share), bins_ - 1);
  // The division may be off by a hair; begin_of() is what counts.
  if (at < begin_of(bin)) --bin;
  if (bin + 1 < bins_ && at >= begin_of(bin + 1)) ++bin;
  return bin;
}

Nanoseconds SeriesGrid::begin_of(std::size_t bin) const {
  const auto count = static_cast<Nanoseconds>(bins_);
  const Nanoseconds length = run_.stop - run_.start;
  const auto number = static_cast<Nanoseconds>(bin);
  return run_.start + length / count * number + length % count * number / count;
}

double SeriesGrid::middle_s(std::size_t bin) const {
  return (static_cast<double>(bin) + 0.5) * bin_s();
}

std::vector<std::pair<double, double>> thinned(const SeriesGrid& grid,
                                               std::span<const TimedValue> values) {
  std::vector<double> sums(grid.bins(), 0);
  std::vector<std::int64_t> counts(grid.bins(), 0);
  for (const auto& [at, value] : values) {
    const auto bin = grid.bin_of(at);
    if (!bin || !std::isfinite(value)) continue;
    sums[*bin] += value;
    ++counts[*bin];
  }
  std::vector<std::pair<double, double>> points;
  for (std::size_t bin = 0; bin < grid.bins(); ++bin) {
    if (counts[bin] == 0) continue;
    points.emplace_back(grid.middle_s(bin), sums[bin] / static_cast<double>(counts[bin]));
  }
  return points;
}

std::vector<TimedValue> rates_of_counter(std::span<const TimedValue> readings) {
  std::vector<TimedValue> rates;
  for (std::size_t index = 1; index < readings.size(); ++index) {
    const auto& [before_at, before] = readings[index - 1];
    const auto& [at, value] = readings[index];
    if (at <= before_at || value < before) continue;
    rates.emplace_back(before_at + (at - before_at) / 2,
                       (value - before) / seconds(at - before_at));
  }
  return rates;
}

Result<std::optional<RunSeries>> client_series(const std::filesystem::path& rows) {
  std::optional<Window> run;
  const auto first_pass = for_each_row(rows, [&](const RequestRecord& record) -> Result<> {
    if (record.sent == 0) return {};
    if (!run) run = Window{record.sent, record.end};
    run->start = std::min(run->start, record.sent);
    run->stop = std::max(run->stop, record.end);
    return {};
  });
  if (!first_pass.ok()) return first_pass.error();
  if (!run) return std::optional<RunSeries>();
  RunSeries series{.grid = SeriesGrid(*run), .levels = {}, .signals = {}, .telemetry_reason = {}};
  ClientBins bins(series.grid);
  const auto second_pass = for_each_row(rows, [&](const RequestRecord& record) -> Result<> {
    if (record.sent != 0) bins.add(record);
    return {};
  });
  if (!second_pass.ok()) return second_pass.error();
  series.signals = bins.series();
  return std::optional(std::move(series));
}

Json to_json(const RunSeries& series) {
  const Nanoseconds start = series.grid.run().start;
  Json levels = Json::array();
  for (const SeriesLevel& level : series.levels) {
    levels.push(Json::object()
                    .set("name", level.name)
                    .set("start_s", to_milliseconds(seconds(level.window.start - start)))
                    .set("end_s", to_milliseconds(seconds(level.window.stop - start))));
  }
  Json signals = Json::array();
  for (const Series& signal : series.signals) {
    signals.push(Json::object()
                     .set("name", signal.name)
                     .set("unit", signal.unit)
                     .set("points", points_json(signal)));
  }
  return Json::object()
      .set("t0_ns", start)
      .set("bin_s", to_digits(series.grid.bin_s()))
      .set("levels", std::move(levels))
      .set("signals", std::move(signals))
      .set("telemetry_reason", text_or_null(series.telemetry_reason));
}

}  // namespace nibble::load
