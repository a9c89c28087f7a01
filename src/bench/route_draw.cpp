#include "bench/route_draw.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <numeric>
#include <system_error>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "ledger/routing.h"

namespace nibble {
namespace {

constexpr double kMostExponent = 8;

std::vector<std::int32_t> shuffled_experts(std::int64_t experts, Random& random) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(experts));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t at = order.size(); at > 1; --at) {
    std::swap(order[at - 1], order[random.below(at)]);
  }
  return order;
}

// The choices of all tokens, one after the other, go around a circle of shuffled experts: top_k
// neighbours are different, and no expert is passed twice as often as another.
std::vector<std::int32_t> balanced_ids(const RouteRequest& request, Random& random) {
  const std::vector<std::int32_t> circle = shuffled_experts(request.experts, random);
  const auto slots = static_cast<std::size_t>(request.tokens * request.top_k);
  std::vector<std::int32_t> ids(slots);
  for (std::size_t at = 0; at < slots; ++at) ids[at] = circle[at % circle.size()];
  return ids;
}

// The first top_k of a shuffle, which may begin from any order.
std::vector<std::int32_t> random_ids(const RouteRequest& request, Random& random) {
  std::vector<std::int32_t> order = shuffled_experts(request.experts, random);
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(request.tokens * request.top_k));
  for (std::int64_t token = 0; token < request.tokens; ++token) {
    for (std::size_t at = 0; at < static_cast<std::size_t>(request.top_k); ++at) {
      std::swap(order[at], order[at + random.below(order.size() - at)]);
      ids.push_back(order[at]);
    }
  }
  return ids;
}

// Weighted sampling without replacement: the top_k largest of log(weight) plus Gumbel noise
// (Efraimidis and Spirakis 2006).
std::vector<std::int32_t> weighted_ids(const RouteRequest& request,
                                       const std::vector<double>& log_weight,
                                       const std::vector<std::int32_t>& by_rank, Random& random) {
  std::vector<std::pair<double, std::int32_t>> keys(by_rank.size());
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(request.tokens * request.top_k));
  for (std::int64_t token = 0; token < request.tokens; ++token) {
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      const double uniform = std::max(random.uniform(), 0x1p-60);  // its logarithm is finite
      const double noise = -std::log(-std::log(uniform));
      keys[rank] = {log_weight[rank] + noise, by_rank[rank]};
    }
    std::partial_sort(keys.begin(), keys.begin() + request.top_k, keys.end(), std::greater<>());
    for (std::int64_t at = 0; at < request.top_k; ++at) {
      ids.push_back(keys[static_cast<std::size_t>(at)].second);
    }
  }
  return ids;
}

std::vector<std::int32_t> zipf_ids(const RouteRequest& request, double exponent, Random& random) {
  const std::vector<std::int32_t> by_rank = shuffled_experts(request.experts, random);
  std::vector<double> log_weight(by_rank.size());
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    log_weight[rank] = -exponent * std::log(static_cast<double>(rank + 1));
  }
  return weighted_ids(request, log_weight, by_rank, random);
}

// A layer of the recording that is drawn anew. An expert that nobody chose there comes last.
std::vector<std::int32_t> recorded_ids(const RouteRequest& request, const RouteDraw& routing,
                                       Random& random) {
  const std::vector<double>& counts = routing.counts[random.below(routing.counts.size())];
  NIBBLE_CHECK(static_cast<std::int64_t>(counts.size()) == request.experts);
  std::vector<std::int32_t> by_id(counts.size());
  std::iota(by_id.begin(), by_id.end(), 0);
  std::vector<double> log_weight;
  for (const double count : counts) log_weight.push_back(std::log(count));
  return weighted_ids(request, log_weight, by_id, random);
}

}  // namespace

Result<RouteDraw> parse_route_draw(std::string_view word) {
  if (word == "balanced") return RouteDraw{.kind = RouteKind::kBalanced};
  if (word == "random") return RouteDraw{.kind = RouteKind::kRandom};
  constexpr std::string_view kZipfWord = "zipf:";
  if (word.starts_with(kZipfWord)) {
    const std::string_view number = word.substr(kZipfWord.size());
    double exponent = 0;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), exponent);
    const bool whole = error == std::errc() && end == number.data() + number.size();
    if (whole && exponent >= 0 && exponent <= kMostExponent) {
      return RouteDraw{.kind = RouteKind::kZipf, .exponent = exponent};
    }
  }
  return usage_error(
      "--routing is \"{}\"; give balanced, random, or zipf:S with a number S from 0 to {}",
      printable(word), kMostExponent);
}

Result<RouteDraw> parse_routing_or_file(const std::string& word, std::int64_t experts) {
  std::error_code error;
  if (!std::filesystem::exists(word, error)) {
    Result<RouteDraw> drawn = parse_route_draw(word);
    if (drawn.ok()) return drawn;
    return usage_error(
        "--routing is \"{}\"; there is no such file of recorded counts (nibble.routing/1), and it "
        "is none of balanced, random, and zipf:S with a number S from 0 to {}",
        printable(word), kMostExponent);
  }
  NIBBLE_ASSIGN_OR_RETURN(const Routing recorded, Routing::parse(word));
  RouteDraw routing{.kind = RouteKind::kRecorded, .counts = recorded.counts, .source = word};
  for (const std::vector<double>& layer : routing.counts) {
    if (static_cast<std::int64_t>(layer.size()) == experts) continue;
    return input_error("{} has counts of {} experts, and the layer has {}", word, layer.size(),
                       experts);
  }
  return routing;
}

std::string to_string(const RouteDraw& routing) {
  if (routing.kind == RouteKind::kRecorded) return "recorded:" + routing.source;
  if (routing.kind == RouteKind::kBalanced) return "balanced";
  if (routing.kind == RouteKind::kRandom) return "random";
  return "zipf:" + format_compact(routing.exponent);
}

std::vector<std::int32_t> draw_ids(const RouteRequest& request, const RouteDraw& routing,
                                   Random& random) {
  NIBBLE_CHECK(request.top_k >= 1 && request.top_k <= request.experts);
  if (routing.kind == RouteKind::kBalanced) return balanced_ids(request, random);
  if (routing.kind == RouteKind::kRandom) return random_ids(request, random);
  if (routing.kind == RouteKind::kRecorded) return recorded_ids(request, routing, random);
  return zipf_ids(request, routing.exponent, random);
}

ExpertCounts count_experts(const std::vector<std::int32_t>& ids, std::int64_t experts) {
  ExpertCounts counts{.tokens = std::vector<std::int64_t>(static_cast<std::size_t>(experts), 0),
                      .slots = static_cast<std::int64_t>(ids.size())};
  for (const std::int32_t id : ids) ++counts.tokens[static_cast<std::size_t>(id)];
  for (const std::int64_t tokens : counts.tokens) {
    counts.distinct += tokens > 0 ? 1 : 0;
    counts.most = std::max(counts.most, tokens);
  }
  return counts;
}

std::vector<DrawnRouting> draw_turns(const RouteRequest& request, const RouteDraw& routing,
                                     Random& random) {
  std::vector<DrawnRouting> turns;
  for (int turn = 0; turn < kTurns; ++turn) {
    DrawnRouting drawn{.ids = draw_ids(request, routing, random)};
    drawn.counts = count_experts(drawn.ids, request.experts);
    turns.push_back(std::move(drawn));
  }
  return turns;
}

std::int64_t usual_largest(const std::vector<DrawnRouting>& turns) {
  std::vector<double> largest;
  for (const DrawnRouting& turn : turns) largest.push_back(static_cast<double>(turn.counts.most));
  return largest.empty() ? 1 : static_cast<std::int64_t>(median(largest));
}

}  // namespace nibble
