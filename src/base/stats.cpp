#include "base/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <math.h>  // lgamma_r: std::lgamma writes a global and so is no thread's to call
#include <numbers>
#include <numeric>

#include "base/check.h"

namespace nibble {
namespace {

// Rounding must not turn "exactly as sure as asked" into "not sure enough".
constexpr double kProbabilitySlack = 1e-12;

double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

// Regularised incomplete beta function I_x(a, b) by its continued fraction (DLMF 8.17.22, modified
// Lentz), which converges in about sqrt(max(a, b)) steps for x < (a + 1) / (a + b + 2).
double incomplete_beta_fraction(double a, double b, double x, double y) {
  constexpr double kTiny = 1e-300;
  constexpr double kEpsilon = 1e-15;
  constexpr int kMostSteps = 100000;
  const auto nonzero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / nonzero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int step = 1; step <= kMostSteps; ++step) {
    const double m = step;
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / nonzero(1 + even * d);
    c = nonzero(1 + even / c);
    fraction *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / nonzero(1 + odd * d);
    c = nonzero(1 + odd / c);
    fraction *= c * d;
    if (std::abs(c * d - 1) < kEpsilon) break;
  }
  const double log_factor =
      log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) + b * std::log(y);
  return std::exp(log_factor) * fraction / a;
}

// `y` is 1 - x, given apart so that a small p keeps its digits.
double incomplete_beta(double a, double b, double x, double y) {
  if (x < (a + 1) / (a + b + 2)) return incomplete_beta_fraction(a, b, x, y);
  return 1 - incomplete_beta_fraction(b, a, y, x);
}

// Acklam's rational approximation for p <= 0.5, relative error below 1.15e-9
// (P. J. Acklam, "An algorithm for computing the inverse normal cumulative distribution function").
double normal_quantile_approximate(double p) {
  if (p < 0.02425) {
    const double q = std::sqrt(-2 * std::log(p));
    return (((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838e+00) *
                  q -
              2.549732539343734e+00) *
                 q +
             4.374664141464968e+00) *
                q +
            2.938163982698783e+00) /
           ((((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996e+00) * q +
             3.754408661907416e+00) *
                q +
            1);
  }
  const double q = p - 0.5;
  const double r = q * q;
  return (((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
            1.383577518672690e+02) *
               r -
           3.066479806614716e+01) *
              r +
          2.506628277459239e+00) *
         q /
         (((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
            6.680131188771972e+01) *
               r -
           1.328068155288572e+01) *
              r +
          1);
}

double normal_density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
}

// The largest count of failures j with P(X <= j) <= tail, for X ~ Binomial(n, q); -1 when none.
std::int64_t largest_within(std::int64_t n, double q, double tail) {
  if (tail < 0) return -1;
  const std::int64_t x = binomial_quantile(n, q, std::min(tail, 1.0));
  return binomial_cdf(n, q, x) <= tail + kProbabilitySlack ? x : x - 1;
}

}  // namespace

double mean(std::span<const double> samples) {
  NIBBLE_CHECK(!samples.empty());
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double sample_variance(std::span<const double> samples) {
  NIBBLE_CHECK(samples.size() >= 2);
  const double centre = mean(samples);
  double sum = 0;
  for (const double sample : samples) sum += (sample - centre) * (sample - centre);
  return sum / static_cast<double>(samples.size() - 1);
}

double quantile(std::span<const double> samples, double q) {
  NIBBLE_CHECK(!samples.empty());
  std::vector<double> sorted(samples.begin(), samples.end());
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const double fraction = position - static_cast<double>(below);
  const auto lower = sorted.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(sorted.begin(), lower, sorted.end());
  if (fraction == 0) return *lower;
  const double upper = *std::min_element(lower + 1, sorted.end());
  return *lower + (upper - *lower) * fraction;
}

double median(std::span<const double> samples) {
  return quantile(samples, 0.5);
}

std::optional<Ranks> quantile_ranks(std::int64_t n, double q, double confidence) {
  if (n <= 0 || !(q > 0 && q < 1) || !(confidence > 0 && confidence < 1)) return std::nullopt;
  // With B ~ Binomial(n, q) samples below the quantile, the order statistics `low` and `high`
  // (counted from 1) enclose it when low <= B <= high - 1.
  const double tail = (1 - confidence) / 2;
  std::int64_t low = largest_within(n, q, tail) + 1;
  std::int64_t high = binomial_quantile(n, q, 1 - tail - kProbabilitySlack) + 1;
  if (high > n) {
    high = n;
    low = largest_within(n, q, binomial_cdf(n, q, n - 1) - confidence) + 1;
  } else if (low < 1) {
    low = 1;
    const double wanted = confidence + binomial_cdf(n, q, 0) - kProbabilitySlack;
    high = wanted > 1 ? n + 1 : binomial_quantile(n, q, wanted) + 1;
  }
  if (low < 1 || high > n) return std::nullopt;
  return Ranks{low, high};
}

std::optional<Interval> quantile_interval(std::span<const double> samples, double q,
                                          double confidence) {
  const auto ranks = quantile_ranks(static_cast<std::int64_t>(samples.size()), q, confidence);
  if (!ranks) return std::nullopt;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return Interval{sorted[static_cast<std::size_t>(ranks->low - 1)],
                  sorted[static_cast<std::size_t>(ranks->high - 1)]};
}

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

double normal_quantile(double p) {
  if (!(p > 0)) return p == 0 ? -std::numeric_limits<double>::infinity() : p;
  if (!(p < 1)) return p == 1 ? std::numeric_limits<double>::infinity() : std::nan("");
  if (p > 0.5) return -normal_quantile(1 - p);
  double x = normal_quantile_approximate(p);
  // One step of Halley's method brings the approximation to the precision of erfc.
  const double density = normal_density(x);
  if (density > 0) {
    const double error = (normal_cdf(x) - p) / density;
    x -= error / (1 + x * error / 2);
  }
  return x;
}

double student_t_quantile(double p, double degrees) {
  if (!(p > 0 && p < 1) || !(degrees > 0)) return std::nan("");
  if (p < 0.5) return -student_t_quantile(1 - p, degrees);
  if (p == 0.5) return 0;
  // P(T > t) = I_x(degrees / 2, 1 / 2) / 2 at x = degrees / (degrees + t^2), AMS 26.7.1.
  const auto above = [degrees](double t) {
    const double x = degrees / (degrees + t * t);
    return 0.5 * incomplete_beta(degrees / 2, 0.5, x, t * t / (degrees + t * t));
  };
  double low = 0;
  double high = 1;
  while (above(high) > 1 - p && high < 1e300) high *= 2;
  // Halving settles every bit; the fraction costs about a microsecond.
  for (int step = 0; step < 100 && low < high; ++step) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (above(middle) > 1 - p ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

double binomial_cdf(std::int64_t n, double p, std::int64_t x) {
  if (x < 0) return 0;
  if (x >= n || p <= 0) return 1;
  if (p >= 1) return 0;
  // P(X <= x) = I_{1-p}(n - x, x + 1), DLMF 8.17.24.
  return incomplete_beta(static_cast<double>(n - x), static_cast<double>(x) + 1, 1 - p, p);
}

std::int64_t binomial_quantile(std::int64_t n, double p, double q) {
  if (n <= 0 || p <= 0 || q <= 0) return 0;
  if (p >= 1 || q >= 1) return n;
  // The Cornish-Fisher expansion lands within one or two of the answer except in far tails.
  const double deviation = std::sqrt(static_cast<double>(n) * p * (1 - p));
  const double z = normal_quantile(q);
  const double guess = static_cast<double>(n) * p + deviation * z + (1 - 2 * p) * (z * z - 1) / 6;
  const double most = static_cast<double>(n);
  const auto start = static_cast<std::int64_t>(std::clamp(std::floor(guess), 0.0, most));
  // Brackets the answer in (low, high] by growing steps from the guess, then halves.
  std::int64_t low = start;
  std::int64_t high = start;
  if (binomial_cdf(n, p, start) >= q) {
    for (std::int64_t step = 1; low >= 0 && binomial_cdf(n, p, low) >= q; step *= 2) {
      high = low;
      low = std::max<std::int64_t>(low - step, -1);
    }
  } else {
    for (std::int64_t step = 1; high < n && binomial_cdf(n, p, high) < q; step *= 2) {
      low = high;
      high = std::min(high + step, n);
    }
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (binomial_cdf(n, p, middle) >= q ? high : low) = middle;
  }
  return high;
}

double expected_max_of_normals(std::int64_t count) {
  if (count <= 1) return 0;
  // The mean of the density count * phi(x) * Phi(x)^(count-1), by the trapezoidal rule between
  // points outside of which the maximum lies with probability below e^-30 and 1e-13. On such
  // smooth, vanishing functions the rule converges faster than any power of the step; 64 steps
  // leave an error below 1e-9 for any count.
  constexpr int kSteps = 64;
  const double n = static_cast<double>(count);
  const double low = -normal_quantile(-std::expm1(-30 / n));
  const double high = -normal_quantile(1e-13 / n);
  const double step = (high - low) / kSteps;
  double weight = 0;
  double sum = 0;
  for (int index = 0; index <= kSteps; ++index) {
    const double x = low + step * index;
    const double log_below = x < 0 ? std::log(normal_cdf(x)) : std::log1p(-normal_cdf(-x));
    const double density = std::exp((n - 1) * log_below - 0.5 * x * x);
    weight += density;
    sum += density * x;
  }
  return sum / weight;  // the same rule integrates the density to 1, which cancels its constants
}

// SplitMix64 (Steele, Lea, Flood 2014; Vigna's reference splitmix64.c).
std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

double Random::uniform() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

std::uint64_t Random::below(std::uint64_t n) {
  NIBBLE_CHECK(n > 0);
  const std::uint64_t uneven = (0 - n) % n;  // 2^64 mod n: that many values would favour some
  while (true) {
    const std::uint64_t value = next();
    if (value >= uneven) return value % n;
  }
}

}  // namespace nibble
