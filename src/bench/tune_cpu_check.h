// The checks of the CPU's tuner: one input, run again and again, against the reference.
//
//   const CheckedPart part = part_to_check(shape, routes);
//   CpuCheck check(shape, routing, seed);
//   const Result<tune::CheckRun> run = check.run({.isa = Isa::kAvx2, .threads = 2}, 64, 50, pool);
//
// Fifty replays of all experts would take two minutes a tactic in portable code (GLM-5 at 64
// tokens), for products that are all alike: an expert's rows times one tile, whoever's they are. So
// a run has 10^8 multiplications at most, of the busiest and the least busy experts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "bench/route_draw.h"
#include "bench/routes.h"
#include "bench/weights.h"
#include "tactics/tune/gate.h"
#include "tactics/tune/tactic.h"

namespace nibble {

// What a check runs of a layer's product.
struct CheckedPart {
  Routes routes;               // of the experts that are taken
  std::int64_t first_row = 0;  // of their matrices: the last rows
  std::int64_t rows = 0;
};

// All of it where that is at most `most` multiplications. Else experts from the busiest and the
// least busy in turn; of one that is too much by itself the last rows, and the last tokens.
inline constexpr double kMostCheckedProducts = 1e8;
CheckedPart part_to_check(const tune::TuningShape& shape, const Routes& routes,
                          double most = kMostCheckedProducts);

class CpuCheck {
 public:
  CpuCheck(const tune::TuningShape& shape, const RouteDraw& routing, std::uint64_t seed);
  // The pool has the tactic's threads. All tactics get the same input.
  Result<tune::CheckRun> run(const tune::CpuTactic& tactic, std::int64_t tokens, int repeats,
                             ThreadPool& pool) const;

 private:
  QuantizedMatrix matrix(const CheckedPart& part, std::int64_t unit) const;
  void compare(const CheckedPart& part, const PlacedRoutes& placed, std::span<const float> x,
               std::span<const float> y, tune::CheckRun& run) const;

  tune::TuningShape shape_;
  RouteDraw routing_;
  std::uint64_t seed_;
  std::vector<QuantizedBytes> matrices_;
};

}  // namespace nibble
