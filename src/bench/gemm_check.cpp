#include "bench/gemm_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/gemm/reference.h"

namespace nibble {

QuantizedMatrix rows_of(const QuantizedMatrix& matrix, std::int64_t first, std::int64_t count) {
  NIBBLE_CHECK(first >= 0 && count >= 1 && first + count <= matrix.rows);
  QuantizedMatrix part = matrix;
  part.rows = count;
  const auto cut = [&](std::span<const std::uint8_t> bytes) {
    const std::size_t row_bytes = bytes.size() / static_cast<std::size_t>(matrix.rows);
    return bytes.subspan(static_cast<std::size_t>(first) * row_bytes,
                         static_cast<std::size_t>(count) * row_bytes);
  };
  part.codes = cut(matrix.codes);
  part.scales = cut(matrix.scales);
  part.segments.clear();
  for (const MatrixSegment& segment : matrix.segments) {
    if (segment.row_begin >= first + count) break;
    const MatrixSegment moved{std::max<std::int64_t>(0, segment.row_begin - first), segment.factor};
    if (!part.segments.empty() && part.segments.back().row_begin == 0 && moved.row_begin == 0) {
      part.segments.pop_back();  // it ended before the part begins
    }
    part.segments.push_back(moved);
  }
  return part;
}

double product_error(const ProductCheck& check) {
  const std::int64_t rows = std::min(check.rows, check.matrix.rows - check.first_row);
  const QuantizedMatrix part = rows_of(check.matrix, check.first_row, rows);
  std::vector<double> expected(static_cast<std::size_t>(rows));
  gemm_reference(part, rounded_activations(check.x, check.matrix.columns, check.activations),
                 expected);
  double error = 0;
  double norm = 0;
  for (std::size_t row = 0; row < expected.size(); ++row) {
    const double y = static_cast<double>(check.y[row + static_cast<std::size_t>(check.first_row)]);
    error += (y - expected[row]) * (y - expected[row]);
    norm += expected[row] * expected[row];
  }
  if (!std::isfinite(error) || !(norm > 0)) return std::numeric_limits<double>::infinity();
  return std::sqrt(error / norm);
}

double product_error_limit(Format weights, Format activations, std::int64_t k) {
  // fp32 additions, one for 32 columns (for each column of bf16 weights), each off by 2^-24 at
  // most.
  const double additions =
      weights == Format::kBf16 ? static_cast<double>(k) : static_cast<double>(k) / 32 + 8;
  const double rounding = additions * 0x1p-24;
  // Activations whose quotient lies on a tie may be rounded the other way: one step of one of the
  // 32 values of a group, 2^-15 and 2^-7 of its largest; NVFP4's quotients are defined to the bit.
  if (weights == Format::kBf16 || activations == Format::kNvfp4) return rounding;
  return rounding + (activations == Format::kBf16 ? 1e-4 : 1e-3);
}

Result<> check_product(const ProductCheck& check, std::string_view where) {
  const double error = product_error(check);
  const double limit =
      product_error_limit(check.matrix.format, check.activations, check.matrix.columns);
  if (error <= limit) return {};
  return run_error(
      "{}: the kernel differs from the double-precision reference by {:.2g} (at most {:.2g} is "
      "right), so it is not timed; please report it",
      where, error, limit);
}

}  // namespace nibble
