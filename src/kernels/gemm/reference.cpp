#include "kernels/gemm/reference.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "formats/codec.h"
#include "formats/quantize.h"

namespace nibble {
namespace {

double factor_of(const QuantizedMatrix& matrix, std::int64_t row) {
  double factor = 1;
  for (const MatrixSegment& segment : matrix.segments) {
    if (segment.row_begin <= row) factor = static_cast<double>(segment.factor);
  }
  return factor;
}

double value_of(const QuantizedMatrix& matrix, std::int64_t row, std::int64_t column) {
  if (matrix.format == Format::kBf16) {
    const auto at = static_cast<std::size_t>(2 * (row * matrix.columns + column));
    const auto bits = static_cast<std::uint16_t>(matrix.codes[at] |
                                                 static_cast<unsigned>(matrix.codes[at + 1]) << 8);
    return static_cast<double>(bf16_to_float(bits)) * factor_of(matrix, row);
  }
  const bool mxfp4 = matrix.format == Format::kMxfp4;
  const std::int64_t block = mxfp4 ? 32 : 16;
  const std::int64_t blocks = (matrix.columns + block - 1) / block;
  const std::uint8_t byte =
      matrix.codes[static_cast<std::size_t>(row * (matrix.columns / 2) + column / 2)];
  const std::uint8_t scale = matrix.scales[static_cast<std::size_t>(row * blocks + column / block)];
  const auto code = static_cast<std::uint8_t>(column % 2 == 0 ? byte & 15 : byte >> 4);
  const double multiplier =
      mxfp4 ? std::ldexp(1.0, scale - 127) : static_cast<double>(e4m3_to_float(scale));
  return static_cast<double>(e2m1_to_float(code)) * multiplier * factor_of(matrix, row);
}

// Blocks of `block` values: q = x / scale to nearest, scale = largest / 127.
std::vector<double> rounded_int8(std::span<const float> x, std::int64_t k) {
  constexpr std::int64_t kBlock = 64;
  std::vector<double> rounded;
  for (std::size_t at = 0; at < x.size();) {
    const auto column = static_cast<std::int64_t>(at) % k;
    const auto end = at + static_cast<std::size_t>(std::min(kBlock, k - column));
    float largest = 0;
    for (std::size_t i = at; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    for (; at < end; ++at) {
      const double scale = static_cast<double>(largest) / 127;
      rounded.push_back(largest > 0 ? std::nearbyint(static_cast<double>(x[at]) / scale) * scale
                                    : 0);
    }
  }
  return rounded;
}

std::vector<double> rounded_nvfp4(std::span<const float> x, std::int64_t k,
                                  std::optional<float> input_scale) {
  std::vector<double> rounded;
  for (std::size_t begin = 0; begin < x.size(); begin += static_cast<std::size_t>(k)) {
    const QuantizedBytes row =
        quantize_nvfp4(x.subspan(begin, static_cast<std::size_t>(k)), 1, k, input_scale);
    const std::vector<double> values = dequantized(row.view());
    rounded.insert(rounded.end(), values.begin(), values.end());
  }
  return rounded;
}

}  // namespace

std::vector<double> dequantized(const QuantizedMatrix& matrix) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(matrix.rows * matrix.columns));
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t column = 0; column < matrix.columns; ++column) {
      values.push_back(value_of(matrix, row, column));
    }
  }
  return values;
}

void gemm_reference(const QuantizedMatrix& matrix, std::span<const double> x, std::span<double> y) {
  const auto columns = static_cast<std::size_t>(matrix.columns);
  const auto rows = static_cast<std::size_t>(matrix.rows);
  const std::size_t tokens = x.size() / columns;
  NIBBLE_CHECK(y.size() == tokens * rows);
  std::vector<double> weights(columns);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      weights[column] =
          value_of(matrix, static_cast<std::int64_t>(row), static_cast<std::int64_t>(column));
    }
    for (std::size_t token = 0; token < tokens; ++token) {
      double sum = 0;
      for (std::size_t column = 0; column < columns; ++column) {
        sum += weights[column] * x[token * columns + column];
      }
      y[token * rows + row] = sum;
    }
  }
}

std::vector<double> rounded_activations(std::span<const float> x, std::int64_t k, Format format,
                                        std::optional<float> input_scale) {
  if (format == Format::kInt8) return rounded_int8(x, k);
  if (format == Format::kNvfp4) return rounded_nvfp4(x, k, input_scale);
  NIBBLE_CHECK(format == Format::kBf16 || format == Format::kFp32);
  std::vector<double> rounded;
  rounded.reserve(x.size());
  for (const float value : x) {
    rounded.push_back(format == Format::kBf16
                          ? static_cast<double>(bf16_to_float(float_to_bf16(value)))
                          : static_cast<double>(value));
  }
  return rounded;
}

}  // namespace nibble
