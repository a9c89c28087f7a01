// How many experts a step touches, and how evenly. `pi_i` is the probability that a token chooses
// expert i (they sum to top_k); tokens choose independently.
//
//   routing_stats(Routing::uniform(), 256, 8, 32, 1).distinct   // 163.3
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace nibble {

struct Routing {
  enum class Kind { kUniform, kZipf, kRecorded };
  Kind kind = Kind::kUniform;
  double zipf_exponent = 0;                 // of the sampling weights i^-s
  std::vector<std::vector<double>> counts;  // kRecorded: tokens per expert, one list a layer or one
  std::string source;                       // "uniform", "zipf:0.5", the file's path

  static Routing uniform();
  static Routing zipf(double exponent);
  // "uniform", "zipf:S", or a JSON file {"schema": "nibble.routing/1", "counts": [...] or [[...]]}.
  static Result<Routing> parse(std::string_view text);
  static Result<Routing> parse_counts(const Json& json, std::string_view where);
};

// Expected values for one layer (mean over layers when counts are recorded per layer).
struct RoutingStats {
  double tokens = 0;         // rows that enter the router
  double distinct = 0;       // experts with at least one token
  double rows_mean = 0;      // tokens per distinct expert
  double rows_mean_all = 0;  // tokens * top_k / experts: the usual, flattering number
  double rows_p50 = 0;       // of an expert drawn at random
  double rows_p99 = 0;
  double rows_max = 0;  // expected load of the busiest expert
  // Over `ranks` equal groups of experts:
  double rank_distinct_mean = 0;
  double rank_distinct_max = 0;  // expected distinct experts on the rank that has most
  double rank_rows_mean = 0;
  double rank_rows_max = 0;  // expected rows on the busiest rank
};

// ranks divides experts. top_k <= experts. Uniform `distinct` is exact: E (1 - (1 - k/E)^B).
Result<RoutingStats> routing_stats(const Routing& routing, std::int64_t experts, std::int64_t top_k,
                                   double tokens, std::int64_t ranks);

Json to_json(const RoutingStats& stats);

}  // namespace nibble
