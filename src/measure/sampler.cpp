#include "measure/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/clock.h"

namespace nibble {
namespace {

bool is_precise(const std::vector<double>& values, const StopRule& rule) {
  const std::optional<Interval> interval = quantile_interval(values, 0.5, rule.confidence);
  if (!interval) return false;
  return (interval->high - interval->low) / 2 <= rule.half_width * std::abs(median(values));
}

// Sorting at each sample would cost more than short kernels take: the rule is asked when the sample
// has grown by a tenth.
std::size_t next_question(std::size_t count) {
  return count + std::max<std::size_t>(1, count / 10);
}

std::optional<Stopped> stops(const std::vector<double>& values, const StopRule& rule,
                             double elapsed_s, std::size_t& question) {
  constexpr double kPatience = 5;
  const double budget_s = rule.budget_s * (values.size() < rule.least ? kPatience : 1);
  if (elapsed_s >= budget_s) return Stopped::kBudget;
  if (values.size() >= rule.most) return Stopped::kCount;
  if (values.size() < rule.least || values.size() < question) return std::nullopt;
  question = next_question(values.size());
  if (is_precise(values, rule)) return Stopped::kPrecise;
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Stopped stopped) {
  switch (stopped) {
    case Stopped::kPrecise:
      return "precise";
    case Stopped::kBudget:
      return "budget";
    case Stopped::kCount:
      return "count";
  }
  NIBBLE_CHECK(false);
}

double steady_now() {
  return seconds(monotonic_now());
}

Sample summarize(std::vector<double> values, double confidence) {
  Sample sample;
  if (values.empty()) return sample;
  sample.median = median(values);
  sample.interval = quantile_interval(values, 0.5, confidence);
  sample.modes = find_modes(values);
  sample.values = std::move(values);
  return sample;
}

Sample collect(const StopRule& rule, const Now& now, const std::function<double()>& once) {
  const double start = now();
  std::vector<double> values;
  std::size_t question = 0;
  std::optional<Stopped> stopped;
  while (!stopped) {
    values.push_back(once());
    stopped = stops(values, rule, now() - start, question);
  }
  Sample sample = summarize(std::move(values), rule.confidence);
  sample.stopped = *stopped;
  return sample;
}

Sample collect_pairs(const StopRule& rule, const Now& now, const std::function<void()>& roof,
                     const std::function<void()>& kernel, const std::function<double()>& ratio) {
  bool roof_first = true;
  return collect(rule, now, [&] {
    (roof_first ? roof : kernel)();
    (roof_first ? kernel : roof)();
    roof_first = !roof_first;
    return ratio();
  });
}

}  // namespace nibble
