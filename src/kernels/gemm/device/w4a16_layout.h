// Where the weights and the tokens of a grouped W4A16 product lie in device memory: one definition
// for host C++ and for device code.
//
//   const WeightTiles tiles = weight_tiles(2 * 2048, 6144, kNvfp4ScaleBytes, RowOrder::kGateUp);
//   tiles.tile_begin(expert, block, chunk);      // byte of a 64 x 64 tile
//   slot_byte(slot, column, chunks_of(6144));    // byte of an activation
//
// Weights: tiles of 64 rows by 64 columns ("chunk"), in the order [expert][row block][chunk], so
// that the rows of a block are one contiguous stream. A tile is 2,048 bytes of codes in the order
// in which the lanes of four warps hold the A fragment of m16n8k16 (wgmma's m64 is the same four
// times), then its scales. Lane 4 g + t of warp w holds rows 16 w + g and 16 w + g + 8 and columns
// 16 t .. 16 t + 15: one scale group of NVFP4, half of one of MXFP4. So the columns of a chunk are
// permuted, in weights and tokens alike; a product does not mind.
//
// Tokens stand in slots, eight to a group: a group's 64 columns are 1,024 bytes, eight rows of 128
// bytes with the 16-byte units of row r exchanged by XOR with r. That is wgmma's 128-byte swizzle,
// and ldmatrix reads it without bank conflicts.
#pragma once

#include "formats/host_device.h"

namespace nibble {

inline constexpr int kTileRows = 64;
inline constexpr int kChunk = 64;        // columns
inline constexpr int kCodeBytes = 2048;  // of a tile
inline constexpr int kNvfp4ScaleBytes = 256;
inline constexpr int kMxfp4ScaleBytes = 128;
inline constexpr int kSlotGroup = 8;
inline constexpr int kSlotTileBytes = 1024;  // a group's chunk
inline constexpr int kSlotRowBytes = 128;

// e2m1 bits placed in a bf16 stand for w x 2^-126, in an fp16 for w x 2^-14; a scale's bits are
// placed so that the product is w x scale x 2^-7 (NVFP4, both) or w x scale x 2^-6 (MXFP4, bf16).
// alpha makes up for it.
inline constexpr float kNvfp4Lift = 128;
inline constexpr float kMxfp4Lift = 64;
// MXFP4: an expert's largest scale has this code after its shift.
inline constexpr int kMxfp4LargestScale = 134;

NIBBLE_HOST_DEVICE constexpr int64_t chunks_of(int64_t columns) {
  return ceil_div(columns, kChunk);
}

// How the rows of a tile follow from the rows of the matrix.
enum class RowOrder : uint32_t {
  kPlain,   // rows 2 g and 2 g + 1 of 16 share a lane: two outputs beside each other in memory
  kGateUp,  // gate row i and up row i share a lane: SwiGLU stays in registers
};

struct WeightTiles {
  int64_t blocks = 0;  // of 64 rows, of one expert
  int64_t chunks = 0;
  int64_t tile_bytes = 0;
  NIBBLE_HOST_DEVICE constexpr int64_t expert_bytes() const { return blocks * chunks * tile_bytes; }
  NIBBLE_HOST_DEVICE constexpr int64_t tile_begin(int64_t expert, int64_t block,
                                                  int64_t chunk) const {
    return ((expert * blocks + block) * chunks + chunk) * tile_bytes;
  }
};

// Gate/up rows are padded to whole chunks of the next product's columns: two blocks.
NIBBLE_HOST_DEVICE constexpr WeightTiles weight_tiles(int64_t rows, int64_t columns,
                                                      int scale_bytes, RowOrder order) {
  const int64_t unit = order == RowOrder::kGateUp ? 2 : 1;
  return {.blocks = ceil_div(rows, kTileRows * unit) * unit,
          .chunks = chunks_of(columns),
          .tile_bytes = kCodeBytes + scale_bytes};
}

// Row of the matrix that stands in row `row` (0..63) of a block. kGateUp: `rows` is 2 x
// intermediate, gate rows first; padding gives a number beyond `rows`.
NIBBLE_HOST_DEVICE constexpr int64_t source_row(RowOrder order, int64_t block, int row,
                                                int64_t rows) {
  const int warp = row / 16;
  const int g = row % 8;
  const int half = row % 16 / 8;
  if (order == RowOrder::kPlain) return kTileRows * block + 16 * warp + 2 * g + half;
  const int64_t i = kTileRows / 2 * block + 8 * warp + g;
  if (i >= rows / 2) return rows;
  return half == 0 ? i : rows / 2 + i;
}

// Bits of a code within the 16-bit half of a word: sign, then the lowest of the three others.
// `pair` 0..3: row g, columns 0 and 1 of four; row g + 8, 0 and 1; row g, 2 and 3; row g + 8, 2
// and 3. Half h of the word holds half h of the register that is made of it; pair 3 the other one.
struct CodeBits {
  int sign = 0;
  int low = 0;
};
NIBBLE_HOST_DEVICE constexpr CodeBits code_bits(int pair) {
  switch (pair) {
    case 0:
      return {15, 6};
    case 1:
      return {12, 3};
    case 2:
      return {14, 0};
    default:
      return {13, 9};
  }
}

// Place of column `kk` (0..63) within the chunk's row of 64 values.
NIBBLE_HOST_DEVICE constexpr int permuted_column(int kk) {
  const int t = kk / 16;
  const int j = kk / 4 % 4;
  const int q = kk % 4;
  return 16 * j + 2 * t + (q & 1) + 8 * (q >> 1);
}

NIBBLE_HOST_DEVICE constexpr int64_t slot_byte(int64_t slot, int64_t column, int64_t chunks) {
  const int row = static_cast<int>(slot % kSlotGroup);
  const int place = permuted_column(static_cast<int>(column % kChunk));
  return (slot / kSlotGroup * chunks + column / kChunk) * kSlotTileBytes + row * kSlotRowBytes +
         ((place / 8) ^ row) * 16 + place % 8 * 2;
}

}  // namespace nibble
