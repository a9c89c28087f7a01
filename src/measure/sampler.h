// Measures until the answer is sure enough or the time is spent. The answer is a median with its
// interval: neighbours on the machine only ever add time, which biases a mean, and a lucky run,
// whose weights were still in a cache, biases a minimum.
//
//   const Sample sample = collect({.budget_s = 1}, steady_now, [&] { return time_of_one_run(); });
//   sample.median, sample.interval, sample.modes
//
//   // A kernel against a roof that drifts: roof, kernel, kernel, roof, roof, kernel, ...
//   const Sample share = collect_pairs(rule, steady_now, roof, kernel, [&] { return floor / time;
//   });
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/stats.h"
#include "measure/modes.h"

namespace nibble {

struct StopRule {
  double half_width = 0.02;  // half of the median's interval, over the median
  double confidence = 0.95;
  std::size_t least = 10;  // samples before the rule may stop
  std::size_t most = 2000;
  double budget_s = 1;  // five times this when `least` is not reached; one sample in any case
};

enum class Stopped {
  kPrecise,  // the interval is as narrow as asked for
  kBudget,   // the time is spent
  kCount,    // `most` samples
};
std::string_view to_string(Stopped stopped);  // "precise", "budget", "count"

struct Sample {
  std::vector<double> values;  // in the order they were taken
  double median = 0;
  std::optional<Interval> interval;  // of the median; nullopt: too few samples
  Stopped stopped = Stopped::kPrecise;
  Modes modes;
};

using Now = std::function<double()>;  // seconds
double steady_now();

// What a list of values says.
Sample summarize(std::vector<double> values, double confidence);

Sample collect(const StopRule& rule, const Now& now, const std::function<double()>& once);

// Calls roof, kernel, kernel, roof (ABBA) over and over. `ratio` is asked after each pair, when
// both have run once more; a drift that lasts longer than a pair changes both, and one that grows
// evenly favours the kernel in one pair of a block and the roof in the other.
Sample collect_pairs(const StopRule& rule, const Now& now, const std::function<void()>& roof,
                     const std::function<void()>& kernel, const std::function<double()>& ratio);

}  // namespace nibble
