#include "load/usl.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <set>

#include "base/units.h"
#include "load/knee.h"
#include "load/least_squares.h"

namespace nibble::load {
namespace {

constexpr std::size_t kLeastDifferent = 4;
constexpr int kRounds = 50;
constexpr int kFitRedraws = 200;

struct Point {
  double n = 0;
  double log_x = 0;
  double error = 0;
};

struct Parameters {
  double log_lambda = 0;
  double sigma = 0;
  double kappa = 0;
  double divisor(double n) const { return 1 + sigma * (n - 1) + kappa * n * (n - 1); }
  double log_x(double n) const { return log_lambda + std::log(n) - std::log(divisor(n)); }
};

double squares_of(const std::vector<Point>& points, const Parameters& p) {
  double sum = 0;
  for (const Point& point : points) {
    const double rest = (point.log_x - p.log_x(point.n)) / point.error;
    sum += rest * rest;
  }
  return sum;
}

// N / X = (1 + sigma (N - 1) + kappa N (N - 1)) / lambda: linear, each row divided by its own N /
// X.
Parameters linear_start(const std::vector<Point>& points) {
  Rows rows;
  std::vector<double> values;
  for (const Point& point : points) {
    const double weight = std::exp(point.log_x) / point.n / point.error;
    rows.push_back({weight, weight * (point.n - 1), weight * point.n * (point.n - 1)});
    values.push_back(1 / point.error);
  }
  const LeastSquares fit = solve_least_squares(rows, values, {false, true, true});
  const double inverse = fit.coefficients[0];
  // All levels far above one request say little of it; any positive start will do then.
  if (!(inverse > 0)) return {points.front().log_x - std::log(points.front().n), 0, 0};
  return {-std::log(inverse), fit.coefficients[1] / inverse, fit.coefficients[2] / inverse};
}

Parameters gauss_newton(const std::vector<Point>& points, Parameters now) {
  double squares = squares_of(points, now);
  for (int round = 0; round < kRounds; ++round) {
    Rows rows;
    std::vector<double> values;
    for (const Point& point : points) {
      const double w = 1 / point.error;
      const double by_sigma = -w * (point.n - 1) / now.divisor(point.n);
      const double by_kappa = by_sigma * point.n;
      rows.push_back({w, by_sigma, by_kappa});
      values.push_back(w * (point.log_x - now.log_x(point.n)) + w * now.log_lambda +
                       by_sigma * now.sigma + by_kappa * now.kappa);
    }
    // Solved for the parameters themselves, not for steps, so that the bounds are those of theirs.
    const LeastSquares fit = solve_least_squares(rows, values, {false, true, true});
    const Parameters target{fit.coefficients[0], fit.coefficients[1], fit.coefficients[2]};
    double step = 1;
    Parameters next;
    double next_squares = 0;
    for (int halving = 0; halving < 30; ++halving, step /= 2) {
      next = {now.log_lambda + step * (target.log_lambda - now.log_lambda),
              now.sigma + step * (target.sigma - now.sigma),
              now.kappa + step * (target.kappa - now.kappa)};
      next_squares = squares_of(points, next);
      if (next_squares <= squares) break;
    }
    if (!(next_squares <= squares)) return now;
    const bool settled = squares - next_squares <= 1e-12 * (1 + squares);
    now = next;
    squares = next_squares;
    if (settled) return now;
  }
  return now;
}

Parameters fit_points(const std::vector<Point>& points) {
  return gauss_newton(points, linear_start(points));
}

std::optional<double> peak_of(const Parameters& p) {
  if (!(p.kappa > 0) || p.sigma >= 1) return std::nullopt;
  return std::sqrt((1 - p.sigma) / p.kappa);
}

Interval middle95(std::vector<double> values) {
  return {quantile(values, 0.025), quantile(values, 0.975)};
}

// Fits of levels redrawn around the fit; a redraw without a peak has it at infinity.
void add_intervals(UslFit& fit, const std::vector<Point>& points, const Parameters& best) {
  Random random(2);
  std::array<std::vector<double>, 4> draws;
  const double freedom = static_cast<double>(points.size()) - 3;
  const double scatter = std::sqrt(std::max(1.0, squares_of(points, best) / freedom));
  bool endless = false;
  for (int round = 0; round < kFitRedraws; ++round) {
    std::vector<Point> drawn = points;
    for (Point& point : drawn) {
      const double normal = normal_quantile(std::clamp(random.uniform(), 1e-12, 1 - 1e-12));
      point.log_x = best.log_x(point.n) + scatter * point.error * normal;
    }
    const Parameters p = fit_points(drawn);
    draws[0].push_back(std::exp(p.log_lambda));
    draws[1].push_back(p.sigma);
    draws[2].push_back(p.kappa);
    const auto peak = peak_of(p);
    if (peak) draws[3].push_back(*peak);
    endless = endless || !peak;
  }
  fit.lambda.interval = middle95(draws[0]);
  fit.sigma.interval = middle95(draws[1]);
  fit.kappa.interval = middle95(draws[2]);
  // A peak that some redraws do not have at all is bounded below only: no interval.
  if (fit.peak && !endless) fit.peak->interval = middle95(draws[3]);
}

}  // namespace

double UslFit::predict(double n) const {
  return lambda.value * n / (1 + sigma.value * (n - 1) + kappa.value * n * (n - 1));
}

UslFit fit_usl(const std::vector<KneeLevel>& levels) {
  UslFit fit;
  std::vector<Point> points;
  std::set<double> different;
  double highest = 0;
  for (const KneeLevel& level : levels) {
    const bool usable = std::isfinite(level.throughput) && level.throughput > 0 &&
                        std::isfinite(level.concurrency) && level.concurrency >= 1;
    if (!usable) continue;
    const double error = std::max(level.half_width.value_or(0) / kNormal95, kLeastNoise);
    points.push_back({level.concurrency, std::log(level.throughput), error});
    different.insert(level.concurrency);
    highest = std::max(highest, level.concurrency);
  }
  if (different.size() < kLeastDifferent) {
    fit.reason = fmt::format("{} different levels; the fit of three coefficients takes {}",
                             different.size(), kLeastDifferent);
    return fit;
  }
  const Parameters best = fit_points(points);
  fit.lambda.value = std::exp(best.log_lambda);
  fit.sigma.value = best.sigma;
  fit.kappa.value = best.kappa;
  if (const auto peak = peak_of(best)) {
    fit.peak = Fitted{*peak, std::nullopt};
    fit.beyond_sweep = *peak > highest;
  } else if (best.sigma > 0) {
    fit.ceiling = fit.lambda.value / best.sigma;
  }
  double squares = 0;
  for (const Point& point : points) {
    squares += std::pow(point.log_x - best.log_x(point.n), 2);
  }
  fit.residual = std::sqrt(squares / static_cast<double>(points.size()));
  add_intervals(fit, points, best);
  return fit;
}

Json to_json(const UslFit& fit) {
  const auto value = [](const Fitted& fitted) {
    const auto& i = fitted.interval;
    return Json::object()
        .set("value", fitted.value)
        .set("interval", i ? Json::array({i->low, i->high}) : Json());
  };
  Json json = Json::object();
  json.set("formula", "X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))");
  json.set("reason", fit.valid() ? Json() : Json(fit.reason));
  json.set("lambda", fit.valid() ? value(fit.lambda) : Json());
  json.set("sigma", fit.valid() ? value(fit.sigma) : Json());
  json.set("kappa", fit.valid() ? value(fit.kappa) : Json());
  json.set("peak_concurrency", fit.peak ? value(*fit.peak) : Json());
  json.set("peak_beyond_sweep", fit.beyond_sweep);
  json.set("ceiling", fit.ceiling);
  json.set("relative_residual", fit.valid() ? Json(fit.residual) : Json());
  return json;
}

}  // namespace nibble::load
