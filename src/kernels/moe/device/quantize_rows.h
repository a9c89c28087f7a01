// What the kernel that quantizes rows of activations is compiled for and launched with: shared by
// host C++ and device code.
//
//   constexpr QuantizeShape kShape{.mode = QuantizeMode::kNvfp4Rows, .columns = 6144};
//   quantize_rows<kShape>(params);   // device
//   quantize_blocks(kShape, 64);     // how many blocks of threads 64 rows take
//
// Codes are row-major, the even column in the low nibble; scales lie in the order of
// formats/scale_layout.h ("128x4"). That layout's padding is not written: who reads the scales of a
// row and column that exist never reads it.
#pragma once

#include "formats/scale_layout.h"
#include "kernels/device/element.h"

namespace nibble {

enum class QuantizeMode : uint32_t {
  kNvfp4,      // one factor of all rows, that the host gives
  kNvfp4Rows,  // each row takes its own, max|x| / (6 * 448)
  kMxfp4,      // no factor
};

struct QuantizeShape {
  Element element = Element::kBf16;  // or kFp16
  QuantizeMode mode = QuantizeMode::kNvfp4;
  int columns = 16;  // a multiple of what shares a scale
  friend constexpr bool operator==(const QuantizeShape&, const QuantizeShape&) = default;

  // Columns that share a scale, and scales of a row.
  NIBBLE_HOST_DEVICE constexpr int block() const { return mode == QuantizeMode::kMxfp4 ? 32 : 16; }
  NIBBLE_HOST_DEVICE constexpr int scales() const { return columns / block(); }
};

inline constexpr int kQuantizeThreads = 256;
// A row that finds its own factor is one warp's up to here (two rounds), above a block's.
inline constexpr int kMostWarpScales = 64;

NIBBLE_HOST_DEVICE constexpr int quantize_row_threads(const QuantizeShape& shape) {
  return shape.scales() <= kMostWarpScales ? 32 : kQuantizeThreads;
}

// Blocks of threads for `rows` rows. Otherwise a thread makes one scale and its codes.
NIBBLE_HOST_DEVICE constexpr int64_t quantize_blocks(const QuantizeShape& shape, int64_t rows) {
  const int64_t threads = shape.mode == QuantizeMode::kNvfp4Rows
                              ? rows * quantize_row_threads(shape)
                              : rows * shape.scales();
  return scale_tiles(threads, kQuantizeThreads);
}

struct QuantizeRows {
  const void* x = nullptr;            // [rows, columns], aligned to 16 bytes
  uint8_t* codes = nullptr;           // [rows, columns / 2]
  uint8_t* scales = nullptr;          // 128x4 of [rows, scales]
  float* factors = nullptr;           // [rows], of kNvfp4Rows
  const int32_t* count = nullptr;     // [1]: how many of the rows there are; null: all
  const int32_t* token_of = nullptr;  // [rows]: a row with -1 is left alone; null: none is
  float factor = 1;                   // of kNvfp4: finite and above 0
  int32_t rows = 0;
};

}  // namespace nibble
