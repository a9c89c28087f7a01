#include "engine/expert_load.h"

#include <algorithm>
#include <numeric>

namespace nibble::engine {
namespace {

constexpr Nanoseconds kWindow = 1'000'000'000;

}  // namespace

std::optional<double> busiest_over_mean(const ExpertTokens& tokens) {
  if (tokens.experts == 0) return std::nullopt;
  double sum = 0;
  int layers = 0;
  const auto experts = static_cast<std::size_t>(tokens.experts);
  for (std::size_t begin = 0; begin + experts <= tokens.counts.size(); begin += experts) {
    const auto layer = tokens.counts.subspan(begin, experts);
    const std::int64_t all = std::accumulate(layer.begin(), layer.end(), std::int64_t{0});
    if (all == 0) continue;  // a dense layer
    const std::int64_t most = *std::ranges::max_element(layer);
    sum += static_cast<double>(most) * static_cast<double>(experts) / static_cast<double>(all);
    ++layers;
  }
  if (layers == 0) return std::nullopt;
  return sum / layers;
}

void ExpertLoad::step_begins(ExpertTokens tokens, Nanoseconds now) {
  if (!began_) began_ = now;
  if (now - *began_ < kWindow) return;
  if (const std::optional<double> ratio = busiest_over_mean(tokens)) ratio_ = ratio;
  std::ranges::fill(tokens.counts, 0);
  began_ = now;
}

}  // namespace nibble::engine
