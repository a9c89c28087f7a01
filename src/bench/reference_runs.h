// A product on matrices of the bench's own, run cold or hot: what the costs of a kernel are
// measured on (bench/kernel_rates.h).
//
//   NIBBLE_ASSIGN_OR_RETURN(ReferenceRuns runs, ReferenceRuns::make(shape, Format::kNvfp4, ...));
//   NIBBLE_RETURN_IF_ERROR(runs.set_rows(8, Format::kInt8, pool));
//   const double s = runs.seconds(4, true, pool);   // 4 matrices, 8 rows each, from memory
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/gemm/packed_activations.h"
#include "kernels/gemm/packed_weights.h"
#include "machine/cpu_roofs.h"
#include "measure/ring.h"

namespace nibble {

struct ReferenceShape {
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t matrices = 1;  // that a run meets at most
  double ring_bytes = 0;      // that they take turns in
};

class ReferenceRuns {
 public:
  static Result<ReferenceRuns> make(const ReferenceShape& shape, Format weights, Isa isa,
                                    ThreadPool& pool);

  // Rows of the activations in the runs that follow, at most kMostRows: all matrices meet all of
  // them.
  static constexpr std::int64_t kMostRows = 64;
  Result<> set_rows(std::int64_t rows, Format activations, ThreadPool& pool);
  // One run, with activations and outputs in the caches as a rig has them. Cold: those matrices
  // that were untouched for longest; hot: the first ones, after a run that is not timed.
  double seconds(std::int64_t matrices, bool cold, ThreadPool& pool);
  double quantize_seconds(ThreadPool& pool);
  // Memory that was untouched for longest, for a roof to read.
  MemoryParts cold_memory(double least_bytes);

  const ReferenceShape& shape() const { return shape_; }
  std::int64_t entries() const { return weights_.experts(); }
  double matrix_bytes() const { return static_cast<double>(weights_.expert_bytes()); }
  double values() const { return static_cast<double>(rows_ * shape_.k); }

 private:
  void place(std::vector<std::int64_t> matrices);
  void quantize(ThreadPool& pool);

  ReferenceShape shape_;
  PackedWeights weights_;
  ColdOrder order_{1, 0};
  std::int64_t rows_ = 0;
  std::vector<float> x_;  // [kMostRows, k]
  std::vector<float> y_;
  PackedActivations input_;
  std::vector<std::int32_t> offsets_, row_of_;
};

}  // namespace nibble
