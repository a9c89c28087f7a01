#include "bench/memory_need.h"

#include <algorithm>

#include "base/units.h"

namespace nibble {
namespace {

constexpr double kFloatBytes = sizeof(float);

double whole(std::int64_t count, std::int64_t step) {
  return static_cast<double>((count + step - 1) / step * step);
}

double canonical_bytes(const BenchShape& shape) {
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const double down = storage_bytes(shape.format, k, n).total();
  return shape.op == BenchOp::kMoe ? storage_bytes(shape.format, 2 * n, k).total() + down
                                   : storage_bytes(shape.format, n, k).total();
}

}  // namespace

std::string place_of(const BenchShape& shape) {
  return shape.where.empty() ? shape.name : shape.where;
}

double packed_bytes(Format format, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kTileRows = 16;
  constexpr std::int64_t kLineColumns = 128;
  const double tiles = whole(rows, kTileRows);
  return storage_bytes(format, tiles, whole(columns, kLineColumns)).total() + tiles * kFloatBytes;
}

double expert_memory_bytes(const BenchShape& shape) {
  if (shape.op == BenchOp::kGemm) return packed_bytes(shape.format, shape.n, shape.k);
  return packed_bytes(shape.format, 2 * shape.n, shape.k) +
         packed_bytes(shape.format, shape.k, shape.n);
}

double least_memory_bytes(const BenchShape& shape) {
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto experts = static_cast<double>(shape.experts);
  const auto most =
      shape.tokens.empty() ? 0 : *std::max_element(shape.tokens.begin(), shape.tokens.end());
  const auto tokens = static_cast<double>(most);
  const double slots = tokens * static_cast<double>(shape.top_k);
  // Between the products a layer keeps gate and up, what is activated, and the outputs to be added.
  const double values =
      shape.op == BenchOp::kMoe ? 2 * tokens * k + slots * (3 * n + k) : tokens * k + slots * n;
  return experts * expert_memory_bytes(shape) +
         std::min(kDistinctMatrices, experts) * canonical_bytes(shape) + kFloatBytes * values;
}

Result<> check_memory(const BenchShape& shape, double available_bytes) {
  const double least = least_memory_bytes(shape);
  if (least <= available_bytes) return {};
  return usage_error(
      "{}: {} x [{}, {}] in {} at {} tokens takes {} of memory, and {} are available; choose a "
      "smaller --n, --k, --experts or --tokens",
      place_of(shape), shape.experts, shape.n, shape.k, to_string(shape.format),
      shape.tokens.empty() ? 0 : *std::max_element(shape.tokens.begin(), shape.tokens.end()),
      format_bytes(least), format_bytes(available_bytes));
}

}  // namespace nibble
