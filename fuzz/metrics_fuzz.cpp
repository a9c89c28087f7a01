// A server's metrics page of any bytes: no crash and no hang; no line hides those after it; samples
// that are written are read back; and what is read of it keeps its promises, so that no quantile is
// a number from nowhere.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>

#include "base/check.h"
#include "telemetry/histogram.h"
#include "telemetry/server_metrics.h"

namespace {

using namespace nibble::telemetry;

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') out += '\\';
    out += letter == '\n' ? "\\n" : std::string(1, letter);
  }
  return out + '"';
}

bool same(const MetricSample& a, const MetricSample& b) {
  const bool values = a.value == b.value || (std::isnan(a.value) && std::isnan(b.value));
  return a.name == b.name && a.labels == b.labels && values;
}

// With every name in quotes, which hold any bytes.
void check_round_trip(const MetricsPage& page) {
  std::string text;
  for (const MetricSample& sample : page.samples) {
    NIBBLE_CHECK(!sample.name.empty());
    text += "{" + in_quotes(sample.name);
    for (const auto& [key, value] : sample.labels)
      text += "," + in_quotes(key) + "=" + in_quotes(value);
    text += fmt::format("}} {}\n", sample.value);
  }
  const MetricsPage again = parse_metrics(text);
  NIBBLE_CHECK(again.bad_lines == 0);
  NIBBLE_CHECK(std::equal(again.samples.begin(), again.samples.end(), page.samples.begin(),
                          page.samples.end(), same));
}

void check_histogram(const Histogram& histogram) {
  double before = 0;
  for (const HistogramBucket& bucket : histogram.buckets) {
    NIBBLE_CHECK(bucket.count >= before && std::isfinite(bucket.count));
    before = bucket.count;
  }
  NIBBLE_CHECK(std::is_sorted(histogram.buckets.begin(), histogram.buckets.end(),
                              [](const auto& a, const auto& b) { return a.upper < b.upper; }));
  NIBBLE_CHECK(std::isinf(histogram.buckets.back().upper) && histogram.count == before);
  for (const double q : {0.0, 0.01, 0.5, 0.99, 1.0}) {
    const nibble::Result<HistogramQuantile> quantile = histogram_quantile(histogram, q);
    if (!quantile) continue;
    NIBBLE_CHECK(std::isfinite(quantile->value));
    NIBBLE_CHECK(quantile->low <= quantile->value && quantile->value <= quantile->high);
  }
  const nibble::Result<Histogram> nothing = histogram_difference(histogram, histogram);
  NIBBLE_CHECK(nothing.ok() && nothing->count == 0);
  NIBBLE_CHECK(!histogram_quantile(*nothing, 0.5).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const MetricsPage page = parse_metrics(text);
  NIBBLE_CHECK(page.first_bad_line.empty() || page.bad_lines > 0);
  check_round_trip(page);
  const MetricsPage longer = parse_metrics(std::string(text) + "\nlast{of=\"all\"} 7\n");
  NIBBLE_CHECK(!longer.samples.empty() && longer.samples.back().name == "last");
  NIBBLE_CHECK(longer.samples.back().value == 7);
  const ServerReading reading = read_server_metrics(text);
  for (const auto& [name, value] : reading.values) {
    const auto names = [&name = name](const Signal& signal) { return signal.name == name; };
    NIBBLE_CHECK(std::any_of(server_signals().begin(), server_signals().end(), names));
  }
  for (const auto& [name, histogram] : reading.histograms) check_histogram(histogram);
  return 0;
}
