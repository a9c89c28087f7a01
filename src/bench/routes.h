// Which experts the tokens of one run meet, and which copies in memory stand for them.
//
//   const Routes routes = draw_routes({.experts = 256, .top_k = 8, .tokens = 4}, random);
//   const PlacedRoutes placed = place_routes(routes, order.next(routes.distinct()), ring.units);
#pragma once

#include <cstdint>
#include <vector>

#include "base/stats.h"

namespace nibble {

struct RouteRequest {
  std::int64_t experts = 1;
  std::int64_t top_k = 1;
  std::int64_t tokens = 1;
};

// Tokens by the experts that they meet; experts that no token meets are left out.
struct Routes {
  std::vector<std::vector<std::int32_t>> tokens_of;  // of each distinct expert, ascending
  std::vector<std::int32_t> expert_of;               // [distinct], ascending
  std::int64_t distinct() const { return static_cast<std::int64_t>(expert_of.size()); }
  std::int64_t slots() const;
};

// Every token meets `top_k` different experts, all sets alike likely.
Routes draw_routes(const RouteRequest& request, Random& random);

// The same of choices that were drawn otherwise: [tokens, top_k] experts (draw_ids()).
Routes routes_of_ids(const std::vector<std::int32_t>& ids, std::int64_t top_k);

// As gemm() takes them.
struct PlacedRoutes {
  std::vector<std::int32_t> offsets;  // [units + 1]
  std::vector<std::int32_t> row_of;   // [slots]
};

// The i-th distinct expert stands at unit places[i] of `units`.
PlacedRoutes place_routes(const Routes& routes, const std::vector<std::int64_t>& places,
                          std::int64_t units);

// [tokens, top_k]: the units that each token meets, for moe().
std::vector<std::int32_t> placed_ids(const Routes& routes, const std::vector<std::int64_t>& places,
                                     const RouteRequest& request);

}  // namespace nibble
