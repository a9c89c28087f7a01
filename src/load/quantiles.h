// Percentiles that say what they are worth: numpy's linear rule, the number of values, a
// distribution-free interval, and a reason where the sample is too small to carry one.
//
//   Distribution ttft;
//   ttft.add(52.1);
//   const Summary summary = ttft.summarize({0.5, 0.99});
//   summary.quantiles[1].value, summary.quantiles[1].interval, summary.quantiles[1].reason
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/stats.h"

namespace nibble::load {

struct Quantile {
  double q = 0;                      // 0.99
  double value = 0;                  // linear between order statistics, as numpy.percentile
  std::optional<Interval> interval;  // 95 %, from order statistics with equal tails
  std::string reason;                // why there is no interval; such a value is shown with a flag
  bool supported() const { return interval.has_value(); }
};

struct Summary {
  std::int64_t n = 0;
  std::int64_t missing = 0;  // requests that have no such value: excluded, never counted as zero
  double mean = 0;
  double std = 0;  // of the population, as numpy.std and vLLM
  double min = 0;
  double max = 0;
  std::vector<Quantile> quantiles;
  bool binned = false;  // quantiles are read off bins 0.1 % wide; mean, std, min, max stay exact
  bool empty() const { return n == 0; }
  const Quantile* find(double q) const;
};

// The smallest n for which a two-sided interval of the q-quantile exists: the extremes must miss it
// with at most 2.5 % each. 368 for q = 0.99, 72 for 0.95, 6 for 0.5.
std::int64_t least_samples(double q, double confidence = 0.95);

// Values of one metric; not negative. Exact up to `most_exact` values, then in logarithmic bins of
// 0.1 % (a few hundred KB whatever is added), so that tens of millions of gaps between tokens fit.
class Distribution {
 public:
  explicit Distribution(std::size_t most_exact = std::size_t{1} << 18) : most_exact_(most_exact) {}

  // `count` times the same value. Values that are not finite or below zero are refused by a check:
  // they come from stamps whose order has been checked.
  void add(double value, std::int64_t count = 1);
  void add_missing() { ++missing_; }

  std::int64_t n() const { return n_; }
  std::int64_t missing() const { return missing_; }
  double sum() const;
  bool binned() const { return !bins_.empty(); }

  // `independent`: how many of the values say something of their own, when they come in groups (the
  // gaps of one answer are alike). The interval is then the one that so many values would have,
  // which is wide rather than wrong. Default: all.
  Summary summarize(std::span<const double> quantiles,
                    std::optional<std::int64_t> independent = std::nullopt);

 private:
  void spill();
  void sort();
  double order_statistic(std::int64_t rank) const;  // from 0; after sort()
  double at(double position) const;

  std::size_t most_exact_;
  std::int64_t n_ = 0;
  std::int64_t missing_ = 0;
  // Welford's running moments: exact sums of squares would lose the deviation of steady latencies.
  double mean_ = 0;
  double squares_ = 0;
  double min_ = 0;
  double max_ = 0;
  std::vector<double> values_;
  std::vector<std::int64_t> counts_;      // of each value; empty while all are 1
  std::vector<std::int64_t> cumulative_;  // of counts_, in the order of values_, after sort()
  std::vector<std::int64_t> bins_;        // bins_[0]: zeros
};

}  // namespace nibble::load
