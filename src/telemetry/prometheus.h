// Prometheus' text format, read as servers really write it and written for those who scrape us.
//
//   const MetricsPage page = parse_metrics(body);
//   for (const MetricSample& sample : page.samples) ...
//   const std::string text = signals_page(store.states());
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telemetry/store.h"

namespace nibble::telemetry {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct MetricSample {
  std::string name;
  Labels labels;     // in the order of the page
  double value = 0;  // may be NaN or infinite
  std::optional<std::string_view> label(std::string_view key) const;
};

struct MetricsPage {
  std::vector<MetricSample> samples;
  std::map<std::string, std::string, std::less<>> types;  // "counter", "gauge", "histogram", ...
  std::uint64_t bad_lines = 0;  // skipped, so that one odd line does not hide the others
  std::string first_bad_line;
};

// A number as pages and their "le" labels write it: NaN and +Inf too.
std::optional<double> metric_number(std::string_view word);

// The labels of one series as one text, in no matter which order they came, without those that
// `drop` names.
std::string series_key(const MetricSample& sample, std::span<const std::string_view> drop);

// Text format 0.0.4 and what OpenMetrics adds (timestamps, exemplars, # EOF, quoted names). A page
// that is one JSON string, as a build of llama.cpp sent it, is read as the text within.
MetricsPage parse_metrics(std::string_view text);

// All signals with a value, as nibble_QUANTITY_UNIT{owner="gpu0"}, and nibble_signal_available.
std::string signals_page(std::span<const SignalState> states);

}  // namespace nibble::telemetry
