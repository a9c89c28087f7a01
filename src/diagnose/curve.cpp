#include "diagnose/curve.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "base/units.h"

namespace nibble::diagnose {
namespace {

constexpr double kFarthest = 1.5;

}  // namespace

TimeCurve::TimeCurve(std::vector<CurvePoint> points, CurveWords words)
    : points_(std::move(points)), words_(words) {
  std::stable_sort(points_.begin(), points_.end(),
                   [](const auto& a, const auto& b) { return a.size < b.size; });
}

std::optional<double> TimeCurve::at(double size, std::string& reason) const {
  if (points_.empty()) {
    reason = fmt::format("no {} were measured", words_.what);
    return std::nullopt;
  }
  const CurvePoint& first = points_.front();
  const CurvePoint& last = points_.back();
  // The mean of a batch that is empty at times lies below one; a step has one at least.
  const double asked = std::max(size, std::min(1.0, first.size));
  if (asked < first.size / kFarthest || asked > last.size * kFarthest) {
    reason =
        fmt::format("the level ran {} {}; {} were measured from {} to {}", format_number(size),
                    words_.of, words_.what, format_number(first.size), format_number(last.size));
    return std::nullopt;
  }
  if (points_.size() == 1) {
    if (asked == first.size) return first.time;
    reason = fmt::format("{} were measured of {} {} alone, and the level ran {}", words_.what,
                         format_number(first.size), words_.of, format_number(size));
    return std::nullopt;
  }
  const auto above = std::find_if(points_.begin() + 1, points_.end() - 1,
                                  [&](const auto& point) { return point.size >= asked; });
  const CurvePoint& high = *above;
  const CurvePoint& low = *(above - 1);
  const double share = (asked - low.size) / (high.size - low.size);
  return std::max(0.0, low.time + share * (high.time - low.time));
}

std::optional<double> TimeCurve::slope(std::string& reason) const {
  if (points_.size() < 2) {
    reason = fmt::format("{} of one size alone say nothing of one more", words_.what);
    return std::nullopt;
  }
  const CurvePoint& high = points_.back();
  const CurvePoint& low = points_[points_.size() - 2];
  const double slope = (high.time - low.time) / (high.size - low.size);
  if (slope >= 0) return slope;
  reason = "the longer one took less time: noise";
  return std::nullopt;
}

}  // namespace nibble::diagnose
