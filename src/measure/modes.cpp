#include "measure/modes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/stats.h"

namespace nibble {
namespace {

constexpr std::size_t kLeastSamples = 32;
constexpr double kLeastShare = 0.2;
constexpr double kLeastSeparation = 5;
constexpr double kLeastDifference = 0.05;

// The size of the lower part with which the two parts vary least in themselves.
std::size_t best_split(std::span<const double> sorted, std::size_t least) {
  std::vector<double> sums = {0};
  for (const double value : sorted) sums.push_back(sums.back() + value);
  std::size_t best = least;
  double best_between = -std::numeric_limits<double>::infinity();
  for (std::size_t low = least; low + least <= sorted.size(); ++low) {
    const auto low_count = static_cast<double>(low);
    const auto high_count = static_cast<double>(sorted.size() - low);
    const double distance = (sums.back() - sums[low]) / high_count - sums[low] / low_count;
    // Variance within and between the parts add up to a constant.
    const double between = low_count * high_count * distance * distance;
    if (between > best_between) {
      best_between = between;
      best = low;
    }
  }
  return best;
}

}  // namespace

Modes find_modes(std::span<const double> samples) {
  if (samples.empty()) return {};
  const double middle = median(samples);
  const Modes one{.low = middle, .high = middle};
  if (samples.size() < kLeastSamples) return one;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  const auto least = static_cast<std::size_t>(std::ceil(kLeastShare * count));
  const std::size_t split = best_split(sorted, least);
  const std::span<const double> all(sorted);
  const std::span<const double> low = all.first(split);
  const std::span<const double> high = all.subspan(split);
  const double spread = std::sqrt((sample_variance(low) + sample_variance(high)) / 2);
  const bool apart = mean(high) - mean(low) > kLeastSeparation * spread;
  const bool matters = median(high) - median(low) > kLeastDifference * std::abs(median(low));
  if (!apart || !matters) return one;
  return {.two = true,
          .low = median(low),
          .high = median(high),
          .low_share = static_cast<double>(split) / count};
}

}  // namespace nibble
