// A run over time: signals thinned to the bins of one clock, beside which its levels lie.
//
//   NIBBLE_ASSIGN_OR_RETURN(std::optional<RunSeries> series, client_series("rows.jsonl"));
//   series->signals.push_back({.name = "gpu0.power", .unit = "W",
//                              .points = thinned(series->grid, power)});
//   json.set("series", to_json(*series));      // {"t0_ns", "levels", "signals", ...}
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "load/metrics_intervals.h"

namespace nibble::load {

// Equal bins over a run: at most 240, none shorter than 0.1 s, in which a handful of steps lie.
class SeriesGrid {
 public:
  SeriesGrid() = default;
  // A run without length has one bin without length.
  explicit SeriesGrid(const Window& run);

  const Window& run() const { return run_; }
  std::size_t bins() const { return bins_; }
  double bin_s() const { return run_.length_s() / static_cast<double>(bins_); }
  // nullopt: outside of the run. What happens at its very end belongs to the last bin.
  std::optional<std::size_t> bin_of(Nanoseconds at) const;
  Nanoseconds begin_of(std::size_t bin) const;  // begin_of(bins()) is the end of the run
  double middle_s(std::size_t bin) const;       // since the start of the run

 private:
  Window run_;
  std::size_t bins_ = 1;
};

struct Series {
  std::string name;  // "client.output_rate", "gpu0.power"
  std::string unit;
  std::vector<std::pair<double, double>> points;  // s since the start of the run, value
};

struct SeriesLevel {
  std::string name;  // "64 users"
  Window window;     // steady, where there is such a window; else of the whole level
};

struct RunSeries {
  SeriesGrid grid;
  std::vector<SeriesLevel> levels;
  std::vector<Series> signals;
  std::string telemetry_reason;  // why there are no signals but the client's own; empty: there are
};
// Times to ms, values to six digits.
Json to_json(const RunSeries& series);

using TimedValue = std::pair<Nanoseconds, double>;
// The mean of the values of each bin, at the bin's middle; bins without values are left out, and so
// are values that are no numbers.
std::vector<std::pair<double, double>> thinned(const SeriesGrid& grid,
                                               std::span<const TimedValue> values);
// What a counter rises by, a second: between two readings, at the middle of them. Where it went
// back (a restart) there is none.
std::vector<TimedValue> rates_of_counter(std::span<const TimedValue> readings);

// What the rows tell: "client.output_rate" (tokens/s) and "client.in_flight" (requests, mean over
// the bin), warm-ups included, as the server saw them, from the first send to the last end.
// nullopt: nothing was sent.
Result<std::optional<RunSeries>> client_series(const std::filesystem::path& rows);

}  // namespace nibble::load
