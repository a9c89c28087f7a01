#include "telemetry/histogram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace nibble::telemetry {
namespace {

// Real ones have some twenty; many scrapes of them are kept.
constexpr std::size_t kMostBuckets = 1000;
// Up to here a double holds each whole number, and sums of many stay finite.
constexpr double kMostCount = 9007199254740992;
constexpr std::array<std::string_view, 1> kBucketLabel = {"le"};

// The end of a bucket: a number or +Inf.
std::optional<double> upper_end(const MetricSample& sample) {
  const std::optional<std::string_view> text = sample.label("le");
  const std::optional<double> value = text ? metric_number(*text) : std::nullopt;
  if (!value || std::isnan(*value) || *value == -std::numeric_limits<double>::infinity()) {
    return std::nullopt;
  }
  return value;
}

bool same_buckets(const Histogram& a, const Histogram& b) {
  return std::equal(a.buckets.begin(), a.buckets.end(), b.buckets.begin(), b.buckets.end(),
                    [](const auto& x, const auto& y) { return x.upper == y.upper; });
}

Result<> check_series(Histogram& series, std::string_view name) {
  std::sort(series.buckets.begin(), series.buckets.end(),
            [](const auto& a, const auto& b) { return a.upper < b.upper; });
  double before = 0;
  for (const HistogramBucket& bucket : series.buckets) {
    if (!(bucket.count >= before) || bucket.count > kMostCount) {
      return run_error("histogram {}: the counts of its buckets are no counts that rise", name);
    }
    before = bucket.count;
  }
  if (series.buckets.empty() || !std::isinf(series.buckets.back().upper)) {
    return run_error("histogram {} has no bucket for +Inf", name);
  }
  return {};
}

}  // namespace

Result<std::optional<Histogram>> find_histogram(const MetricsPage& page, std::string_view name) {
  const std::string bucket_name = std::string(name) + "_bucket";
  const std::string sum_name = std::string(name) + "_sum";
  std::map<std::string, Histogram> by_series;
  double sum = 0;
  for (const MetricSample& sample : page.samples) {
    if (sample.name == sum_name) sum += sample.value;
    if (sample.name != bucket_name) continue;
    const std::optional<double> upper = upper_end(sample);
    if (!upper) return run_error("histogram {} has a bucket without a number in le", name);
    std::vector<HistogramBucket>& buckets = by_series[series_key(sample, kBucketLabel)].buckets;
    buckets.push_back({*upper, sample.value});
    if (buckets.size() > kMostBuckets) {
      return run_error("histogram {} has more than {} buckets", name, kMostBuckets);
    }
  }
  std::optional<Histogram> total;
  for (auto& [labels, series] : by_series) {
    NIBBLE_RETURN_IF_ERROR(check_series(series, name));
    if (!total) {
      total = std::move(series);
      continue;
    }
    if (!same_buckets(*total, series)) {
      return run_error("histogram {}: its series have different buckets and cannot be added", name);
    }
    for (std::size_t at = 0; at < series.buckets.size(); ++at) {
      total->buckets[at].count += series.buckets[at].count;
    }
  }
  if (total) {
    total->sum = sum;
    total->count = total->buckets.back().count;
  }
  return total;
}

Result<Histogram> histogram_difference(const Histogram& before, const Histogram& after) {
  if (!same_buckets(before, after)) {
    return run_error("the two scrapes have different buckets and cannot be compared");
  }
  Histogram grown;
  double below = 0;
  for (std::size_t at = 0; at < after.buckets.size(); ++at) {
    const double count = after.buckets[at].count - before.buckets[at].count;
    if (count < below) {
      return run_error("a bucket's count went back between the scrapes: the server was restarted");
    }
    grown.buckets.push_back({after.buckets[at].upper, count});
    below = count;
  }
  grown.sum = after.sum - before.sum;
  grown.count = below;
  return grown;
}

Result<HistogramQuantile> histogram_quantile(const Histogram& histogram, double q) {
  if (!(q >= 0 && q <= 1)) return run_error("a quantile lies between 0 and 1");
  if (histogram.count <= 0) return run_error("nothing was observed");
  const double rank = q * histogram.count;
  std::size_t at = 0;
  // The first bucket that reaches the rank and holds something itself.
  while (at + 1 < histogram.buckets.size() &&
         (histogram.buckets[at].count < rank || histogram.buckets[at].count <= 0)) {
    ++at;
  }
  const HistogramBucket& bucket = histogram.buckets[at];
  const double below = at > 0 ? histogram.buckets[at - 1].count : 0;
  // Prometheus' rule: what is measured starts at 0 unless the first bucket ends below it.
  const double low =
      at > 0 ? histogram.buckets[at - 1].upper : std::min(0.0, histogram.buckets[0].upper);
  if (std::isinf(bucket.upper)) {
    return run_error("it lies above the last bucket, at more than {}", low);
  }
  const double share = (rank - below) / (bucket.count - below);
  const double value = std::lerp(low, bucket.upper, std::clamp(share, 0.0, 1.0));
  return HistogramQuantile{
      .value = value,
      .low = low,
      .high = bucket.upper,
      .text = fmt::format("interpolated in bucket [{}, {}]", low, bucket.upper)};
}

}  // namespace nibble::telemetry
