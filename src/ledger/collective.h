// Collectives: time from an alpha-beta model. n ranks, S bytes per rank, B link bandwidth per
// direction and GPU, alpha latency of a hop (docs/arithmetic.md, "Collectives").
//
//   all_reduce_us(AllReduce::kRing, 8, 12.6e6, {64, 0})   // 2*7/8 * 12.6 MB / 64 GB/s = 344 us
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nibble {

struct LinkSpeed {
  double bandwidth_gb_s = 0;  // per direction and GPU
  double latency_us = 0;      // per hop
};

enum class AllReduce { kRing, kOneShot, kTwoShot, kFastest };

std::string_view to_string(AllReduce algorithm);  // "ring", "one-shot", "two-shot", "fastest"
std::optional<AllReduce> all_reduce_from_string(std::string_view name);

// Time and the bytes that one GPU sends.
struct CollectiveCost {
  double time_us = 0;
  double link_bytes = 0;
};

CollectiveCost all_reduce(AllReduce algorithm, std::int64_t ranks, double bytes, LinkSpeed link);
CollectiveCost all_gather(std::int64_t ranks, double total_bytes,
                          LinkSpeed link);  // also reduce-scatter
CollectiveCost all_to_all(std::int64_t ranks, double bytes_sent_per_rank, LinkSpeed link);
CollectiveCost send(double bytes, LinkSpeed link);

// Expected number of distinct ranks that a token's top_k experts lie on (experts spread evenly,
// chosen without replacement): R (1 - C(E - E/R, k) / C(E, k)).
double distinct_ranks(std::int64_t experts, std::int64_t top_k, std::int64_t ranks);

}  // namespace nibble
