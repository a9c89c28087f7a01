#include "bench/routes.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace nibble {
namespace {

// `count` different numbers below `below`, all sets alike likely (Floyd's algorithm).
std::vector<std::int32_t> draw_set(std::int64_t count, std::int64_t below, Random& random) {
  std::vector<std::int32_t> chosen;
  for (std::int64_t top = below - count; top < below; ++top) {
    const auto drawn = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(top) + 1));
    const bool taken = std::find(chosen.begin(), chosen.end(), drawn) != chosen.end();
    chosen.push_back(taken ? static_cast<std::int32_t>(top) : drawn);
  }
  return chosen;
}

}  // namespace

std::int64_t Routes::slots() const {
  std::size_t count = 0;
  for (const std::vector<std::int32_t>& tokens : tokens_of) count += tokens.size();
  return static_cast<std::int64_t>(count);
}

Routes draw_routes(const RouteRequest& request, Random& random) {
  NIBBLE_CHECK(request.top_k >= 1 && request.top_k <= request.experts);
  std::vector<std::int32_t> ids;
  for (std::int64_t token = 0; token < request.tokens; ++token) {
    const std::vector<std::int32_t> chosen = draw_set(request.top_k, request.experts, random);
    ids.insert(ids.end(), chosen.begin(), chosen.end());
  }
  return routes_of_ids(ids, request.top_k);
}

Routes routes_of_ids(const std::vector<std::int32_t>& ids, std::int64_t top_k) {
  std::map<std::int32_t, std::vector<std::int32_t>> tokens_of;
  for (std::size_t at = 0; at < ids.size(); ++at) {
    tokens_of[ids[at]].push_back(static_cast<std::int32_t>(at / static_cast<std::size_t>(top_k)));
  }
  Routes routes;
  for (auto& [expert, tokens] : tokens_of) {
    routes.expert_of.push_back(expert);
    routes.tokens_of.push_back(std::move(tokens));
  }
  return routes;
}

PlacedRoutes place_routes(const Routes& routes, const std::vector<std::int64_t>& places,
                          std::int64_t units) {
  NIBBLE_CHECK(static_cast<std::int64_t>(places.size()) == routes.distinct());
  std::vector<const std::vector<std::int32_t>*> at(static_cast<std::size_t>(units), nullptr);
  for (std::size_t index = 0; index < places.size(); ++index) {
    at[static_cast<std::size_t>(places[index])] = &routes.tokens_of[index];
  }
  PlacedRoutes placed{.offsets = {0}};
  for (const std::vector<std::int32_t>* tokens : at) {
    if (tokens != nullptr) {
      placed.row_of.insert(placed.row_of.end(), tokens->begin(), tokens->end());
    }
    placed.offsets.push_back(static_cast<std::int32_t>(placed.row_of.size()));
  }
  return placed;
}

std::vector<std::int32_t> placed_ids(const Routes& routes, const std::vector<std::int64_t>& places,
                                     const RouteRequest& request) {
  NIBBLE_CHECK(static_cast<std::int64_t>(places.size()) == routes.distinct());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(request.tokens * request.top_k), -1);
  std::vector<std::int64_t> filled(static_cast<std::size_t>(request.tokens), 0);
  for (std::size_t index = 0; index < places.size(); ++index) {
    for (const std::int32_t token : routes.tokens_of[index]) {
      const std::int64_t choice = filled[static_cast<std::size_t>(token)]++;
      ids[static_cast<std::size_t>(token * request.top_k + choice)] =
          static_cast<std::int32_t>(places[index]);
    }
  }
  return ids;
}

}  // namespace nibble
