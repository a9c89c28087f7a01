// What the tests of the C API share: random 4-bit matrices, and their values in double precision by
// tables and formulas of the formats' definitions, which are not the library's.
//
//   Fp4Matrix b = random_fp4(random, {.rows = 96, .columns = 128});
//   b.value(row, column);                    // code x scale
//   swizzled(b, 0x7f);                       // 128x4, padding filled with 0x7f
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <nibble/nibble.h>
#include <vector>

#include "base/stats.h"

namespace nibble::capi {

struct Fp4Shape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool mxfp4 = false;
};

struct Fp4Matrix {
  Fp4Shape shape;
  std::vector<std::uint8_t> codes;   // [rows, columns / 2]
  std::vector<std::uint8_t> scales;  // [rows, blocks]

  std::int64_t block() const { return shape.mxfp4 ? 32 : 16; }
  std::int64_t blocks() const { return (shape.columns + block() - 1) / block(); }
  double value(std::int64_t row, std::int64_t column) const {
    // OCP MX 1.0, 5.3.3; OFP8: 4 exponent bits, bias 7; e8m0: 2^(code - 127).
    static constexpr double kE2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const std::uint8_t byte = codes[static_cast<std::size_t>((row * shape.columns + column) / 2)];
    const int code = column % 2 == 0 ? byte & 15 : byte >> 4;
    const double magnitude = kE2m1[code & 7];
    const int scale = scales[static_cast<std::size_t>(row * blocks() + column / block())];
    double factor = 0;
    if (shape.mxfp4) {
      factor = std::ldexp(1.0, scale - 127);
    } else {
      const int exponent = (scale >> 3) & 15;
      const double mantissa = (scale & 7) / 8.0;
      factor = exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
    }
    return (code & 8) != 0 ? -magnitude * factor : magnitude * factor;
  }
};

// Scales that differ from block to block by up to 8.
inline Fp4Matrix random_fp4(Random& random, const Fp4Shape& shape) {
  Fp4Matrix matrix{.shape = shape};
  for (std::int64_t at = 0; at < shape.rows * shape.columns / 2; ++at) {
    matrix.codes.push_back(static_cast<std::uint8_t>(random.below(256)));
  }
  for (std::int64_t at = 0; at < shape.rows * matrix.blocks(); ++at) {
    const auto scale = shape.mxfp4 ? 124 + random.below(4) : 0x28 + random.below(24);
    matrix.scales.push_back(static_cast<std::uint8_t>(scale));
  }
  return matrix;
}

// Where cuBLASLt's and CUTLASS's block scaling has a scale: tiles of 128 rows by 4 columns.
inline std::size_t place_128x4(std::int64_t row, std::int64_t column, std::int64_t columns) {
  const std::int64_t tile = row / 128 * ((columns + 3) / 4) + column / 4;
  return static_cast<std::size_t>(512 * tile + 16 * (row % 32) + 4 * (row / 32 % 4) + column % 4);
}

// Rows `first` .. `last` - 1 in tiles of their own, the padding filled.
inline std::vector<std::uint8_t> swizzled_rows(const Fp4Matrix& matrix, std::int64_t first,
                                               std::int64_t last, std::uint8_t padding) {
  const std::int64_t tiles = (last - first + 127) / 128 * ((matrix.blocks() + 3) / 4);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(512 * tiles), padding);
  for (std::int64_t row = first; row < last; ++row) {
    for (std::int64_t column = 0; column < matrix.blocks(); ++column) {
      out[place_128x4(row - first, column, matrix.blocks())] =
          matrix.scales[static_cast<std::size_t>(row * matrix.blocks() + column)];
    }
  }
  return out;
}
inline std::vector<std::uint8_t> swizzled(const Fp4Matrix& matrix, std::uint8_t padding) {
  return swizzled_rows(matrix, 0, matrix.shape.rows, padding);
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// bf16 has 8 bits: the upper half of an fp32, exact for what the tests make.
inline std::uint16_t upper_half(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<std::uint16_t>(bits >> 16);
}
inline float from_upper_half(std::uint16_t half) {
  const std::uint32_t bits = std::uint32_t{half} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
// Random values that bf16 holds exactly: 7 bits times a power of two.
inline std::vector<float> random_bf16(Random& random, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t at = 0; at < count; ++at) {
    const auto mantissa = static_cast<float>(static_cast<int>(random.below(255)) - 127);
    values.push_back(mantissa / 64 / static_cast<float>(1 << random.below(3)));
  }
  return values;
}

// A zeroed struct with its size.
template <class T>
T sized() {
  T made = {};
  made.size = sizeof(T);
  return made;
}

#define EXPECT_CALL_OK(call) EXPECT_EQ(call, NIBBLE_OK) << nibble_last_error()
#define ASSERT_CALL_OK(call) ASSERT_EQ(call, NIBBLE_OK) << nibble_last_error()

}  // namespace nibble::capi
