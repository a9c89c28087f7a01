#include "measure/ring.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <utility>

#include "base/check.h"
#include "base/stats.h"
#include "base/units.h"

namespace nibble {

double cold_bytes(double cache_bytes) {
  constexpr double kLeast = 512e6;
  // With least-recently-used replacement one cache would do; real policies keep some lines longer.
  constexpr double kCaches = 4;
  return std::max(kLeast, kCaches * cache_bytes);
}

Ring plan_ring(const RingRequest& request) {
  NIBBLE_CHECK(request.unit_bytes > 0 && request.least_units >= 1);
  const auto most = static_cast<double>(request.most_units);
  const double wanted = std::ceil(cold_bytes(request.cache_bytes) / request.unit_bytes);
  const double taken = std::max(request.unit_bytes, request.unit_memory_bytes);
  const double room = std::floor(request.available_bytes / 2 / taken);
  const double units =
      std::max(static_cast<double>(request.least_units), std::min({wanted, room, most}));
  Ring ring{.units = static_cast<std::int64_t>(units), .bytes = units * request.unit_bytes};
  ring.cold = ring.bytes >= cold_bytes(request.cache_bytes);
  if (!ring.cold) {
    ring.note = fmt::format(
        "the weights take {}, less than the {} that four caches and 512 MB ask for: part of them "
        "may come from the cache",
        format_bytes(ring.bytes), format_bytes(cold_bytes(request.cache_bytes)));
  }
  return ring;
}

ColdOrder::ColdOrder(std::int64_t units, std::uint64_t seed) {
  NIBBLE_CHECK(units >= 1);
  std::vector<std::int64_t> order;
  for (std::int64_t unit = 0; unit < units; ++unit) order.push_back(unit);
  Random random(seed);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  waiting_.assign(order.begin(), order.end());
}

std::vector<std::int64_t> ColdOrder::next(std::int64_t count) {
  NIBBLE_CHECK(count >= 0 && count <= static_cast<std::int64_t>(waiting_.size()));
  std::vector<std::int64_t> units;
  for (std::int64_t index = 0; index < count; ++index) {
    units.push_back(waiting_.front());
    waiting_.pop_front();
  }
  waiting_.insert(waiting_.end(), units.begin(), units.end());
  return units;
}

}  // namespace nibble
