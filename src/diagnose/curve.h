// Time over a size, straight lines between what was measured.
//
//   const TimeCurve curve({{1, 2.0}, {16, 11.0}}, {.what = "steps", .of = "sequences"});
//   std::string reason;
//   curve.at(8, reason);   // nullopt: the reason says why
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::diagnose {

struct CurvePoint {
  double size = 0;
  double time = 0;
};

// Words of the reasons, in the plural.
struct CurveWords {
  std::string_view what;  // that were measured: "steps"
  std::string_view of;    // what the size counts: "sequences"
};

class TimeCurve {
 public:
  TimeCurve(std::vector<CurvePoint> points, CurveWords words);

  bool empty() const { return points_.empty(); }
  // Up to half as much more, or a third less, than was measured: beyond that it is a guess.
  std::optional<double> at(double size, std::string& reason) const;
  // Of one more at the upper end.
  std::optional<double> slope(std::string& reason) const;

 private:
  std::vector<CurvePoint> points_;  // by size
  CurveWords words_;
};

}  // namespace nibble::diagnose
