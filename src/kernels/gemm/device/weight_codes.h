// Codes and scales of 4-bit weights as the tiles of w4a16_layout.h hold them, and back: on host and
// device.
//
//   word_of_codes(row, row_plus_8, 1);       // bytes 4..7 of a lane: columns 4..7 of its sixteen
//   nvfp4_scale_byte(0x01);                  // 0: 2^-9, e4m3's smallest
//   mxfp4_scale_byte(120, 14);               // 134
#pragma once

#include "kernels/gemm/device/w4a16_layout.h"

namespace nibble {

// Sixteen codes of a row, the first in the lowest four bits.
using CodeRow = uint64_t;

NIBBLE_HOST_DEVICE constexpr uint32_t code_at(CodeRow row, int column) {
  return static_cast<uint32_t>(row >> (4 * column)) & 15U;
}

// Which of the two rows, and which column of four, half `half` of the register of `pair` holds.
struct PairElement {
  bool lower_row = false;  // row g + 8
  int column = 0;
};
NIBBLE_HOST_DEVICE constexpr PairElement pair_element(int pair, int half) {
  return {pair % 2 == 1, pair / 2 * 2 + half};
}
// Where in the word that is: the bit of the lowest of its half.
NIBBLE_HOST_DEVICE constexpr int half_begin(int pair, int half) {
  return 16 * (pair == 3 ? 1 - half : half);
}

// Word j (0..3) of a lane: columns 4 j .. 4 j + 3 of rows g and g + 8.
NIBBLE_HOST_DEVICE constexpr uint32_t word_of_codes(CodeRow upper, CodeRow lower, int j) {
  uint32_t word = 0;
  for (int pair = 0; pair < 4; ++pair) {
    for (int half = 0; half < 2; ++half) {
      const PairElement element = pair_element(pair, half);
      const uint32_t code = code_at(element.lower_row ? lower : upper, 4 * j + element.column);
      const CodeBits bits = code_bits(pair);
      const int begin = half_begin(pair, half);
      word |= (code >> 3) << (begin + bits.sign) | (code & 7U) << (begin + bits.low);
    }
  }
  return word;
}

// Adds what word j says to the sixteen codes of both rows.
NIBBLE_HOST_DEVICE constexpr void codes_of_word(uint32_t word, int j, CodeRow& upper,
                                                CodeRow& lower) {
  for (int pair = 0; pair < 4; ++pair) {
    for (int half = 0; half < 2; ++half) {
      const PairElement element = pair_element(pair, half);
      const CodeBits bits = code_bits(pair);
      const uint32_t part = word >> half_begin(pair, half);
      const CodeRow code = (part >> bits.sign & 1U) << 3 | (part >> bits.low & 7U);
      CodeRow& row = element.lower_row ? lower : upper;
      row |= code << (4 * (4 * j + element.column));
    }
  }
}

// e4m3 without its sign, neither NaN nor zero -> (exponent + 9) * 8 + mantissa of 1.mantissa x
// 2^exponent. A normal number's exponent is its field - 7; subnormals (1..7) x 2^-9 become normal.
NIBBLE_HOST_DEVICE constexpr uint32_t nvfp4_scale_byte(uint32_t e4m3) {
  if (e4m3 >= 8) return e4m3 + 16;
  if (e4m3 >= 4) return 16 + (e4m3 - 4) * 2;
  if (e4m3 >= 2) return 8 + (e4m3 - 2) * 4;
  return 0;
}
NIBBLE_HOST_DEVICE constexpr uint32_t e4m3_of_scale_byte(uint32_t byte) {
  if (byte >= 24) return byte - 16;
  if (byte >= 16) return 4 + (byte - 16) / 2;
  if (byte >= 8) return 2 + (byte - 8) / 4;
  return 1;
}

// e8m0, shifted so that the expert's largest is kMxfp4LargestScale. 0: so far (2^134) below it that
// the block counts as zero; a block of zeros may be above it.
NIBBLE_HOST_DEVICE constexpr uint32_t mxfp4_scale_byte(uint32_t e8m0, int shift) {
  const int byte = static_cast<int>(e8m0) + shift;
  if (byte < 1) return 0;
  return static_cast<uint32_t>(byte < kMxfp4LargestScale ? byte : kMxfp4LargestScale);
}
NIBBLE_HOST_DEVICE constexpr uint32_t e8m0_of_scale_byte(uint32_t byte, int shift) {
  const int e8m0 = static_cast<int>(byte) - shift;
  if (byte == 0 || e8m0 < 0) return 0;
  return static_cast<uint32_t>(e8m0 < 254 ? e8m0 : 254);
}

// Byte of a tile's scales that belongs to a lane's sixteen columns of one of its rows. Lanes 2 t
// and 2 t + 1 share a scale of MXFP4.
NIBBLE_HOST_DEVICE constexpr int scale_place(bool mxfp4, int lane, bool lower_row) {
  const int pair = mxfp4 ? lane / 4 * 2 + lane % 4 / 2 : lane;
  return kCodeBytes + 2 * pair + (lower_row ? 1 : 0);
}

// Canonical matrices of some experts and their tiles, all in device memory.
struct Prepack {
  uint8_t* codes = nullptr;     // [experts, rows, columns / 2]
  uint8_t* scales = nullptr;    // [experts, rows, ceil(columns / block)]
  uint8_t* tiles = nullptr;     // [experts] as w4a16_layout.h has them
  const int* shifts = nullptr;  // [experts], of MXFP4
  int64_t rows = 0;
  int64_t columns = 0;  // even
  int64_t experts = 0;
  RowOrder order = RowOrder::kPlain;
  bool mxfp4 = false;
  NIBBLE_HOST_DEVICE constexpr WeightTiles layout() const {
    return weight_tiles(rows, columns, mxfp4 ? kMxfp4ScaleBytes : kNvfp4ScaleBytes, order);
  }
};

// Random canonical matrices, for measurements.
struct RandomWeights {
  uint8_t* codes = nullptr;
  uint8_t* scales = nullptr;
  int64_t code_bytes = 0;
  int64_t scale_bytes = 0;
  uint64_t seed = 0;
  bool mxfp4 = false;
};

inline constexpr int kPrepackThreads = 128;  // the lanes of a tile

}  // namespace nibble
