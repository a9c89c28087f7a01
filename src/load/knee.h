// Where throughput stops growing with concurrency.
//
//   const Knee knee = find_knee({{1, 100}, {2, 198}, {4, 390}, {8, 500}, {16, 505}, {32, 498}});
//   knee.concurrency          // 8: doubling it gains less than 5 %
//
// In logarithms throughput over concurrency is a slope (proportional: 1) that turns into a smaller
// one: zero for a plateau, negative for a decline, at once or over some doublings. That curve,
// fitted by least squares, smooths the noise of the levels; the knee is the first level from which
// it gains less than 5 % a doubling. It counts only if growth from there on is surely below half of
// proportional, so that a straight line with noise has none. Its interval comes from levels redrawn
// with their noise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/stats.h"

namespace nibble::load {

struct KneeLevel {
  double concurrency = 0;
  double throughput = 0;                            // tokens/s
  std::optional<double> half_width = std::nullopt;  // 95 %, relative, of the throughput
};

struct Gain {       // between one level and the next
  double from = 0;  // concurrency
  double to = 0;
  double per_doubling = 0;   // 0.05: 5 % more throughput for twice the concurrency
  Interval interval;         // 95 %
  double smooth = 0;         // the same of the fitted curve
  bool may_be_flat = false;  // the interval includes less than 5 %
};

struct Knee {
  std::optional<double> concurrency;  // a level of the sweep; nullopt: none
  std::optional<Interval> interval;   // of it, from level to level
  std::string reason;                 // why there is none, or what it rests on
  double best_throughput = 0;         // of a level
  double best_concurrency = 0;
  std::optional<double> for_90;  // least concurrency of the sweep with 90 % of the best
  bool declines = false;         // the last level is surely below the best
  double noise = 0;              // relative, of a level's throughput
  std::vector<Gain> gains;
};

inline constexpr double kFlatGain = 0.05;
inline constexpr std::size_t kLeastKneeLevels = 3;

// Half of a 95 % interval over its standard error, and the least error of a level: two runs of one
// differ by more than the batches of one run say, by clocks, prompts and placement.
inline constexpr double kNormal95 = 1.959963984540054;
inline constexpr double kLeastNoise = 0.01;

// Levels in any order; those of one concurrency are averaged. Levels without throughput (failed)
// are left out.
Knee find_knee(std::vector<KneeLevel> levels);

Json to_json(const Knee& knee);

}  // namespace nibble::load
