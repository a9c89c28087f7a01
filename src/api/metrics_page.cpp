#include "api/metrics_page.h"

#include <algorithm>
#include <fmt/core.h>

#include "base/check.h"

namespace nibble::api {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

SecondsHistogram::SecondsHistogram(std::span<const double> bounds) : bounds_(bounds) {
  NIBBLE_CHECK(bounds.size() <= kMostBounds);
}

void SecondsHistogram::add(Nanoseconds span, std::uint64_t times) {
  const double value = exact_seconds(span);
  const auto bucket = static_cast<std::size_t>(
      std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin());
  buckets_[bucket].fetch_add(times, kRelaxed);
  sum_.fetch_add(span * static_cast<Nanoseconds>(times), kRelaxed);
}

void SecondsHistogram::append(std::string& page, std::string_view name,
                              std::string_view labels) const {
  const std::string_view comma = labels.empty() ? "" : ",";
  std::uint64_t below = 0;
  page += fmt::format("# TYPE {} histogram\n", name);
  for (std::size_t bucket = 0; bucket <= bounds_.size(); ++bucket) {
    below += buckets_[bucket].load(kRelaxed);
    const std::string bound =
        bucket < bounds_.size() ? fmt::format("{}", bounds_[bucket]) : std::string("+Inf");
    page += fmt::format("{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma, bound, below);
  }
  const std::string braces = labels.empty() ? "" : fmt::format("{{{}}}", labels);
  page += fmt::format("{}_sum{} {}\n", name, braces, exact_seconds(sum_.load(kRelaxed)));
  page += fmt::format("{}_count{} {}\n", name, braces, below);
}

void MetricsPage::line(std::string_view type, std::string_view name, double value,
                       std::string_view more_labels) {
  if (typed_ != name) page_ += fmt::format("# TYPE {} {}\n", name, type);
  typed_ = name;
  std::string labels = labels_;
  if (!labels.empty() && !more_labels.empty()) labels += ",";
  labels += more_labels;
  const std::string braces = labels.empty() ? "" : fmt::format("{{{}}}", labels);
  page_ += fmt::format("{}{} {}\n", name, braces, value);
}

void MetricsPage::histogram(std::string_view name, const SecondsHistogram& histogram) {
  typed_ = name;
  histogram.append(page_, name, labels_);
}

}  // namespace nibble::api
