#include "load/knee.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/units.h"
#include "load/least_squares.h"

namespace nibble::load {
namespace {

constexpr double kHalfOfProportional = 0.5 * 0.6931471805599453;  // ln 2 / 2, per doubling
constexpr int kRedraws = 200;
const double kFlatSlope = std::log1p(kFlatGain);
const double kNearlyFlatSlope = std::log1p(2 * kFlatGain);

// Levels as points: x = log2 concurrency, y = ln throughput.
struct Curve {
  std::vector<double> x, y, error;
};

Curve curve_of(const std::vector<KneeLevel>& levels) {
  Curve curve;
  for (const KneeLevel& level : levels) {
    curve.x.push_back(std::log2(level.concurrency));
    curve.y.push_back(std::log(level.throughput));
    const double stated = level.half_width.value_or(0) / kNormal95;
    curve.error.push_back(std::max(stated, kLeastNoise));
  }
  return curve;
}

void take_out(std::vector<double>& from, const std::vector<double>& unit) {
  const double part = dot(from, unit);
  for (std::size_t index = 0; index < from.size(); ++index) from[index] -= part * unit[index];
}

// y = a + b x - c w softplus((x - k) / w), c >= 0: a slope that turns into a smaller one around k
// over a width w. w -> 0 is linear then flat (or falling), w = 1 / ln 2 is lambda N / (1 + N / K),
// and between them lie the p-norms of the two. k and w are taken from a grid, prepared once a
// sweep; a, b and c follow by least squares.
class BendFit {
 public:
  explicit BendFit(const Curve& curve) : error_(curve.error) {
    const std::size_t n = curve.x.size();
    constant_.assign(n, 0);
    linear_.assign(n, 0);
    for (std::size_t point = 0; point < n; ++point) {
      constant_[point] = 1 / error_[point];
      linear_[point] = curve.x[point] / error_[point];
    }
    normalise(constant_);
    take_out(linear_, constant_);
    normalise(linear_);
    constexpr int kPlaces = 64;
    const double range = curve.x.back() - curve.x.front();
    for (const double width : {0.05, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0}) {
      for (int place = 0; place <= kPlaces; ++place) {
        add_bend(curve, curve.x.front() + range * place / kPlaces, width);
      }
      // A sharp bend most often lies at a level: the script, or the server's cap, has a round
      // number.
      for (const double level : curve.x) add_bend(curve, level, width);
    }
  }

  // The curve at the points for throughputs `y` there.
  std::vector<double> fit(const std::vector<double>& y) const {
    std::vector<double> rest(y.size());
    for (std::size_t point = 0; point < y.size(); ++point) rest[point] = y[point] / error_[point];
    const std::vector<double> weighted = rest;
    take_out(rest, constant_);
    take_out(rest, linear_);
    double best = 0;
    const std::vector<double>* bend = nullptr;
    for (const std::vector<double>& candidate : bends_) {
      const double part = dot(candidate, rest);
      if (part <= best) continue;
      best = part;
      bend = &candidate;
    }
    std::vector<double> smooth(y.size());
    for (std::size_t point = 0; point < y.size(); ++point) {
      const double bent = bend != nullptr ? best * (*bend)[point] : 0;
      smooth[point] = (weighted[point] - rest[point] + bent) * error_[point];
    }
    return smooth;
  }

 private:
  static bool normalise(std::vector<double>& vector) {
    const double length = std::sqrt(dot(vector, vector));
    if (!(length > 1e-9)) return false;
    for (double& value : vector) value /= length;
    return true;
  }
  void add_bend(const Curve& curve, double place, double width) {
    std::vector<double> bend;
    for (std::size_t point = 0; point < curve.x.size(); ++point) {
      const double z = (curve.x[point] - place) / width;
      const double softplus = std::max(0.0, z) + std::log1p(std::exp(-std::abs(z)));
      bend.push_back(-width * softplus / error_[point]);
    }
    take_out(bend, constant_);
    take_out(bend, linear_);
    if (normalise(bend)) bends_.push_back(std::move(bend));
  }

  std::vector<double> error_;
  std::vector<double> constant_, linear_;   // unit vectors, weighted by 1 / error
  std::vector<std::vector<double>> bends_;  // unit vectors, without their constant and linear parts
};

double slope(const std::vector<double>& x, const std::vector<double>& y, std::size_t from) {
  return (y[from + 1] - y[from]) / (x[from + 1] - x[from]);
}

// First point from which the curve grows by less than `slope_limit` a doubling; the number of
// points when there is none.
std::size_t first_below(const std::vector<double>& x, const std::vector<double>& y,
                        double slope_limit) {
  for (std::size_t from = 0; from + 1 < x.size(); ++from) {
    if (slope(x, y, from) < slope_limit) return from;
  }
  return x.size();
}

// Slope of a straight line through the points from `from` on, and its standard error.
struct Trend {
  double slope = 0;
  double error = 0;
};
Trend trend(const Curve& curve, std::size_t from) {
  double weights = 0;
  double centre = 0;
  for (std::size_t point = from; point < curve.x.size(); ++point) {
    const double weight = 1 / (curve.error[point] * curve.error[point]);
    weights += weight;
    centre += weight * curve.x[point];
  }
  centre /= weights;
  double spread = 0;
  double product = 0;
  for (std::size_t point = from; point < curve.x.size(); ++point) {
    const double weight = 1 / (curve.error[point] * curve.error[point]);
    const double off = curve.x[point] - centre;
    spread += weight * off * off;
    product += weight * off * curve.y[point];
  }
  return {product / spread, 1 / std::sqrt(spread)};
}

// The levels may scatter more than they say of themselves: what the curve leaves over tells.
void raise_errors(Curve& curve, const std::vector<double>& smooth) {
  constexpr double kCoefficients = 5;
  const double freedom = static_cast<double>(curve.x.size()) - kCoefficients;
  if (freedom < 1) return;
  double squares = 0;
  for (std::size_t point = 0; point < curve.x.size(); ++point) {
    const double rest = (curve.y[point] - smooth[point]) / curve.error[point];
    squares += rest * rest;
  }
  const double factor = std::max(1.0, std::sqrt(squares / freedom));
  for (double& error : curve.error) error *= factor;
}

double standard_normal(Random& random) {
  return normal_quantile(std::clamp(random.uniform(), 1e-12, 1 - 1e-12));
}

bool surely_slow(const Trend& trend) {
  return trend.slope + kNormal95 * trend.error < kHalfOfProportional;
}

// The first level from which the smooth curve is flat. Where noise tilts the whole plateau a little
// above that, the first level from which it is nearly flat and the levels cannot be told from flat.
// Their number when there is neither.
std::size_t knee_of(const Curve& curve, const std::vector<double>& smooth) {
  const std::size_t at = first_below(curve.x, smooth, kFlatSlope);
  if (at < curve.x.size()) return at;
  const std::size_t near = first_below(curve.x, smooth, kNearlyFlatSlope);
  if (near == curve.x.size()) return near;
  const Trend after = trend(curve, near);
  const bool may_be_flat = after.slope - kNormal95 * after.error < kFlatSlope;
  return may_be_flat ? near : curve.x.size();
}

// Knees of curves redrawn around the smooth one: the middle 95 % of them.
std::optional<Interval> redraw(const Curve& curve, const BendFit& bends,
                               const std::vector<double>& smooth,
                               const std::vector<KneeLevel>& levels) {
  Random random(1);
  std::vector<double> found;
  Curve drawn = curve;
  for (int round = 0; round < kRedraws; ++round) {
    for (std::size_t point = 0; point < smooth.size(); ++point) {
      drawn.y[point] = smooth[point] + curve.error[point] * standard_normal(random);
    }
    const std::size_t at = knee_of(drawn, bends.fit(drawn.y));
    found.push_back(levels[std::min(at, levels.size() - 1)].concurrency);
  }
  std::sort(found.begin(), found.end());
  return Interval{found[kRedraws / 40], found[kRedraws - 1 - kRedraws / 40]};
}

// Sorted by concurrency, one level each; those that measured nothing are dropped.
std::vector<KneeLevel> usable(std::vector<KneeLevel> levels) {
  std::erase_if(levels, [](const KneeLevel& level) {
    return !std::isfinite(level.throughput) || !(level.throughput > 0) ||
           !std::isfinite(level.concurrency) || !(level.concurrency > 0);
  });
  std::stable_sort(levels.begin(), levels.end(), [](const KneeLevel& a, const KneeLevel& b) {
    return a.concurrency < b.concurrency;
  });
  std::vector<KneeLevel> merged;
  double times = 0;
  for (const KneeLevel& level : levels) {
    if (merged.empty() || merged.back().concurrency != level.concurrency) {
      merged.push_back(level);
      times = 1;
      continue;
    }
    times += 1;
    merged.back().throughput += (level.throughput - merged.back().throughput) / times;
    if (level.half_width) {
      merged.back().half_width = std::max(merged.back().half_width.value_or(0), *level.half_width);
    }
  }
  return merged;
}

std::vector<Gain> gains_of(const std::vector<KneeLevel>& levels, const Curve& curve,
                           const std::vector<double>& smooth) {
  std::vector<Gain> gains;
  for (std::size_t from = 0; from + 1 < levels.size(); ++from) {
    const double step = curve.x[from + 1] - curve.x[from];
    const double raw = slope(curve.x, curve.y, from);
    const double half = kNormal95 * std::hypot(curve.error[from], curve.error[from + 1]) / step;
    Gain gain{.from = levels[from].concurrency, .to = levels[from + 1].concurrency};
    gain.per_doubling = std::expm1(raw);
    gain.interval = {std::expm1(raw - half), std::expm1(raw + half)};
    gain.smooth = std::expm1(slope(curve.x, smooth, from));
    gain.may_be_flat = gain.interval.low < kFlatGain;
    gains.push_back(gain);
  }
  return gains;
}

void describe_best(Knee& knee, const std::vector<KneeLevel>& levels, const Curve& curve) {
  std::size_t best = 0;
  for (std::size_t index = 1; index < levels.size(); ++index) {
    if (levels[index].throughput > levels[best].throughput) best = index;
  }
  knee.best_throughput = levels[best].throughput;
  knee.best_concurrency = levels[best].concurrency;
  constexpr double kMost = 0.9;
  for (const KneeLevel& level : levels) {
    if (level.throughput < kMost * knee.best_throughput) continue;
    knee.for_90 = level.concurrency;
    break;
  }
  const std::size_t last = levels.size() - 1;
  knee.declines =
      curve.y[best] - curve.y[last] > kNormal95 * std::hypot(curve.error[best], curve.error[last]);
}

}  // namespace

Knee find_knee(std::vector<KneeLevel> given) {
  const std::vector<KneeLevel> levels = usable(std::move(given));
  Knee knee;
  if (levels.empty()) {
    knee.reason = "no level has a throughput";
    return knee;
  }
  Curve curve = curve_of(levels);
  describe_best(knee, levels, curve);
  if (levels.size() < kLeastKneeLevels) {
    knee.reason =
        fmt::format("{} levels show no shape; sweep at least {}", levels.size(), kLeastKneeLevels);
    return knee;
  }
  const BendFit bends(curve);
  const std::vector<double> smooth = bends.fit(curve.y);
  raise_errors(curve, smooth);
  describe_best(knee, levels, curve);
  knee.noise = median(curve.error);
  knee.gains = gains_of(levels, curve, smooth);
  const std::size_t at = knee_of(curve, smooth);
  if (at == levels.size()) {
    knee.reason = fmt::format("throughput still grows at {}: raise the concurrency",
                              format_compact(levels.back().concurrency));
    return knee;
  }
  if (!surely_slow(trend(curve, at))) {
    knee.reason = fmt::format(
        "from {} on the levels are too few or too noisy to tell flat from growing: add levels "
        "above",
        format_compact(levels[at].concurrency));
    return knee;
  }
  knee.concurrency = levels[at].concurrency;
  knee.interval = redraw(curve, bends, smooth, levels);
  knee.interval->low = std::min(knee.interval->low, *knee.concurrency);
  knee.interval->high = std::max(knee.interval->high, *knee.concurrency);
  knee.reason =
      fmt::format("from {} on, twice the concurrency gains {}", format_compact(*knee.concurrency),
                  format_percent(std::expm1(slope(curve.x, smooth, at))));
  return knee;
}

Json to_json(const Knee& knee) {
  const auto interval = [](const std::optional<Interval>& i) {
    return i ? Json::array({i->low, i->high}) : Json();
  };
  Json gains = Json::array();
  for (const Gain& gain : knee.gains) {
    gains.push(Json::object()
                   .set("from", gain.from)
                   .set("to", gain.to)
                   .set("per_doubling", gain.per_doubling)
                   .set("interval", interval(gain.interval))
                   .set("smooth", gain.smooth)
                   .set("may_be_flat", gain.may_be_flat));
  }
  return Json::object()
      .set("concurrency", knee.concurrency)
      .set("interval", interval(knee.interval))
      .set("reason", knee.reason)
      .set("best_concurrency", knee.best_concurrency)
      .set("best_throughput", knee.best_throughput)
      .set("concurrency_for_90_percent", knee.for_90)
      .set("declines", knee.declines)
      .set("noise", knee.noise)
      .set("gains", std::move(gains));
}

}  // namespace nibble::load
