// The order in which Blackwell's matrix instructions read block scales ("128x4"): tiles of 128 rows
// by 4 columns, 512 bytes each, rows 32 apart side by side. Rows are padded to 128 and columns
// to 4.
//
//   swizzled_offset(r, c, C) = ((r / 128) * ceil(C / 4) + c / 4) * 512
//                              + (r % 32) * 16 + (r % 128) / 32 * 4 + c % 4
//
//   std::vector<std::uint8_t> tiles(swizzled_bytes(rows, columns));
//   swizzle_scales(scales, rows, columns, tiles);  // writes the padding too, with zeros
//   unswizzle_scales(tiles, rows, columns, again); // again == scales
//
// cuBLASLt calls it VEC16_UE4M3 (or VEC32_UE8M0), CUTLASS Sm1xxBlockScaledConfig. `columns` counts
// scales, not weights: K = 48 has 3.
#pragma once

#include "formats/host_device.h"

#ifndef __CUDACC_RTC__
#include <span>
#endif

namespace nibble {

inline constexpr int64_t kScaleTileRows = 128;
inline constexpr int64_t kScaleTileColumns = 4;
inline constexpr int64_t kScaleTileBytes = kScaleTileRows * kScaleTileColumns;

NIBBLE_HOST_DEVICE constexpr int64_t scale_tiles(int64_t length, int64_t tile) {
  return length / tile + (length % tile != 0 ? 1 : 0);
}

NIBBLE_HOST_DEVICE constexpr int64_t swizzled_bytes(int64_t rows, int64_t columns) {
  return scale_tiles(rows, kScaleTileRows) * scale_tiles(columns, kScaleTileColumns) *
         kScaleTileBytes;
}

NIBBLE_HOST_DEVICE constexpr int64_t swizzled_offset(int64_t row, int64_t column, int64_t columns) {
  const int64_t tile =
      row / kScaleTileRows * scale_tiles(columns, kScaleTileColumns) + column / kScaleTileColumns;
  return tile * kScaleTileBytes + row % 32 * 16 + row % kScaleTileRows / 32 * 4 +
         column % kScaleTileColumns;
}

struct ScalePosition {
  int64_t row = 0;
  int64_t column = 0;
  NIBBLE_HOST_DEVICE constexpr bool operator==(const ScalePosition& other) const {
    return row == other.row && column == other.column;
  }
};

// The inverse of swizzled_offset; the position may lie in the padding.
NIBBLE_HOST_DEVICE constexpr ScalePosition swizzled_position(int64_t offset, int64_t columns) {
  const int64_t tiles_across = scale_tiles(columns, kScaleTileColumns);
  const int64_t tile = offset / kScaleTileBytes;
  const int64_t within = offset % kScaleTileBytes;
  return {.row = tile / tiles_across * kScaleTileRows + within / 4 % 4 * 32 + within / 16,
          .column = tile % tiles_across * kScaleTileColumns + within % 4};
}

#ifndef __CUDACC_RTC__
// Row-major [rows, columns] to tiles of swizzled_bytes(rows, columns), all of which are written:
// stale bytes in the padding would be read as scales, NaN among them.
void swizzle_scales(std::span<const uint8_t> scales, int64_t rows, int64_t columns,
                    std::span<uint8_t> tiles);

// And back; the padding is left out.
void unswizzle_scales(std::span<const uint8_t> tiles, int64_t rows, int64_t columns,
                      std::span<uint8_t> scales);
#endif

}  // namespace nibble
