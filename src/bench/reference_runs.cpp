#include "bench/reference_runs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "bench/weights.h"
#include "kernels/gemm/gemm.h"
#include "measure/sampler.h"

namespace nibble {

Result<ReferenceRuns> ReferenceRuns::make(const ReferenceShape& shape, Format weights, Isa isa,
                                          ThreadPool& pool) {
  ReferenceRuns runs;
  runs.shape_ = shape;
  const QuantizedBytes matrix = random_matrix(weights, shape.n, shape.k, 1);
  const double bytes =
      storage_bytes(weights, static_cast<double>(shape.n), static_cast<double>(shape.k)).total();
  const auto wanted = static_cast<std::int64_t>(shape.ring_bytes / bytes);
  // A kernel's time depends on no value: the ring repeats one matrix.
  const std::vector<QuantizedMatrix> ring(
      static_cast<std::size_t>(std::max(shape.matrices, wanted)), matrix.view());
  NIBBLE_ASSIGN_OR_RETURN(runs.weights_, PackedWeights::pack(ring, isa, pool));
  runs.order_ = ColdOrder(runs.entries(), 1);
  Random random(2);
  runs.x_ = gaussian(random, kMostRows * shape.k);
  return runs;
}

Result<> ReferenceRuns::set_rows(std::int64_t rows, Format activations, ThreadPool& pool) {
  NIBBLE_CHECK(rows >= 1 && rows <= kMostRows);
  rows_ = rows;
  NIBBLE_ASSIGN_OR_RETURN(input_, PackedActivations::make(rows, shape_.k, activations,
                                                          weights_.isa(), weights_.format()));
  quantize(pool);
  y_.assign(static_cast<std::size_t>(rows * shape_.matrices * shape_.n), 0);
  row_of_.resize(static_cast<std::size_t>(rows * shape_.matrices));
  for (std::size_t slot = 0; slot < row_of_.size(); ++slot) {
    row_of_[slot] = static_cast<std::int32_t>(slot % static_cast<std::size_t>(rows));
  }
  return {};
}

void ReferenceRuns::quantize(ThreadPool& pool) {
  input_.quantize(std::span(x_).first(static_cast<std::size_t>(rows_ * shape_.k)), pool);
}

// Anew for each run, as a router's list is.
void ReferenceRuns::place(std::vector<std::int64_t> matrices) {
  std::sort(matrices.begin(), matrices.end());
  offsets_.assign(static_cast<std::size_t>(entries()) + 1, 0);
  std::int32_t slots = 0;
  auto next = matrices.begin();
  for (std::int64_t entry = 0; entry < entries(); ++entry) {
    if (next != matrices.end() && *next == entry) {
      slots += static_cast<std::int32_t>(rows_);
      ++next;
    }
    offsets_[static_cast<std::size_t>(entry) + 1] = slots;
  }
}

double ReferenceRuns::seconds(std::int64_t matrices, bool cold, ThreadPool& pool) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(matrices));
  std::iota(places.begin(), places.end(), entries() - matrices);
  if (cold) places = order_.next(matrices);
  const auto run = [&] {
    gemm({.weights = weights_,
          .activations = input_,
          .offsets = offsets_,
          .row_of = row_of_,
          .output = y_},
         pool);
  };
  if (!cold) {
    place(places);
    run();
  }
  place(places);
  quantize(pool);
  std::fill(y_.begin(), y_.end(), 0.0F);
  const double start = steady_now();
  run();
  return steady_now() - start;
}

double ReferenceRuns::quantize_seconds(ThreadPool& pool) {
  quantize(pool);
  const double start = steady_now();
  quantize(pool);
  return steady_now() - start;
}

MemoryParts ReferenceRuns::cold_memory(double least_bytes) {
  const auto wanted = static_cast<std::int64_t>(std::ceil(least_bytes / matrix_bytes()));
  MemoryParts memory;
  for (const std::int64_t at : order_.next(std::clamp<std::int64_t>(wanted, 1, entries()))) {
    const std::size_t begin = static_cast<std::size_t>(at) * weights_.expert_bytes();
    memory.push_back(weights_.bytes().subspan(begin, weights_.expert_bytes()));
  }
  return memory;
}

}  // namespace nibble
