// Random matrices of 4-bit blocks for the tests of the W4A4 product, and what they stand for, by
// rules that are written down here anew.
//
//   const W4A4Matrix tokens = random_w4a4(rows, k, what, random);
//   tokens.values[row * k + column];
//   put_scales(tokens, 0, scales);  // in the order that the kernels read
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/stats.h"
#include "formats/scale_layout.h"
#include "kernels/gemm/device/test_w4a4_cases.h"

namespace nibble {

// A matrix of 4-bit blocks in row-major form.
struct W4A4Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  int block = 16;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  std::vector<float> values;  // what they stand for, which a float holds exactly

  std::int64_t blocks() const { return columns / block; }
  double value(std::int64_t row, std::int64_t column) const {
    const std::uint8_t byte = codes[static_cast<std::size_t>((row * columns + column) / 2)];
    const int code = column % 2 == 0 ? byte & 15 : byte >> 4;
    constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const double magnitude = kValues[code & 7] * (code >= 8 ? -1 : 1);
    const std::uint8_t scale = scales[static_cast<std::size_t>(row * blocks() + column / block)];
    if (block == 32) return std::ldexp(magnitude, scale - 127);
    const int exponent = scale >> 3;
    const double mantissa = exponent > 0 ? 1 + (scale & 7) / 8.0 : (scale & 7) / 8.0;
    return magnitude * std::ldexp(mantissa, (exponent > 0 ? exponent : 1) - 7);
  }
  void decode() {
    values.reserve(static_cast<std::size_t>(rows * columns));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        values.push_back(static_cast<float>(value(row, column)));
      }
    }
  }
};

inline W4A4Matrix random_w4a4(std::int64_t rows, std::int64_t columns, const W4A4Case& what,
                              Random& random) {
  const bool mxfp4 = what.problem.format == Format::kMxfp4;
  W4A4Matrix matrix{.rows = rows, .columns = columns, .block = mxfp4 ? 32 : 16};
  matrix.codes.resize(static_cast<std::size_t>(rows * columns / 2));
  matrix.scales.resize(static_cast<std::size_t>(rows * matrix.blocks()));
  for (std::uint8_t& byte : matrix.codes) byte = static_cast<std::uint8_t>(random.below(256));
  for (std::uint8_t& scale : matrix.scales) {
    if (mxfp4) {
      scale = static_cast<std::uint8_t>(118 + random.below(9));
    } else if (what.powers_of_two) {
      scale = static_cast<std::uint8_t>((1 + random.below(14)) * 8);
    } else {
      scale = static_cast<std::uint8_t>(random.below(127));  // subnormal ones among them
    }
  }
  matrix.decode();
  return matrix;
}

// The 128x4 order of a list of rows, one after the other at `first`; everything else is poison.
inline void put_scales(const W4A4Matrix& matrix, std::int64_t first,
                       std::vector<std::uint8_t>& to) {
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t column = 0; column < matrix.blocks(); ++column) {
      to[static_cast<std::size_t>(swizzled_offset(first + row, column, matrix.blocks()))] =
          matrix.scales[static_cast<std::size_t>(row * matrix.blocks() + column)];
    }
  }
}

}  // namespace nibble
