#include "telemetry/histogram.h"

#include <gtest/gtest.h>
#include <limits>

namespace nibble::telemetry {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

Histogram make(std::vector<HistogramBucket> buckets) {
  Histogram histogram;
  histogram.buckets = std::move(buckets);
  histogram.count = histogram.buckets.back().count;
  return histogram;
}

TEST(Histogram, AddsUpItsSeries) {
  const MetricsPage page = parse_metrics(R"(# TYPE vllm:ttft histogram
vllm:ttft_bucket{engine="0",le="0.1"} 1
vllm:ttft_bucket{engine="0",le="+Inf"} 4
vllm:ttft_bucket{engine="1",le="+Inf"} 3
vllm:ttft_bucket{le="0.1",engine="1"} 2
vllm:ttft_sum{engine="0"} 1.5
vllm:ttft_sum{engine="1"} 2
vllm:ttft_count{engine="0"} 4
)");
  const Result<std::optional<Histogram>> found = find_histogram(page, "vllm:ttft");
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_TRUE(found->has_value());
  const Histogram& histogram = **found;
  ASSERT_EQ(histogram.buckets.size(), 2U);
  EXPECT_EQ(histogram.buckets[0].upper, 0.1);
  EXPECT_EQ(histogram.buckets[0].count, 3);
  EXPECT_EQ(histogram.buckets[1].count, 7);
  EXPECT_EQ(histogram.sum, 3.5);
  EXPECT_EQ(histogram.count, 7);
  EXPECT_FALSE(find_histogram(page, "vllm:itl")->has_value());
}

TEST(Histogram, RefusesSeriesOfDifferentBuckets) {
  const MetricsPage page = parse_metrics(
      "h_bucket{e=\"0\",le=\"1\"} 1\nh_bucket{e=\"0\",le=\"+Inf\"} 1\n"
      "h_bucket{e=\"1\",le=\"2\"} 1\nh_bucket{e=\"1\",le=\"+Inf\"} 1\n");
  EXPECT_EQ(find_histogram(page, "h").error().message,
            "histogram h: its series have different buckets and cannot be added");
  EXPECT_FALSE(find_histogram(parse_metrics("h_bucket{le=\"1\"} 1\n"), "h").ok());  // no +Inf
  EXPECT_FALSE(
      find_histogram(parse_metrics("h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\n"), "h").ok());
  EXPECT_FALSE(find_histogram(parse_metrics("h_bucket{le=\"x\"} 2\n"), "h").ok());
  EXPECT_FALSE(
      find_histogram(parse_metrics("h_bucket{le=\"1\"} NaN\nh_bucket{le=\"+Inf\"} 1\n"), "h").ok());
}

// An end that is no number has no place among the others, and a count that no double holds exactly
// would make differences that are not there.
TEST(Histogram, RefusesEndsAndCountsThatAreNone) {
  for (const char* end : {"NaN", "nan", "-Inf", "", "1 2", "0x1"}) {
    std::string text;
    for (int at = 0; at < 40; ++at) text += fmt::format("h_bucket{{le=\"{}\"}} {}\n", at, at);
    text += fmt::format("h_bucket{{le=\"{}\"}} 40\nh_bucket{{le=\"+Inf\"}} 40\n", end);
    const auto found = find_histogram(parse_metrics(text), "h");
    ASSERT_FALSE(found.ok()) << end;
    EXPECT_EQ(found.error().message, "histogram h has a bucket without a number in le");
  }
  EXPECT_FALSE(find_histogram(parse_metrics("h_bucket{le=\"-Inf\"} 5\n"), "h").ok());
  EXPECT_FALSE(find_histogram(parse_metrics("h_bucket{le=\"+Inf\"} 1e308\n"), "h").ok());
  EXPECT_TRUE(find_histogram(parse_metrics("h_bucket{le=\"+Inf\"} 9007199254740992\n"), "h").ok());
}

TEST(Histogram, RefusesBucketsWithoutEnd) {
  std::string text = "h_bucket{le=\"+Inf\"} 1\n";
  for (int at = 0; at < 999; ++at) text += fmt::format("h_bucket{{le=\"{}\"}} 0\n", at);
  EXPECT_TRUE(find_histogram(parse_metrics(text), "h").ok());
  text += "h_bucket{le=\"999\"} 0\n";
  EXPECT_EQ(find_histogram(parse_metrics(text), "h").error().message,
            "histogram h has more than 1000 buckets");
}

TEST(Histogram, DifferenceRefusesMixedBucketsAndRestarts) {
  const Histogram before = make({{0.1, 10}, {0.5, 20}, {kInfinite, 30}});
  const Histogram after = make({{0.1, 12}, {0.5, 26}, {kInfinite, 37}});
  const Result<Histogram> grown = histogram_difference(before, after);
  ASSERT_TRUE(grown.ok());
  EXPECT_EQ(grown->buckets[0].count, 2);
  EXPECT_EQ(grown->buckets[1].count, 6);
  EXPECT_EQ(grown->count, 7);
  const Histogram other = make({{0.1, 12}, {0.25, 20}, {kInfinite, 37}});
  EXPECT_EQ(histogram_difference(before, other).error().message,
            "the two scrapes have different buckets and cannot be compared");
  EXPECT_FALSE(histogram_difference(before, make({{0.1, 12}, {kInfinite, 37}})).ok());
  EXPECT_EQ(histogram_difference(after, before).error().message,
            "a bucket's count went back between the scrapes: the server was restarted");
}

TEST(Histogram, QuantileIsInterpolatedAndSaysSo) {
  // 10 up to 1, 30 from there to 2, 10 to 4: the median's rank 25 is the 15th of 30 in (1, 2].
  const Histogram histogram = make({{1, 10}, {2, 40}, {4, 50}, {kInfinite, 50}});
  const Result<HistogramQuantile> middle = histogram_quantile(histogram, 0.5);
  ASSERT_TRUE(middle.ok());
  EXPECT_DOUBLE_EQ(middle->value, 1.5);
  EXPECT_EQ(middle->low, 1);
  EXPECT_EQ(middle->high, 2);
  EXPECT_EQ(middle->text, "interpolated in bucket [1, 2]");
  EXPECT_DOUBLE_EQ(histogram_quantile(histogram, 0.1)->value, 0.5);  // rank 5 of 10 in (0, 1]
  EXPECT_DOUBLE_EQ(histogram_quantile(histogram, 0.9)->value, 3);    // rank 45, 5 of 10 in (2, 4]
  EXPECT_DOUBLE_EQ(histogram_quantile(histogram, 1)->value, 4);
  EXPECT_DOUBLE_EQ(histogram_quantile(histogram, 0)->value, 0);
}

TEST(Histogram, QuantileBeyondTheBucketsIsNoNumber) {
  const Histogram histogram = make({{1, 10}, {kInfinite, 20}});
  EXPECT_EQ(histogram_quantile(histogram, 0.99).error().message,
            "it lies above the last bucket, at more than 1");
  EXPECT_DOUBLE_EQ(histogram_quantile(histogram, 0.5)->value, 1);
  EXPECT_FALSE(histogram_quantile(make({{1, 0}, {kInfinite, 0}}), 0.5).ok());
  EXPECT_FALSE(histogram_quantile(histogram, 1.1).ok());
  EXPECT_FALSE(histogram_quantile(make({{kInfinite, 5}}), 0.5).ok());
}

TEST(Histogram, QuantileOfABucketWiderThanADouble) {
  const Histogram histogram = make({{-1.5e308, 0}, {1.5e308, 4}, {kInfinite, 4}});
  EXPECT_DOUBLE_EQ(histogram_quantile(histogram, 0.5)->value, 0);
  EXPECT_DOUBLE_EQ(histogram_quantile(histogram, 1)->value, 1.5e308);
}

TEST(Histogram, QuantilePassesOverEmptyBuckets) {
  const Histogram histogram = make({{1, 0}, {2, 0}, {4, 8}, {kInfinite, 8}});
  EXPECT_DOUBLE_EQ(histogram_quantile(histogram, 0.25)->value, 2.5);  // 2 of 8 in (2, 4]
  EXPECT_DOUBLE_EQ(histogram_quantile(histogram, 0)->value, 2);
}

}  // namespace
}  // namespace nibble::telemetry
