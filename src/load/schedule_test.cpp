// Expected moments are those of the distributions; intervals are 5 standard errors of an estimate
// from so many draws, so that a wrong sampler fails and no seed is lucky.
#include "load/schedule.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

namespace nibble::load {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMany = 100000;

std::vector<double> seconds_of(const ScheduleOptions& options) {
  ArrivalTimes times = ArrivalTimes::make(options).value();
  std::vector<double> all;
  while (const auto due = times.next()) all.push_back(seconds(*due));
  return all;
}

std::vector<double> gaps(const std::vector<double>& times) {
  std::vector<double> all;
  for (std::size_t index = 0; index < times.size(); ++index) {
    all.push_back(times[index] - (index == 0 ? 0 : times[index - 1]));
  }
  return all;
}

// Kolmogorov and Smirnov: the largest distance between the empirical and a true distribution.
double distance(std::vector<double> samples, const std::function<double(double)>& cdf) {
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  double largest = 0;
  for (std::size_t index = 0; index < samples.size(); ++index) {
    const double expected = cdf(samples[index]);
    largest = std::max({largest, std::abs(static_cast<double>(index + 1) / n - expected),
                        std::abs(static_cast<double>(index) / n - expected)});
  }
  return largest;
}

TEST(Schedule, AllAtOnce) {
  EXPECT_EQ(seconds_of({.requests = 3}), (std::vector<double>{0, 0, 0}));
}

TEST(Schedule, ConstantRate) {
  EXPECT_EQ(seconds_of({.request_rate = 4, .burstiness = kInfinite, .requests = 4}),
            (std::vector<double>{0, 0.25, 0.5, 0.75}));
  // No drift: request 3,000,000 at 3 a second is due after 1e6 s, to the nanosecond.
  ArrivalTimes times =
      ArrivalTimes::make({.request_rate = 3, .burstiness = kInfinite, .requests = 3000001}).value();
  Nanoseconds last = 0;
  while (const auto due = times.next()) last = *due;
  EXPECT_EQ(last, 1000000000000000);
}

// Of a gamma with shape k and mean m: variance m^2 / k, excess kurtosis 6 / k; the variance of a
// sample variance from n draws is (2 + 6 / k) / n in units of the variance squared.
TEST(Schedule, MomentsOfGaps) {
  constexpr double kRate = 20;
  const auto n = static_cast<double>(kMany);
  for (const double shape : {0.25, 0.5, 1.0, 2.0, 10.0}) {
    SCOPED_TRACE(shape);
    const std::vector<double> sample = gaps(
        seconds_of({.request_rate = kRate, .burstiness = shape, .requests = kMany, .seed = 11}));
    const double variance = 1 / (kRate * kRate * shape);
    EXPECT_NEAR(mean(sample), 1 / kRate, 5 * std::sqrt(variance / n));
    EXPECT_NEAR(sample_variance(sample) / variance, 1, 5 * std::sqrt((2 + 6 / shape) / n));
    // Neighbours do not depend on each other: the error of a correlation is 1 / sqrt(n).
    double products = 0;
    for (std::size_t index = 1; index < sample.size(); ++index) {
      products += (sample[index] - 1 / kRate) * (sample[index - 1] - 1 / kRate);
    }
    EXPECT_NEAR(products / n / variance, 0, 5 / std::sqrt(n));
  }
}

TEST(Schedule, DistributionsOfGaps) {
  // sqrt(n) D exceeds 2.23 with probability 1e-4 where the distribution is right.
  const double most = 2.23 / std::sqrt(static_cast<double>(kMany));
  const auto sample = [](double shape) {
    return gaps(seconds_of({.request_rate = 1, .burstiness = shape, .requests = kMany, .seed = 5}));
  };
  EXPECT_LT(distance(sample(1), [](double x) { return 1 - std::exp(-x); }), most);
  // Shape 2, mean 1: Erlang. Shape 1/2, mean 1: a squared normal.
  EXPECT_LT(distance(sample(2), [](double x) { return 1 - (1 + 2 * x) * std::exp(-2 * x); }), most);
  EXPECT_LT(distance(sample(0.5), [](double x) { return std::erf(std::sqrt(x / 2)); }), most);
  // The test can fail: these are no exponential.
  EXPECT_GT(distance(sample(2), [](double x) { return 1 - std::exp(-x); }), 10 * most);
}

TEST(Schedule, PoissonCountsPerSecond) {
  // Arrivals in a second: mean and variance are both the rate. 50,000 s of rate 2.
  const std::vector<double> times = seconds_of({.request_rate = 2, .requests = kMany, .seed = 3});
  std::vector<double> counts(static_cast<std::size_t>(times.back()));
  for (const double time : times) {
    const auto second = static_cast<std::size_t>(time);
    if (second < counts.size()) counts[second] += 1;
  }
  const auto n = static_cast<double>(counts.size());
  EXPECT_NEAR(mean(counts), 2, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(sample_variance(counts), 2, 5 * 2 * std::sqrt((2 + 1.0 / 2) / n));
}

TEST(Schedule, SameSeedSameTimes) {
  const ScheduleOptions options = {.request_rate = 5, .requests = 50, .seed = 1};
  ScheduleOptions other = options;
  other.seed = 2;
  EXPECT_EQ(seconds_of(options), seconds_of(options));
  EXPECT_NE(seconds_of(options), seconds_of(other));
}

TEST(Schedule, RampsAsVllm) {
  // Constant gaps: each request waits 1 / rate of the one before it. Rates 1, 2, 3, 4, 5.
  const std::vector<double> linear = seconds_of(
      {.burstiness = kInfinite, .ramp_up = RampUp{.start_rps = 1, .end_rps = 5}, .requests = 5});
  const std::vector<double> expected = {0, 1, 1 + 1.0 / 2, 1 + 1.0 / 2 + 1.0 / 3,
                                        1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4};
  ASSERT_EQ(linear.size(), expected.size());
  for (std::size_t index = 0; index < 5; ++index) EXPECT_NEAR(linear[index], expected[index], 1e-9);
  // Rates 1, 10, 100.
  const std::vector<double> exponential = seconds_of(
      {.burstiness = kInfinite,
       .ramp_up = RampUp{.strategy = RampStrategy::kExponential, .start_rps = 1, .end_rps = 100},
       .requests = 3});
  EXPECT_NEAR(exponential[1], 1, 1e-9);
  EXPECT_NEAR(exponential[2], 1.1, 1e-9);
  // One request only: no division by zero.
  EXPECT_EQ(seconds_of({.burstiness = kInfinite,
                        .ramp_up = RampUp{.start_rps = 1, .end_rps = 5},
                        .requests = 1}),
            std::vector<double>{0});
}

TEST(Schedule, RandomRampHasTheMeanOfItsRates) {
  // Gaps are exponential with mean 1 / rate_i: the last arrival's mean is the sum of 1 / rate_i,
  // its variance the sum of their squares.
  constexpr std::int64_t kRequests = 20000;
  double mean_s = 0;
  double variance = 0;
  for (std::int64_t index = 0; index < kRequests; ++index) {
    const double rate = 10 + 90 * static_cast<double>(index) / (kRequests - 1);
    mean_s += 1 / rate;
    variance += 1 / (rate * rate);
  }
  const std::vector<double> times = seconds_of(
      {.ramp_up = RampUp{.start_rps = 10, .end_rps = 100}, .requests = kRequests, .seed = 9});
  EXPECT_NEAR(times.back(), mean_s, 5 * std::sqrt(variance));
}

TEST(Schedule, Refusals) {
  const auto refused = [](ScheduleOptions options) {
    return ArrivalTimes::make(options).error().message;
  };
  EXPECT_EQ(refused({}), "no requests are asked for; give 1 or more");
  for (const double rate : {0.0, -1.0, std::nan(""), -kInfinite, 1e12}) {
    EXPECT_NE(refused({.request_rate = rate, .requests = 1}).find("the request rate is"),
              std::string::npos);
  }
  for (const double shape : {0.0, -1.0, std::nan("")}) {
    EXPECT_NE(refused({.burstiness = shape, .requests = 1}).find("burstiness is"),
              std::string::npos);
  }
  EXPECT_NE(refused({.ramp_up = RampUp{.start_rps = 0, .end_rps = 1}, .requests = 1})
                .find("the ramp's start is 0"),
            std::string::npos);
}

TEST(Schedule, NeverFallsAndNeverOverflows) {
  for (const double shape : {0.001, 0.01, 1.0, 1e9}) {
    ArrivalTimes times =
        ArrivalTimes::make({.request_rate = 1e-6, .burstiness = shape, .requests = 10000}).value();
    Nanoseconds before = 0;
    while (const auto due = times.next()) {
      ASSERT_GE(*due, before);
      before = *due;
    }
  }
}

TEST(Stagger, SpreadsStartsOverTheRamp) {
  EXPECT_EQ(stagger(0, 4, 1000), 0);
  EXPECT_EQ(stagger(3, 4, 1000), 750);
  EXPECT_EQ(stagger(3, 4, 0), 0);
  EXPECT_EQ(stagger(3, 4, -5), 0);
}

TEST(Trace, SecondsAndMooncake) {
  EXPECT_EQ(*parse_trace("# arrivals\n0.5\n\n1.25\r\n1.25", "t"),
            (std::vector<Nanoseconds>{500000000, 1250000000, 1250000000}));
  EXPECT_EQ(
      *parse_trace("{\"timestamp\": 27482, \"input_length\": 6955, \"hash_ids\": [1]}\n", "t"),
      std::vector<Nanoseconds>{27482000000});
  EXPECT_EQ(*parse_trace("0\n3\n", "t", 1.5), (std::vector<Nanoseconds>{0, 2000000000}));
  ArrivalTimes times = ArrivalTimes::replay(*parse_trace("5\n7\n", "t"));
  EXPECT_EQ(times.requests(), 2);
  EXPECT_EQ(times.next(), 0);
  EXPECT_EQ(times.next(), 2000000000);
  EXPECT_EQ(times.next(), std::nullopt);
}

TEST(Trace, Refusals) {
  EXPECT_EQ(parse_trace("1\nx\n", "t").error().message,
            "t: line 2 is no time: \"x\"; give seconds, or an object with \"timestamp\" in "
            "milliseconds");
  EXPECT_EQ(parse_trace("2\n1\n", "t").error().message,
            "t: line 2 lies before the line above it; sort the trace");
  EXPECT_EQ(parse_trace("\n#\n", "t").error().message, "t: the trace holds no time");
  for (const char* text : {"-1", "nan", "inf", "1e30", "1 2", "{}", "{\"timestamp\":\"1\"}", "{"}) {
    EXPECT_FALSE(parse_trace(text, "t").ok()) << text;
  }
  EXPECT_FALSE(parse_trace("1", "t", 0).ok());
  EXPECT_FALSE(load_trace("/nonexistent/trace").ok());
}

}  // namespace
}  // namespace nibble::load
