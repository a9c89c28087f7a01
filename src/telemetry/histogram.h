// Quantiles from a server's histograms: from what each bucket grew by between two scrapes, and
// never finer than the buckets are.
//
//   NIBBLE_ASSIGN_OR_RETURN(const Histogram grown, histogram_difference(before, after));
//   const Result<HistogramQuantile> p99 = histogram_quantile(grown, 0.99);
//   print(p99->text);                      // "interpolated in bucket [0.25, 0.5]"
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "telemetry/prometheus.h"

namespace nibble::telemetry {

struct HistogramBucket {
  double upper = 0;  // "le"; the last one is infinite
  double count = 0;  // of observations up to it: cumulative
};

struct Histogram {
  std::vector<HistogramBucket> buckets;  // by their upper end
  double sum = 0;
  double count = 0;
};

// All series of NAME_bucket, NAME_sum and NAME_count added up over their other labels. nullopt: the
// page has no such histogram. Refuses series whose buckets differ and counts that fall.
Result<std::optional<Histogram>> find_histogram(const MetricsPage& page, std::string_view name);

// Refuses different buckets (another version of the server) and counts that went back (a restart).
Result<Histogram> histogram_difference(const Histogram& before, const Histogram& after);

struct HistogramQuantile {
  double value = 0;
  double low = 0;  // the bucket that holds it
  double high = 0;
  std::string text;  // "interpolated in bucket [0.25, 0.5]"
};

// By a line through the bucket, as Prometheus does; a quantile beyond the last finite bucket is an
// error that says so, and so is an empty histogram.
Result<HistogramQuantile> histogram_quantile(const Histogram& histogram, double q);

}  // namespace nibble::telemetry
