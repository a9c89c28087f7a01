#include "ledger/routing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/file.h"
#include "base/stats.h"

namespace nibble {
namespace {

constexpr std::size_t kMaxRoutingBytes = 64 << 20;
constexpr double kFarTails = 9;  // standard deviations beyond which a tail is below 1e-18

// pi_i: the probability that a token's top_k contain expert i. For weights w_i the conditional
// Poisson approximation pi_i = 1 - exp(-lambda w_i), lambda such that they sum to top_k.
std::vector<double> inclusion_probabilities(const std::vector<double>& weights, double top_k) {
  const double largest = *std::max_element(weights.begin(), weights.end());
  auto total = [&](double lambda) {
    double sum = 0;
    for (const double weight : weights) sum -= std::expm1(-lambda * weight / largest);
    return sum;
  };
  double low = 0;
  double high = 1;
  while (total(high) < top_k && high < 1e12) high *= 2;
  for (int step = 0; step < 80; ++step) {
    const double middle = (low + high) / 2;
    (total(middle) < top_k ? low : high) = middle;
  }
  std::vector<double> probabilities;
  probabilities.reserve(weights.size());
  for (const double weight : weights)
    probabilities.push_back(-std::expm1(-high * weight / largest));
  return probabilities;
}

// Experts in the order in which they lie on ranks. Popular experts are not neighbours: a fixed
// shuffle stands for "placed at random".
std::vector<double> zipf_probabilities(double exponent, std::int64_t experts, double top_k) {
  std::vector<double> weights(static_cast<std::size_t>(experts));
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    weights[rank] = std::pow(static_cast<double>(rank + 1), -exponent);
  }
  Random random(20240607);
  for (std::size_t last = weights.size() - 1; last > 0; --last) {
    std::swap(weights[last], weights[random.below(last + 1)]);
  }
  return inclusion_probabilities(weights, top_k);
}

// Recorded tokens per expert are inclusion counts already: pi_i = k * share, no more than 1.
Result<std::vector<double>> recorded_probabilities(const std::vector<double>& counts, double top_k,
                                                   const std::string& source) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::vector<double> probabilities;
  for (const double count : counts) {
    const double probability = top_k * count / total;
    // A token chooses an expert once: no expert can have more tokens than there were.
    if (probability > 1 + 1e-6) {
      return input_error(
          "{}: an expert has {} of {} choices, more than one in {}, which top-{} routing "
          "cannot give",
          source, count, total, top_k, top_k);
    }
    probabilities.push_back(std::min(1.0, probability));
  }
  return probabilities;
}

double standard_deviation(double tokens, double probability) {
  return std::sqrt(tokens * probability * (1 - probability));
}

// Experts that are chosen alike; under uniform routing there is one such group.
struct Alike {
  double probability = 0;
  double experts = 0;
};

std::vector<Alike> group_alike(std::vector<double> probabilities) {
  std::sort(probabilities.begin(), probabilities.end(), std::greater<>());
  std::vector<Alike> groups;
  for (const double probability : probabilities) {
    if (groups.empty() || groups.back().probability != probability)
      groups.push_back({probability, 0});
    groups.back().experts += 1;
  }
  return groups;
}

double capped_cdf(double tokens, double probability, double x) {
  const double mean = tokens * probability;
  const double spread = kFarTails * standard_deviation(tokens, probability) + kFarTails;
  if (x > mean + spread) return 1;
  if (x < mean - spread) return 0;
  return binomial_cdf(static_cast<std::int64_t>(tokens), probability, static_cast<std::int64_t>(x));
}

// Quantile of the load of an expert drawn at random: of the mixture of their binomials.
double mixture_quantile(const std::vector<Alike>& groups, double experts, double tokens, double q) {
  auto cdf = [&](double x) {
    double sum = 0;
    for (const Alike& group : groups)
      sum += group.experts * capped_cdf(tokens, group.probability, x);
    return sum / experts;
  };
  double low = -1;
  double high = tokens;
  while (high - low > 1) {
    const double middle = std::floor((low + high) / 2);
    (cdf(middle) < q ? low : high) = middle;
  }
  return high;
}

// E[max] of independent binomials (experts are slightly negatively correlated, which this ignores):
// the sum over x of 1 - prod F_i(x), in steps of at most 1/64 of the range where that is coarse.
double expected_busiest(const std::vector<Alike>& groups, double tokens) {
  double low = 0;
  double high = 0;
  for (const Alike& group : groups) {
    const double mean = tokens * group.probability;
    const double spread = standard_deviation(tokens, group.probability);
    low = std::max(low, mean - 2 * spread - 2);
    high = std::max(high, mean + kFarTails * spread + kFarTails);
  }
  low = std::floor(std::max(0.0, low));
  high = std::min(std::ceil(high), tokens);
  const double stride = std::max(1.0, std::ceil((high - low) / 128));
  double expected = low;
  for (double x = low; x < high; x += stride) {
    double all_below = 1;
    const double middle = x + std::floor((stride - 1) / 2);  // represents the stride's integers
    for (const Alike& group : groups) {
      all_below *= std::pow(capped_cdf(tokens, group.probability, middle), group.experts);
      if (all_below < 1e-12) break;
    }
    expected += std::min(stride, high - x) * (1 - all_below);
  }
  return expected;
}

struct Normal {
  double mean = 0;
  double deviation = 0;
};

// E[max] of independent normals. The ranks' loads sum to a constant; with that the pairwise
// correlation is -1/(R-1) and the variance (1 - 1/R) of the independent one, and the two factors
// cancel in the expected maximum, so independent variances are the right ones here.
double expected_max(const std::vector<Normal>& loads) {
  double low = 0;
  double high = 0;
  bool equal = true;
  for (const Normal& load : loads) {
    low = std::max(low, load.mean - 6 * load.deviation);
    high = std::max(high, load.mean + 8 * load.deviation);
    equal = equal && std::abs(load.mean - loads.front().mean) < 1e-9 * (1 + load.mean);
  }
  if (equal) {
    const auto count = static_cast<std::int64_t>(loads.size());
    return loads.front().mean + loads.front().deviation * expected_max_of_normals(count);
  }
  constexpr int kSteps = 64;  // the integrand is smooth: 1e-3 of a deviation
  const double stride = (high - low) / kSteps;
  double expected = low;
  for (int step = 0; step < kSteps; ++step) {
    const double x = low + (step + 0.5) * stride;
    double all_below = 1;
    for (const Normal& load : loads) {
      if (load.deviation > 0) {
        all_below *= normal_cdf((x - load.mean) / load.deviation);
      } else if (x < load.mean) {
        all_below = 0;
      }
    }
    expected += stride * (1 - all_below);
  }
  return expected;
}

void add_rank_stats(RoutingStats& stats, const std::vector<double>& probabilities, double tokens,
                    std::int64_t ranks, double top_k) {
  const std::size_t each = probabilities.size() / static_cast<std::size_t>(ranks);
  std::vector<Normal> rows(static_cast<std::size_t>(ranks));
  std::vector<Normal> distinct(static_cast<std::size_t>(ranks));
  for (std::size_t expert = 0; expert < probabilities.size(); ++expert) {
    const double chosen = probabilities[expert];
    const double active = -std::expm1(tokens * std::log1p(-std::min(chosen, 1 - 1e-15)));
    Normal& row = rows[expert / each];
    Normal& active_count = distinct[expert / each];
    row.mean += tokens * chosen;
    row.deviation += tokens * chosen * (1 - chosen);
    active_count.mean += active;
    active_count.deviation += active * (1 - active);
  }
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    rows[rank].deviation = std::sqrt(rows[rank].deviation);
    distinct[rank].deviation = std::sqrt(distinct[rank].deviation);
  }
  const auto count = static_cast<double>(ranks);
  stats.rank_rows_mean = tokens * top_k / count;
  stats.rank_distinct_mean = stats.distinct / count;
  if (ranks == 1) {
    stats.rank_rows_max = stats.rank_rows_mean;
    stats.rank_distinct_max = stats.rank_distinct_mean;
    return;
  }
  const double most_rows = tokens * std::min(top_k, static_cast<double>(each));
  stats.rank_rows_max = std::min(expected_max(rows), most_rows);
  stats.rank_distinct_max =
      std::min({expected_max(distinct), static_cast<double>(each), stats.rank_rows_max});
}

// What depends on each layer's own placement, and costs little: distinct experts and ranks.
RoutingStats placed_stats(const std::vector<double>& probabilities, double tokens,
                          std::int64_t ranks, double top_k) {
  RoutingStats stats;
  stats.tokens = tokens;
  for (const double probability : probabilities) {
    stats.distinct += -std::expm1(tokens * std::log1p(-std::min(probability, 1 - 1e-15)));
  }
  stats.rows_mean = tokens * top_k / stats.distinct;
  stats.rows_mean_all = tokens * top_k / static_cast<double>(probabilities.size());
  add_rank_stats(stats, probabilities, tokens, ranks, top_k);
  return stats;
}

// Quantiles and the busiest expert, from how popular the experts are, in whatever order.
void add_load_distribution(RoutingStats& stats, const std::vector<double>& probabilities,
                           double tokens) {
  const auto experts = static_cast<double>(probabilities.size());
  const std::vector<Alike> groups = group_alike(probabilities);
  stats.rows_p50 = mixture_quantile(groups, experts, tokens, 0.5);
  stats.rows_p99 = mixture_quantile(groups, experts, tokens, 0.99);
  stats.rows_max = std::max(expected_busiest(groups, tokens), stats.rows_mean);
}

RoutingStats stats_of_layer(const std::vector<double>& probabilities, double tokens,
                            std::int64_t ranks, double top_k) {
  RoutingStats stats = placed_stats(probabilities, tokens, ranks, top_k);
  add_load_distribution(stats, probabilities, tokens);
  return stats;
}

constexpr double RoutingStats::*kFields[] = {
    &RoutingStats::tokens,
    &RoutingStats::distinct,
    &RoutingStats::rows_mean,
    &RoutingStats::rows_mean_all,
    &RoutingStats::rows_p50,
    &RoutingStats::rows_p99,
    &RoutingStats::rows_max,
    &RoutingStats::rank_distinct_mean,
    &RoutingStats::rank_distinct_max,
    &RoutingStats::rank_rows_mean,
    &RoutingStats::rank_rows_max,
};
static_assert(sizeof(kFields) / sizeof(kFields[0]) * sizeof(double) == sizeof(RoutingStats),
              "every field of RoutingStats is averaged over layers");

void accumulate(RoutingStats& sum, const RoutingStats& part, double share) {
  for (double RoutingStats::*field : kFields) sum.*field += share * (part.*field);
}

// The mean over layers. The distribution of loads is that of a typical layer: the mean over layers
// of the most popular expert's probability, of the second's, and so on.
Result<RoutingStats> stats_of_recorded(const Routing& routing, std::int64_t experts, double top_k,
                                       double tokens, std::int64_t ranks) {
  RoutingStats sum;
  std::vector<double> profile(static_cast<std::size_t>(experts), 0);
  const double share = 1.0 / static_cast<double>(routing.counts.size());
  for (const std::vector<double>& counts : routing.counts) {
    if (static_cast<std::int64_t>(counts.size()) != experts) {
      return input_error("{}: \"counts\" has {} experts, the model {}", routing.source,
                         counts.size(), experts);
    }
    NIBBLE_ASSIGN_OR_RETURN(std::vector<double> probabilities,
                            recorded_probabilities(counts, top_k, routing.source));
    accumulate(sum, placed_stats(probabilities, tokens, ranks, top_k), share);
    std::sort(probabilities.begin(), probabilities.end(), std::greater<>());
    for (std::size_t rank = 0; rank < profile.size(); ++rank) {
      profile[rank] += share * probabilities[rank];
    }
  }
  add_load_distribution(sum, profile, tokens);
  return sum;
}

Result<std::vector<double>> read_counts(const Json& list, std::string_view where) {
  std::vector<double> counts;
  double total = 0;
  for (const Json& item : list.as_array()) {
    constexpr double kMostTokens = 1e15;  // above it sums of counts are no longer exact
    if (!item.is_number() || item.as_number() < 0 || item.as_number() > kMostTokens) {
      return input_error("{}: \"counts\" must hold numbers from 0 to {}", where, kMostTokens);
    }
    counts.push_back(item.as_number());
    total += item.as_number();
  }
  if (!(total > 0)) return input_error("{}: a layer's \"counts\" are empty or all zero", where);
  return counts;
}

}  // namespace

Routing Routing::uniform() {
  return {.source = "uniform"};
}

Routing Routing::zipf(double exponent) {
  return {
      .kind = Kind::kZipf, .zipf_exponent = exponent, .source = fmt::format("zipf:{}", exponent)};
}

Result<Routing> Routing::parse(std::string_view text) {
  if (text == "uniform") return uniform();
  if (text.starts_with("zipf:")) {
    const std::string_view number = text.substr(5);
    double exponent = -1;
    const auto [end, fault] = std::from_chars(number.begin(), number.end(), exponent);
    if (fault != std::errc{} || end != number.end() || !(exponent >= 0 && exponent <= 10)) {
      return usage_error("--routing is \"{}\"; give zipf:S with S between 0 and 10", text);
    }
    return zipf(exponent);
  }
  Result<std::string> file = read_file(std::string(text), kMaxRoutingBytes);
  if (!file.ok()) {
    return usage_error(
        "--routing is \"{}\", which is neither uniform, zipf:S nor a readable file ({})", text,
        file.error().message);
  }
  NIBBLE_ASSIGN_OR_RETURN(const Json json, Json::parse(*file, text));
  return parse_counts(json, text);
}

Result<Routing> Routing::parse_counts(const Json& json, std::string_view where) {
  ObjectReader reader(json, std::string(where));
  if (!reader.has("schema")) {
    reader.fault_at("schema", "is missing; write \"schema\": \"nibble.routing/1\"");
  }
  const std::string schema = reader.string("schema").value_or("");
  const Json* counts = reader.array("counts");
  reader.accept("source");
  if (counts == nullptr) reader.fault_at("counts", "is missing");
  if (!schema.empty() && schema != "nibble.routing/1") {
    reader.fault_at("schema", fmt::format("is \"{}\"; expected \"nibble.routing/1\"", schema));
  }
  NIBBLE_RETURN_IF_ERROR(reader.finish());
  Routing routing{.kind = Kind::kRecorded, .source = std::string(where)};
  const bool nested = !counts->as_array().empty() && counts->as_array().front().is_array();
  if (!nested) {
    NIBBLE_ASSIGN_OR_RETURN(std::vector<double> layer, read_counts(*counts, where));
    routing.counts.push_back(std::move(layer));
    return routing;
  }
  for (const Json& list : counts->as_array()) {
    if (!list.is_array()) return input_error("{}: \"counts\" mixes lists and numbers", where);
    NIBBLE_ASSIGN_OR_RETURN(std::vector<double> layer, read_counts(list, where));
    routing.counts.push_back(std::move(layer));
  }
  return routing;
}

Result<RoutingStats> routing_stats(const Routing& routing, std::int64_t experts, std::int64_t top_k,
                                   double tokens, std::int64_t ranks) {
  if (experts < 1 || top_k < 1 || top_k > experts || ranks < 1 || experts % ranks != 0) {
    return input_error("cannot route to top {} of {} experts on {} ranks", top_k, experts, ranks);
  }
  if (!(tokens >= 1))
    return input_error("a step of {} tokens routes nothing; give at least 1", tokens);
  tokens = std::round(tokens);
  const auto k = static_cast<double>(top_k);
  if (routing.kind == Routing::Kind::kUniform) {
    const std::vector<double> probabilities(static_cast<std::size_t>(experts),
                                            k / static_cast<double>(experts));
    return stats_of_layer(probabilities, tokens, ranks, k);
  }
  if (routing.kind == Routing::Kind::kZipf) {
    return stats_of_layer(zipf_probabilities(routing.zipf_exponent, experts, k), tokens, ranks, k);
  }
  return stats_of_recorded(routing, experts, k, tokens, ranks);
}

Json to_json(const RoutingStats& stats) {
  Json json = Json::object();
  json.set("tokens", stats.tokens).set("distinct_experts", stats.distinct);
  json.set("rows_per_distinct_expert_mean", stats.rows_mean);
  json.set("rows_per_expert_mean", stats.rows_mean_all);
  json.set("rows_per_expert_p50", stats.rows_p50).set("rows_per_expert_p99", stats.rows_p99);
  json.set("rows_busiest_expert", stats.rows_max);
  json.set("rank_distinct_experts_mean", stats.rank_distinct_mean);
  json.set("rank_distinct_experts_max", stats.rank_distinct_max);
  json.set("rank_rows_mean", stats.rank_rows_mean).set("rank_rows_max", stats.rank_rows_max);
  return json;
}

}  // namespace nibble
