#include "ledger/routing.h"

#include <cmath>
#include <gtest/gtest.h>

namespace nibble {
namespace {

RoutingStats stats(const Routing& routing, std::int64_t experts, std::int64_t top_k, double tokens,
                   std::int64_t ranks = 1) {
  Result<RoutingStats> result = routing_stats(routing, experts, top_k, tokens, ranks);
  EXPECT_TRUE(result.ok());
  return result.ok() ? *result : RoutingStats{};
}

// A Monte-Carlo simulation of more than 20,000 draws, made apart from this program (facts on MoE
// arithmetic, 4.1): experts, top-k, tokens; distinct and busiest expert for uniform routing and for
// Zipf sampling weights.
struct Row {
  std::int64_t experts, top_k;
  double tokens, formula, uniform_max, zipf_half, zipf_half_max, zipf_one, zipf_one_max, rows;
};
constexpr Row kSimulated[] = {
    {256, 8, 1, 8.0, 1.0, 8.0, 1.0, 8.0, 1.0, 1.00},
    {256, 8, 8, 57.4, 2.3, 54.7, 3.0, 42.3, 6.6, 1.11},
    {256, 8, 16, 102.0, 3.3, 94.2, 4.9, 68.5, 12.7, 1.26},
    {256, 8, 32, 163.3, 4.7, 148.1, 8.6, 105.5, 25.1, 1.57},
    {256, 8, 64, 222.4, 6.8, 204.8, 16.0, 151.9, 50.4, 2.30},
    {256, 8, 128, 251.6, 10.6, 243.1, 30.8, 200.6, 100.7, 4.07},
    {256, 8, 256, 255.9, 16.9, 255.1, 60.9, 237.7, 201.6, 8.00},
    {128, 8, 16, 82.4, 4.2, 75.8, 6.2, 57.9, 13.6, 1.55},
    {128, 8, 32, 111.8, 6.2, 103.6, 11.3, 82.2, 26.8, 2.29},
    {128, 8, 64, 125.9, 9.9, 122.2, 21.7, 105.7, 53.2, 4.07},
    {160, 8, 32, 129.0, 5.6, 118.6, 10.4, 89.9, 26.3, 1.98},
    {32, 4, 32, 31.6, 8.3, 30.9, 12.3, 28.1, 22.9, 4.06},
    {128, 1, 256, 110.8, 6.5, 102.5, 12.7, 74.7, 46.7, 2.31},
};

TEST(Routing, UniformDistinctExperts) {
  for (const Row& row : kSimulated) {
    const RoutingStats s = stats(Routing::uniform(), row.experts, row.top_k, row.tokens);
    EXPECT_NEAR(s.distinct, row.formula, 0.051)
        << row.experts << " " << row.tokens;  // printed to 0.1
    EXPECT_NEAR(s.rows_mean, row.rows, 0.0051) << row.experts << " " << row.tokens;
  }
}

TEST(Routing, UniformIsTheClosedForm) {
  const RoutingStats s = stats(Routing::uniform(), 256, 8, 100);
  EXPECT_NEAR(s.distinct, 256 * (1 - std::pow(1 - 8.0 / 256, 100)), 1e-9);
}

TEST(Routing, BusiestExpertOfUniformRouting) {
  // Experts are taken as independent binomials; they are slightly negatively correlated.
  for (const Row& row : kSimulated) {
    const RoutingStats s = stats(Routing::uniform(), row.experts, row.top_k, row.tokens);
    EXPECT_NEAR(s.rows_max, row.uniform_max, 0.1 + 0.02 * row.uniform_max)
        << row.experts << " " << row.tokens;
  }
}

TEST(Routing, ZipfDistinctExperts) {
  // The conditional Poisson approximation of pi_i is within 3 % of the simulation.
  for (const Row& row : kSimulated) {
    const RoutingStats half = stats(Routing::zipf(0.5), row.experts, row.top_k, row.tokens);
    const RoutingStats one = stats(Routing::zipf(1), row.experts, row.top_k, row.tokens);
    EXPECT_NEAR(half.distinct, row.zipf_half, 0.03 * row.zipf_half)
        << row.experts << " " << row.tokens;
    EXPECT_NEAR(one.distinct, row.zipf_one, 0.03 * row.zipf_one)
        << row.experts << " " << row.tokens;
    EXPECT_NEAR(half.rows_max, row.zipf_half_max, 0.2 + 0.06 * row.zipf_half_max)
        << row.experts << " " << row.tokens;
    EXPECT_NEAR(one.rows_max, row.zipf_one_max, 0.2 + 0.06 * row.zipf_one_max)
        << row.experts << " " << row.tokens;
  }
}

TEST(Routing, ZipfZeroIsUniform) {
  const RoutingStats zipf = stats(Routing::zipf(0), 256, 8, 32);
  EXPECT_NEAR(zipf.distinct, stats(Routing::uniform(), 256, 8, 32).distinct, 1e-6);
}

TEST(Routing, UniformIsTheMaximum) {
  // D is concave in pi, so skew can only lower it.
  double last = stats(Routing::uniform(), 256, 8, 64).distinct;
  for (const double exponent : {0.25, 0.5, 1.0, 1.5}) {
    const double distinct = stats(Routing::zipf(exponent), 256, 8, 64).distinct;
    EXPECT_LT(distinct, last);
    last = distinct;
  }
}

TEST(Routing, BusiestRankOfUniformRouting) {
  // The same simulation: max / mean over R ranks of the tokens that they receive.
  struct RankRow {
    std::int64_t ranks;
    double tokens, ratio;
  };
  for (const RankRow& row : {RankRow{8, 16, 1.36},
                             {8, 64, 1.18},
                             {8, 256, 1.09},
                             {8, 1024, 1.04},
                             {32, 16, 2.10},
                             {32, 64, 1.53},
                             {32, 256, 1.26}}) {
    const RoutingStats s = stats(Routing::uniform(), 256, 8, row.tokens, row.ranks);
    EXPECT_NEAR(s.rank_rows_max / s.rank_rows_mean, row.ratio, 0.04 * row.ratio)
        << row.ranks << " " << row.tokens;
  }
  // R = 8, B = 16: 16.9 distinct experts on the fullest rank, 12.8 on average.
  const RoutingStats s = stats(Routing::uniform(), 256, 8, 16, 8);
  EXPECT_NEAR(s.rank_distinct_mean, 12.8, 0.06);
  EXPECT_NEAR(s.rank_distinct_max, 16.9, 0.3);
}

TEST(Routing, QuantilesOfUniformRouting) {
  // 1,024 tokens, pi = 1/32: Binomial with mean 32 and deviation 5.57; p99 = 46
  // (scipy.stats.binom.ppf).
  const RoutingStats s = stats(Routing::uniform(), 256, 8, 1024);
  EXPECT_EQ(s.rows_p50, 32);
  EXPECT_EQ(s.rows_p99, 46);
  EXPECT_DOUBLE_EQ(s.rows_mean_all, 32);
}

TEST(Routing, RecordedCounts) {
  // Expert 0 in every token, the others in a third each: top-2 of 4, pi = {1, 1/3, 1/3, 1/3}.
  // With 2 tokens D = 1 + 3 * (1 - (2/3)^2) = 2.667.
  const Json json =
      *Json::parse(R"({"schema": "nibble.routing/1", "counts": [300, 100, 100, 100]})", "t");
  const RoutingStats s = stats(*Routing::parse_counts(json, "t"), 4, 2, 2);
  EXPECT_NEAR(s.distinct, 1 + 3 * (1 - 4.0 / 9), 1e-9);
  EXPECT_NEAR(s.rows_max, 2, 1e-9);
}

TEST(Routing, RecordedCountsPerLayerAreAveraged) {
  const Json json =
      *Json::parse(R"({"schema": "nibble.routing/1", "counts": [[1, 1], [1, 0]]})", "t");
  // Top-1 of 2 and one token: D = 1 in both layers; two tokens: 1.5 and 1.
  EXPECT_NEAR(stats(*Routing::parse_counts(json, "t"), 2, 1, 1).distinct, 1, 1e-9);
  EXPECT_NEAR(stats(*Routing::parse_counts(json, "t"), 2, 1, 2).distinct, 1.25, 1e-9);
}

TEST(Routing, EqualCountsInEveryLayerAreUniform) {
  Routing recorded{.kind = Routing::Kind::kRecorded, .source = "t"};
  recorded.counts.assign(75, std::vector<double>(256, 1e15));
  const RoutingStats many = stats(recorded, 256, 8, 64, 8);
  const RoutingStats uniform = stats(Routing::uniform(), 256, 8, 64, 8);
  EXPECT_NEAR(many.distinct, uniform.distinct, 1e-6);
  EXPECT_EQ(many.rows_p50, uniform.rows_p50);
  EXPECT_EQ(many.rows_p99, uniform.rows_p99);
  EXPECT_NEAR(many.rows_max, uniform.rows_max, 1e-6);
  EXPECT_NEAR(many.rank_rows_max, uniform.rank_rows_max, 1e-6);
}

TEST(Routing, ImpossibleCountsAreRefused) {
  const Json json = *Json::parse(R"({"schema": "nibble.routing/1", "counts": [90, 5, 5]})", "t");
  const Result<RoutingStats> result = routing_stats(*Routing::parse_counts(json, "t"), 3, 2, 4, 1);
  ASSERT_FALSE(result.ok());  // 90 of 100 choices are more than one of two per token
  EXPECT_NE(result.error().message.find("more than one in 2"), std::string::npos)
      << result.error().message;
  EXPECT_FALSE(
      routing_stats(*Routing::parse_counts(json, "t"), 4, 2, 4, 1).ok());  // 3 counts, 4 experts
}

TEST(Routing, BadText) {
  for (const char* text :
       {"zipf", "zipf:", "zipf:x", "zipf:-1", "zipf:1e9", "zipf:nan", "no-such-file", "/"}) {
    const Result<Routing> result = Routing::parse(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().kind, ErrorKind::kUsage) << text;
  }
  for (const char* text :
       {"{}", R"({"schema": "nibble.routing/2", "counts": [1]})",
        R"({"schema": "nibble.routing/1", "counts": []})",
        R"({"schema": "nibble.routing/1", "counts": [0, 0]})",
        R"({"schema": "nibble.routing/1", "counts": [1, -1]})",
        R"({"schema": "nibble.routing/1", "counts": [1e308, 1e308]})", R"({"counts": [1]})",
        R"({"schema": "nibble.routing/1", "counts": [[1], 2]})",
        R"({"schema": "nibble.routing/1", "counts": [1], "extra": 1})"}) {
    EXPECT_FALSE(Routing::parse_counts(*Json::parse(text, "t"), "t").ok()) << text;
  }
}

TEST(Routing, RanksMustDivideExperts) {
  EXPECT_FALSE(routing_stats(Routing::uniform(), 256, 8, 32, 7).ok());
  EXPECT_FALSE(routing_stats(Routing::uniform(), 8, 9, 32, 1).ok());
  EXPECT_FALSE(routing_stats(Routing::uniform(), 8, 2, 0, 1).ok());
}

}  // namespace
}  // namespace nibble
