#include "mock/distribution.h"

#include <cmath>
#include <gtest/gtest.h>

namespace nibble::mock {
namespace {

constexpr DistributionRange kRange{0, 1000};

Distribution parsed_distribution(std::string_view text) {
  const auto result = parse_distribution(text, kRange);
  EXPECT_TRUE(result.ok()) << text;
  return result.ok() ? *result : Distribution{};
}

struct Moments {
  double mean = 0;
  double stddev = 0;
};

Moments moments(const Distribution& distribution, int draws = 40'000) {
  Random random(7);
  double sum = 0;
  double squares = 0;
  for (int draw = 0; draw < draws; ++draw) {
    const double value = distribution.at(random, static_cast<std::uint64_t>(draw));
    EXPECT_GE(value, 0);
    sum += value;
    squares += value * value;
  }
  const double mean = sum / draws;
  return {mean, std::sqrt(squares / draws - mean * mean)};
}

TEST(MockDistribution, FormsOfAFlag) {
  EXPECT_EQ(parsed_distribution("50"), Distribution::constant(50));
  EXPECT_EQ(parsed_distribution("uniform:40..60"),
            (Distribution{.kind = DistributionKind::kUniform, .first = 40, .second = 60}));
  EXPECT_EQ(parsed_distribution("uniform:40,60"), parsed_distribution("uniform:40..60"));
  EXPECT_EQ(parsed_distribution("gamma:10,5"),
            (Distribution{.kind = DistributionKind::kGamma, .first = 10, .second = 5}));
  EXPECT_EQ(parsed_distribution("exponential:3"),
            (Distribution{.kind = DistributionKind::kExponential, .first = 3}));
  EXPECT_EQ(parsed_distribution("list:1,2,3"),
            (Distribution{.kind = DistributionKind::kList, .list = {1, 2, 3}}));
}

TEST(MockDistribution, RefusesWhatIsNoDistribution) {
  for (const char* text : {"", "fast", "normal:1", "gamma:1,2,3", "uniform:9..1", "list:", "nan",
                           "inf", "1e9", "-1", "normal:5,-1", "gamma:0,1", "list:1,x", ":1"}) {
    EXPECT_FALSE(parse_distribution(text, kRange).ok()) << text;
  }
}

TEST(MockDistribution, JsonAndBack) {
  for (const char* text : {"50", "uniform:40..60", "normal:50,5", "lognormal:50,5", "gamma:10,5",
                           "exponential:3", "list:1,2,3"}) {
    const Distribution distribution = parsed_distribution(text);
    const auto again = distribution_from_json(to_json(distribution), "x", kRange);
    ASSERT_TRUE(again.ok()) << text;
    EXPECT_EQ(*again, distribution) << text;
  }
  for (const char* text : {R"("50")", "[]", R"([1,"2"])", R"({"kind":"beta"})",
                           R"({"kind":"gamma","mean":1})", R"({"kind":"constant","mean":1})",
                           R"({"kind":"normal","mean":1,"stddev":1,"more":1})", "true"}) {
    const auto json = Json::parse(text, "x");
    ASSERT_TRUE(json.ok());
    EXPECT_FALSE(distribution_from_json(*json, "x", kRange).ok()) << text;
  }
}

TEST(MockDistribution, MomentsAreThoseThatWereAskedFor) {
  // 40,000 draws: the standard error of a mean is sd / 200; five of them.
  struct Case {
    const char* text;
    double mean, stddev;
  };
  for (const Case& each :
       {Case{"uniform:40..60", 50, 20 / std::sqrt(12.0)}, Case{"normal:50,5", 50, 5},
        Case{"lognormal:50,20", 50, 20}, Case{"gamma:10,5", 10, 5}, Case{"gamma:10,20", 10, 20},
        Case{"exponential:3", 3, 3}}) {
    const Moments found = moments(parsed_distribution(each.text));
    EXPECT_NEAR(found.mean, each.mean, each.stddev / 40) << each.text;
    EXPECT_NEAR(found.stddev, each.stddev, each.stddev / 15) << each.text;
  }
}

TEST(MockDistribution, ListsAreReplayed) {
  const Distribution list = parsed_distribution("list:5,6,7");
  Random random(1);
  for (std::uint64_t position = 0; position < 7; ++position) {
    EXPECT_EQ(list.at(random, position), 5 + static_cast<double>(position % 3));
  }
}

TEST(MockDistribution, CountsAreWholeAndNotBelowTheLeast) {
  Random random(1);
  EXPECT_EQ(Distribution::constant(2.5).count_at(random, 0, 1), 3);
  EXPECT_EQ(Distribution::constant(0).count_at(random, 0, 1), 1);
  EXPECT_EQ(Distribution::constant(0).count_at(random, 0, 0), 0);
}

TEST(MockDistribution, EveryPurposeHasItsOwnSequence) {
  const std::uint64_t seed = stream_seed(1, 0, Draw::kItl);
  EXPECT_EQ(seed, stream_seed(1, 0, Draw::kItl));
  EXPECT_NE(seed, stream_seed(2, 0, Draw::kItl));
  EXPECT_NE(seed, stream_seed(1, 1, Draw::kItl));
  EXPECT_NE(seed, stream_seed(1, 0, Draw::kTtft));
  EXPECT_NE(stream_seed(1, 0, Draw::kFault, 0), stream_seed(1, 0, Draw::kFault, 1));
}

}  // namespace
}  // namespace nibble::mock
