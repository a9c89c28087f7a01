#include "ledger/collective.h"

#include <algorithm>
#include <cmath>

namespace nibble {
namespace {

// Microseconds that `bytes` take on one direction of the link.
double wire_us(double bytes, LinkSpeed link) {
  return bytes / (link.bandwidth_gb_s * 1e3);
}

}  // namespace

std::string_view to_string(AllReduce algorithm) {
  switch (algorithm) {
    case AllReduce::kRing:
      return "ring";
    case AllReduce::kOneShot:
      return "one-shot";
    case AllReduce::kTwoShot:
      return "two-shot";
    case AllReduce::kFastest:
      return "fastest";
  }
  return "";
}

std::optional<AllReduce> all_reduce_from_string(std::string_view name) {
  for (const AllReduce algorithm :
       {AllReduce::kRing, AllReduce::kOneShot, AllReduce::kTwoShot, AllReduce::kFastest}) {
    if (name == to_string(algorithm)) return algorithm;
  }
  return std::nullopt;
}

CollectiveCost all_reduce(AllReduce algorithm, std::int64_t ranks, double bytes, LinkSpeed link) {
  if (ranks <= 1) return {};
  const auto n = static_cast<double>(ranks);
  const double halves = 2 * (n - 1) / n * bytes;  // reduce-scatter, then all-gather
  switch (algorithm) {
    case AllReduce::kRing:
      return {2 * (n - 1) * link.latency_us + wire_us(halves, link), halves};
    case AllReduce::kOneShot:
      return {link.latency_us + wire_us((n - 1) * bytes, link), (n - 1) * bytes};
    case AllReduce::kTwoShot:
      return {2 * link.latency_us + wire_us(halves, link), halves};
    case AllReduce::kFastest:
      break;
  }
  const CollectiveCost one_shot = all_reduce(AllReduce::kOneShot, ranks, bytes, link);
  const CollectiveCost two_shot = all_reduce(AllReduce::kTwoShot, ranks, bytes, link);
  return one_shot.time_us < two_shot.time_us ? one_shot : two_shot;
}

CollectiveCost all_gather(std::int64_t ranks, double total_bytes, LinkSpeed link) {
  if (ranks <= 1) return {};
  const auto n = static_cast<double>(ranks);
  const double sent = (n - 1) / n * total_bytes;
  return {(n - 1) * link.latency_us + wire_us(sent, link), sent};
}

CollectiveCost all_to_all(std::int64_t ranks, double bytes_sent_per_rank, LinkSpeed link) {
  if (ranks <= 1) return {};
  return {link.latency_us + wire_us(bytes_sent_per_rank, link), bytes_sent_per_rank};
}

CollectiveCost send(double bytes, LinkSpeed link) {
  return {link.latency_us + wire_us(bytes, link), bytes};
}

double distinct_ranks(std::int64_t experts, std::int64_t top_k, std::int64_t ranks) {
  if (ranks <= 1) return 1;
  const std::int64_t elsewhere = experts - experts / ranks;
  // C(elsewhere, k) / C(experts, k): no expert of a given rank is chosen.
  double none = 1;
  for (std::int64_t draw = 0; draw < top_k; ++draw) {
    none *= static_cast<double>(std::max<std::int64_t>(0, elsewhere - draw)) /
            static_cast<double>(experts - draw);
  }
  return static_cast<double>(ranks) * (1 - none);
}

}  // namespace nibble
