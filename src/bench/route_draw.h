// Which experts the tokens of a run choose on a GPU: the distributions of `bench moe --routing`.
//
//   NIBBLE_ASSIGN_OR_RETURN(const RouteDraw routing, parse_route_draw("zipf:1"));
//   const std::vector<std::int32_t> ids = draw_ids({256, 8, 64}, routing, random);  // [64, 8]
//   const ExpertCounts counts = count_experts(ids, 256);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/stats.h"
#include "bench/routes.h"

namespace nibble {

enum class RouteKind {
  kBalanced,  // every expert as often as any other, to one token
  kRandom,    // all sets of top_k experts alike likely
  kZipf,      // expert of rank r with weight 1 / r^exponent, without replacement
  kRecorded,  // each expert as often as it was in a recording, without replacement
};

struct RouteDraw {
  RouteKind kind = RouteKind::kRandom;
  double exponent = 1;                      // kZipf
  std::vector<std::vector<double>> counts;  // kRecorded: tokens per expert, of one layer or each
  std::string source;                       // kRecorded: the file
};

// "balanced", "random", "zipf:1", "zipf:0.5"; a usage error names the word.
Result<RouteDraw> parse_route_draw(std::string_view word);
// The same, or a file of recorded choices (nibble.routing/1), which must be of so many experts.
Result<RouteDraw> parse_routing_or_file(const std::string& word, std::int64_t experts);
std::string to_string(const RouteDraw& routing);

// [tokens, top_k]: `top_k` different experts for each token. Which experts are the popular ones, or
// meet which tokens, is drawn anew at every call.
std::vector<std::int32_t> draw_ids(const RouteRequest& request, const RouteDraw& routing,
                                   Random& random);

struct ExpertCounts {
  std::vector<std::int64_t> tokens;  // [experts]
  std::int64_t slots = 0;            // tokens x top_k
  std::int64_t distinct = 0;         // experts with a token
  std::int64_t most = 0;             // of one expert
};
ExpertCounts count_experts(const std::vector<std::int32_t>& ids, std::int64_t experts);

// Routings that are drawn before a row and take turns, so that no replay repeats the one before it.
inline constexpr int kTurns = 16;
struct DrawnRouting {
  std::vector<std::int32_t> ids;  // [tokens, top_k]
  ExpertCounts counts;
};
std::vector<DrawnRouting> draw_turns(const RouteRequest& request, const RouteDraw& routing,
                                     Random& random);
// Tokens of the largest expert, in the middle of all: what tiles are made for.
std::int64_t usual_largest(const std::vector<DrawnRouting>& turns);

}  // namespace nibble
