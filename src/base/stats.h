// Statistics for bench, tuner, load test and diagnosis alike. All functions take samples in any
// order and say what they cannot compute instead of returning a guess.
//
//   const std::optional<Interval> interval = quantile_interval(times_us, 0.5, 0.95);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace nibble {

struct Interval {
  double low = 0;
  double high = 0;
};

double mean(std::span<const double> samples);             // samples must not be empty
double sample_variance(std::span<const double> samples);  // n - 1; needs two samples
// Linear interpolation between order statistics (numpy's default); q in [0, 1].
double quantile(std::span<const double> samples, double q);
double median(std::span<const double> samples);

// Distribution-free interval of the q-quantile from order statistics (binomial), at least
// `confidence` sure; nullopt when the sample is too small to carry it. Equal tails where the sample
// allows them, otherwise the shortest tail that it has.
std::optional<Interval> quantile_interval(std::span<const double> samples, double q,
                                          double confidence);
// The same as ranks, counted from 1, for samples that are kept otherwise than in a list.
struct Ranks {
  std::int64_t low = 0;
  std::int64_t high = 0;
};
std::optional<Ranks> quantile_ranks(std::int64_t n, double q, double confidence);

// Standard normal distribution function and its inverse.
double normal_cdf(double x);
double normal_quantile(double p);  // p in (0, 1)
// Inverse of Student's t distribution function; p in (0, 1), degrees of freedom above 0.
double student_t_quantile(double p, double degrees);

// P(X <= x) for X ~ Binomial(n, p), and the smallest x with P(X <= x) >= q; p and q in [0, 1].
double binomial_cdf(std::int64_t n, double p, std::int64_t x);
std::int64_t binomial_quantile(std::int64_t n, double p, double q);

// Expected maximum of `count` independent standard normal variables (numerical integral; the
// function caches nothing and costs a few microseconds).
double expected_max_of_normals(std::int64_t count);

// SplitMix64: a small seeded generator with the same sequence everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  double uniform();                      // [0, 1)
  std::uint64_t below(std::uint64_t n);  // [0, n), unbiased; n > 0

 private:
  std::uint64_t state_;
};

}  // namespace nibble
