#include "load/quantiles.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

#include "base/check.h"
#include "base/units.h"

namespace nibble::load {
namespace {

constexpr double kConfidence = 0.95;
// Bins reach from 1e-6 to 1e9 (a nanosecond to eleven days, in ms) with a ratio of 1.001 between
// them: 34,556 of them. A value is off by half a bin, 0.05 %, at most.
constexpr double kLowest = 1e-6;
constexpr double kHighest = 1e9;
const double kLogRatio = std::log(1.001);

std::size_t bin_count() {
  return static_cast<std::size_t>(std::log(kHighest / kLowest) / kLogRatio) + 3;
}

std::size_t bin_of(double value) {
  if (value < kLowest) return 0;
  const auto bin = static_cast<std::size_t>(std::log(value / kLowest) / kLogRatio) + 1;
  return std::min(bin, bin_count() - 1);
}

double middle_of(std::size_t bin) {
  if (bin == 0) return 0;
  return kLowest * std::exp((static_cast<double>(bin) - 0.5) * kLogRatio);
}

std::string too_few(double q, std::int64_t n) {
  return fmt::format("no 95 % interval of P{} exists for {} {}; it takes {}",
                     format_compact(q * 100), n, n == 1 ? "value" : "values", least_samples(q));
}

}  // namespace

const Quantile* Summary::find(double q) const {
  for (const Quantile& quantile : quantiles) {
    if (std::abs(quantile.q - q) < 1e-12) return &quantile;
  }
  return nullptr;
}

std::int64_t least_samples(double q, double confidence) {
  NIBBLE_CHECK(q > 0 && q < 1 && confidence > 0 && confidence < 1);
  const double tail = (1 - confidence) / 2;
  const double needed = std::log(tail) / std::log(std::max(q, 1 - q));
  return static_cast<std::int64_t>(std::ceil(needed - 1e-9));
}

void Distribution::add(double value, std::int64_t count) {
  NIBBLE_CHECK(std::isfinite(value) && value >= 0 && count > 0);
  min_ = n_ == 0 ? value : std::min(min_, value);
  max_ = n_ == 0 ? value : std::max(max_, value);
  const auto weight = static_cast<double>(count);
  const auto before = static_cast<double>(n_);
  n_ += count;
  const double delta = value - mean_;
  mean_ += delta * weight / static_cast<double>(n_);
  squares_ += delta * delta * before * weight / static_cast<double>(n_);
  if (binned()) {
    bins_[bin_of(value)] += count;
    return;
  }
  if (count != 1 && counts_.empty()) counts_.assign(values_.size(), 1);
  cumulative_.clear();
  values_.push_back(value);
  if (count != 1 || !counts_.empty()) counts_.push_back(count);
  if (values_.size() > most_exact_) spill();
}

double Distribution::sum() const {
  return mean_ * static_cast<double>(n_);
}

void Distribution::spill() {
  bins_.assign(bin_count(), 0);
  for (std::size_t index = 0; index < values_.size(); ++index) {
    bins_[bin_of(values_[index])] += counts_.empty() ? 1 : counts_[index];
  }
  std::vector<double>().swap(values_);
  std::vector<std::int64_t>().swap(counts_);
}

void Distribution::sort() {
  cumulative_.clear();
  if (binned()) {
    cumulative_.resize(bins_.size());
    std::partial_sum(bins_.begin(), bins_.end(), cumulative_.begin());
    return;
  }
  if (counts_.empty()) {
    std::sort(values_.begin(), values_.end());
    return;
  }
  std::vector<std::pair<double, std::int64_t>> pairs;
  pairs.reserve(values_.size());
  for (std::size_t index = 0; index < values_.size(); ++index) {
    pairs.emplace_back(values_[index], counts_[index]);
  }
  std::sort(pairs.begin(), pairs.end());
  std::int64_t total = 0;
  for (std::size_t index = 0; index < pairs.size(); ++index) {
    values_[index] = pairs[index].first;
    counts_[index] = pairs[index].second;
    cumulative_.push_back(total += counts_[index]);
  }
}

double Distribution::order_statistic(std::int64_t rank) const {
  if (!binned() && counts_.empty()) return values_[static_cast<std::size_t>(rank)];
  const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), rank);
  const auto index = static_cast<std::size_t>(found - cumulative_.begin());
  if (!binned()) return values_[index];
  // The extremes are known exactly, and nothing lies beyond them.
  return std::clamp(middle_of(index), min_, max_);
}

double Distribution::at(double position) const {
  const double last = static_cast<double>(n_ - 1);
  position = std::clamp(position, 0.0, last);
  const double below = std::floor(position);
  const double fraction = position - below;
  const double lower = order_statistic(static_cast<std::int64_t>(below));
  if (fraction == 0) return lower;
  const double upper = order_statistic(static_cast<std::int64_t>(below) + 1);
  return lower + (upper - lower) * fraction;
}

Summary Distribution::summarize(std::span<const double> quantiles,
                                std::optional<std::int64_t> independent) {
  Summary summary{.n = n_, .missing = missing_, .binned = binned()};
  if (n_ == 0) return summary;
  summary.mean = mean_;
  summary.std = std::sqrt(std::max(0.0, squares_) / static_cast<double>(n_));
  summary.min = min_;
  summary.max = max_;
  sort();
  const std::int64_t own = std::clamp<std::int64_t>(independent.value_or(n_), 1, n_);
  for (const double q : quantiles) {
    Quantile quantile{.q = q, .value = at(q * static_cast<double>(n_ - 1))};
    const bool inner = q > 0 && q < 1;
    if (inner && own >= least_samples(q)) {
      const auto ranks = quantile_ranks(own, q, kConfidence);
      NIBBLE_CHECK(ranks.has_value());
      // Rank r of `own` values lies where the share (r - 1) / (own - 1) of all n lies.
      const double stride =
          own == n_ ? 1 : static_cast<double>(n_ - 1) / static_cast<double>(own - 1);
      quantile.interval = Interval{at(static_cast<double>(ranks->low - 1) * stride),
                                   at(static_cast<double>(ranks->high - 1) * stride)};
    } else {
      quantile.reason = inner ? too_few(q, own) : "an extreme has no interval";
    }
    summary.quantiles.push_back(std::move(quantile));
  }
  return summary;
}

}  // namespace nibble::load
