#include "bench/kernel_costs.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/units.h"

namespace nibble {
namespace {

// Exponents from 20 to 0.5: the longer of both, to more than their sum (what one does delays the
// other).
constexpr double kLeastOverlap = 0.05;
constexpr double kMostOverlap = 2;

double between(double low, double high, double share) {
  return low + share * (high - low);
}

}  // namespace

double overlapped(double memory, double compute, double overlap) {
  const double longer = std::max(memory, compute);
  if (longer <= 0 || overlap <= kLeastOverlap) return longer;
  const double shorter = std::min(memory, compute) / longer;
  return longer * std::pow(1 + std::pow(shorter, 1 / overlap), overlap);
}

double overlap_of(double memory, double compute, double together) {
  double low = 0;
  double high = kMostOverlap;
  if (together <= std::max(memory, compute)) return 0;
  if (together >= overlapped(memory, compute, kMostOverlap)) return kMostOverlap;
  constexpr int kHalvings = 40;
  for (int halving = 0; halving < kHalvings; ++halving) {
    const double middle = (low + high) / 2;
    (overlapped(memory, compute, middle) < together ? low : high) = middle;
  }
  return high;
}

double shared_seconds(const std::vector<double>& unit_seconds, int threads) {
  NIBBLE_CHECK(threads >= 1);
  const auto count = static_cast<std::int64_t>(unit_seconds.size());
  const auto shares = static_cast<std::size_t>(threads);
  ShareQueue queue(count, threads);
  std::vector<double> ends(shares, 0);
  std::vector<std::size_t> at_work(shares);
  for (std::size_t thread = 0; thread < shares; ++thread) at_work[thread] = thread;
  double last = 0;
  while (!at_work.empty()) {
    const auto first = std::min_element(
        at_work.begin(), at_work.end(),
        [&ends](std::size_t one, std::size_t other) { return ends[one] < ends[other]; });
    const std::size_t thread = *first;
    if (const auto unit = queue.next(static_cast<int>(thread))) {
      ends[thread] += unit_seconds[static_cast<std::size_t>(*unit)];
    } else {
      last = std::max(last, ends[thread]);
      at_work.erase(first);
    }
  }
  return last;
}

UnitCost KernelCosts::at(std::int64_t rows) const {
  NIBBLE_CHECK(!points.empty() && rows >= 1);
  const auto upper = std::lower_bound(
      points.begin(), points.end(), rows,
      [](const UnitCost& point, std::int64_t value) { return point.rows < value; });
  if (upper == points.end()) return points.back();
  if (upper == points.begin() || upper->rows == rows) return *upper;
  const UnitCost& lower = *(upper - 1);
  const double share =
      static_cast<double>(rows - lower.rows) / static_cast<double>(upper->rows - lower.rows);
  return {.rows = rows,
          .unit = between(lower.unit, upper->unit, share),
          .column = between(lower.column, upper->column, share),
          .overlap = between(lower.overlap, upper->overlap, share),
          .start_bytes = between(lower.start_bytes, upper->start_bytes, share)};
}

void KernelCosts::add_units(const Product& product, const RoofsNow& roofs, int threads,
                            std::vector<double>& seconds) const {
  const std::int64_t tiles = (product.n + cut.tile_rows - 1) / cut.tile_rows;
  const std::int64_t of_unit = cut.unit_rows / cut.tile_rows;
  const double tile_bytes = product.weight_bytes / static_cast<double>(tiles);
  const double rate = roofs.tops * kTera;
  const double of_thread = roofs.bandwidth_gb_s * kGiga / threads;
  for (std::int64_t first = 0; first < product.rows; first += cut.pass_rows) {
    const UnitCost cost = at(std::min(cut.pass_rows, product.rows - first));
    const bool from_memory = of_thread > 0 && first == 0;
    for (std::int64_t tile = 0; tile < tiles; tile += of_unit) {
      const auto taken = static_cast<double>(std::min(of_unit, tiles - tile));
      const double share = taken / static_cast<double>(of_unit);
      const double compute =
          share * (cost.unit + static_cast<double>(product.k) * cost.column) / rate;
      seconds.push_back(from_memory
                            ? overlapped(taken * tile_bytes / of_thread, compute, cost.overlap) +
                                  cost.start_bytes / of_thread
                            : compute);
    }
  }
}

double KernelCosts::gemm_s(const GemmCall& call, const RoofsNow& roofs, int threads) const {
  std::vector<double> units;
  for (const Product& product : call.products) add_units(product, roofs, threads, units);
  return section_s + static_cast<double>(call.list) * entry_s + call.values * value_s + start_s +
         shared_seconds(units, threads);
}

double KernelCosts::quantize_s(double values, const RoofsNow& roofs) const {
  const double rate = roofs.tops * kTera;
  return std::min(values * quantize_alone / rate, section_s + values * quantize / rate);
}

double KernelCosts::predict_s(const Work& work, const RoofsNow& roofs, int threads) const {
  double seconds = work.sections * section_s;
  for (const double values : work.quantized) seconds += quantize_s(values, roofs);
  for (const GemmCall& call : work.calls) seconds += gemm_s(call, roofs, threads);
  return seconds;
}

}  // namespace nibble
