// How packed weights and activations lie in memory, and what a kernel of one instruction set does
// with them. Only the files of this folder look inside.
//
// Weights of 4 bits: [expert][tile of 16 rows][group of 32 columns], 288 bytes a tile and group:
// 256 bytes of codes, then 32 scale bytes, of row r at 2 r (columns 0-15) and 2 r + 1 (16-31). The
// codes of a group are eight steps of four columns; a step has one 32-bit lane for each row:
//   kPortable, kAvx2: step j has columns 2j, 2j+1 of both halves of the group, so that a 16-bit
//   lane
//     sums one block of 16. Byte 32 j + 4 (r % 8) + i; rows 0-7 in the low nibble, 8-15 in the
//     high.
//   kAvx512: step j has columns 4j .. 4j+3, which vpdpbusd sums into 32 bits. Byte
//     64 (j % 4) + 4 r + i; steps 0-3 (columns 0-15) in the low nibble, 4-7 in the high.
//
// A scale byte holds an integer m * 2^e, m in the low nibble and e <= 10 in the high one, in units
// of the row's own power of two: e4m3 has 4 significant bits, so every block scale down to 2^-10 of
// the row's largest is exact, and the rest of a smaller one is a residual (packed_weights.h).
//
// bf16 weights: [expert][tile of 16 rows][column][16 rows], two bytes each.
//
// 4-bit weights are stored as unsigned 0 .. 24: twice the value of e2m1, plus 12. The sums that
// this adds, 12 times the activations of a block, are taken off by starting from `correction`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/gemm/packed_activations.h"
#include "kernels/gemm/packed_weights.h"

namespace nibble {

inline constexpr int kTileRows = 16;
inline constexpr int kBlockColumns = 16;  // of NVFP4
inline constexpr int kGroupColumns = 32;
inline constexpr int kSteps = 8;
inline constexpr int kCodeBytes = kTileRows * kGroupColumns / 2;
inline constexpr int kScaleBytes = kTileRows * 2;
inline constexpr int kGroupBytes = kCodeBytes + kScaleBytes;
inline constexpr int kCodeZero = 12;  // what the stored code of 0 becomes

// int8, bf16 and fp32 activations share a scale over two groups, 64 columns: the scaled sums of
// four blocks are added as integers before they become fp32. A block's sum is at most 16 x 12 x
// 128, so with scales of at most 15 * 2^10 the four stay below 2^31.
inline constexpr int kScaleGroups = 2;
inline constexpr int kScaleColumns = kScaleGroups * kGroupColumns;
inline constexpr int kScaleExponents = 10;  // the largest e of a scale byte
static_assert(std::int64_t{2 * kScaleGroups} * 16 * 12 * 128 * (15 << kScaleExponents) <
                  std::int64_t{1} << 31,
              "the scaled sums of a scale's columns fit 32 bits");

// Where the loops turn. A unit, what one thread takes at a time, is 4 tiles: four streams of
// memory, and the activations of a chunk are used four times from the innermost cache.
inline constexpr int kUnitTiles = 4;
inline constexpr int kChunkGroups = 8;  // 4.6 KB a tile unpacked, 18 KB a unit: of 32 KB of L1
// Weights that are unpacked in passing are read from DRAM as they are used: turns between the four
// streams are short.
inline constexpr int kPackedGroups = 4;
inline constexpr int kAheadGroups = 4;  // of each of the four streams: 4.6 KB, 0.3 us at 16 GB/s
// Streams that are worked on together, so that weights are unpacked once for all of them: their
// activations, 9 KB each for 6,144 columns, just leave an L2 of 512 KB, but a chunk of them is
// requested a block ahead. The sums of a unit are 16 KB.
inline constexpr int kPassStreams = 64;
inline constexpr int kBlockStreams = 4;  // two registers of weights x 4 streams: 8 sums of 16
inline constexpr int kMostStreams = 8;   // in passing, where there are 32 registers

// One group of one stream. A stream is a row of activations, or one of the two halves of a row of
// 16-bit integers.
struct ActivationGroup {
  std::int8_t values[kGroupColumns];  // by step, four columns each
  // -12 x the sum of each block: kPortable and kAvx2 as two 16-bit lanes in the first word (sums
  // wrap around and come out right), kAvx512 as two words.
  std::int32_t correction[2];
  float scale[2];  // of each block of 16; equal, and those of the next group, when it is of 64
};
static_assert(sizeof(ActivationGroup) == 48);

// A chunk of a tile, unpacked to bytes 0 .. 24 by step, and its scales as integers by row.
struct Panel {
  alignas(64) std::uint8_t weights[kChunkGroups][kTileRows * kGroupColumns];
  std::int16_t scales[kChunkGroups][kTileRows * 2];
};

// The tiles of a unit times one block of streams.
struct MultiplyArguments {
  const Panel* panels = nullptr;      // [tiles]: the chunk, unpacked
  const std::byte* packed = nullptr;  // or packed, of the first tile;
  std::size_t tile_bytes = 0;         // the next one is so much further
  int tiles = 0;                      // <= kUnitTiles
  int groups = 0;                     // <= kChunkGroups; even
  std::ptrdiff_t ahead_bytes = 0;     // packed weights are requested so much before their use
  const ActivationGroup* streams[kMostStreams] = {};  // of the chunk
  float* sums = nullptr;  // [tile][kPassStreams][kTileRows], from the first stream; added to

  float* sums_of(int tile, int stream) const {
    return sums + (tile * kPassStreams + stream) * kTileRows;
  }
  const std::byte* packed_tile(int tile) const {
    return packed + static_cast<std::size_t>(tile) * tile_bytes;
  }
};

// The loops of one instruction set; entry s - 1 of each takes s streams. `one_scale` activations
// have one scale for two groups, `two_scales` two for each (NVFP4). `packed` ones unpack
// the weights in passing, for when no more than `packed_streams` are all that there is.
struct IntegerKernel {
  using Unpack = void (*)(const std::byte* tile, int groups, Panel& panel);
  using Multiply = void (*)(const MultiplyArguments&);
  Unpack unpack = nullptr;
  std::array<Multiply, kBlockStreams> one_scale = {};
  std::array<Multiply, kBlockStreams> two_scales = {};
  int packed_streams = kBlockStreams;
  std::array<Multiply, kMostStreams> packed_one_scale = {};
  std::array<Multiply, kMostStreams> packed_two_scales = {};
};
const IntegerKernel& integer_kernel(Isa isa);

struct Bf16Arguments {
  const std::byte* tile = nullptr;  // [columns][16] bf16
  std::int64_t columns = 0;
  const float* rows[kBlockStreams] = {};  // [columns] each
  float* sums[kBlockStreams] = {};        // [16] each, written
};
using Bf16Kernel = std::array<void (*)(const Bf16Arguments&), kBlockStreams>;
const Bf16Kernel& bf16_kernel(Isa isa);

// The kernels, each in the file of its instruction set.
extern const IntegerKernel kPortableIntegerKernel;
extern const Bf16Kernel kPortableBf16Kernel;
#if defined(__x86_64__)
extern const IntegerKernel kAvx2IntegerKernel;
extern const Bf16Kernel kAvx2Bf16Kernel;
extern const IntegerKernel kAvx512IntegerKernel;
extern const Bf16Kernel kAvx512Bf16Kernel;
#endif

#if defined(__x86_64__)
// quantize_halves() and quantize_int8() of 64 activations for kAvx2 and kAvx512; false, and nothing
// written, where they are out of the ordinary: not finite, zero or next to it.
bool quantize_halves_avx2(const float* x, bool to_bf16, Isa isa, ActivationGroup* high,
                          ActivationGroup* low);
bool quantize_int8_avx2(const float* x, Isa isa, ActivationGroup* groups);
#endif
inline constexpr float kLeastInt8 = 1e-34F;  // below, 1 / scale would not be finite

// Column, within its group, of place `i` of step `step`.
constexpr int column_of(Isa isa, int step, int i) {
  if (isa == Isa::kAvx512) return 4 * step + i;
  return (i < 2 ? 0 : kBlockColumns) + 2 * step + i % 2;
}

// Byte of the tile's group and whether the high nibble holds it.
struct CodePlace {
  std::int16_t byte = 0;
  bool high = false;
};
constexpr CodePlace code_place(Isa isa, int row, int step, int i) {
  if (isa == Isa::kAvx512)
    return {static_cast<std::int16_t>(64 * (step % 4) + 4 * row + i), step >= 4};
  return {static_cast<std::int16_t>(32 * step + 4 * (row % 8) + i), row >= 8};
}

// An even number: the columns of a scale are never cut.
constexpr std::int64_t groups_of(std::int64_t columns) {
  return (columns + kScaleColumns - 1) / kScaleColumns * kScaleGroups;
}
constexpr std::int64_t tiles_of(std::int64_t rows) {
  return (rows + kTileRows - 1) / kTileRows;
}

// Groups from one stream to the next: an odd number of cache lines, so that the same chunk of many
// streams does not fall into a few sets of the cache.
constexpr std::int64_t stream_stride(std::int64_t columns) {
  constexpr std::int64_t kGroupsOfWholeLines = 4;  // 192 bytes are 3 lines
  const std::int64_t blocks = (groups_of(columns) + kGroupsOfWholeLines - 1) / kGroupsOfWholeLines;
  return (blocks + (blocks + 1) % 2) * kGroupsOfWholeLines;
}

// What the kernels may see of packed weights and activations.
struct GemmAccess {
  using Residual = PackedWeights::Residual;

  static std::size_t tile_bytes(const PackedWeights& weights) {
    return weights.expert_bytes_ / static_cast<std::size_t>(tiles_of(weights.rows_));
  }
  static const std::byte* tile(const PackedWeights& weights, std::int64_t expert,
                               std::int64_t tile) {
    return weights.tiles_.data() + static_cast<std::size_t>(expert) * weights.expert_bytes_ +
           static_cast<std::size_t>(tile) * tile_bytes(weights);
  }
  static const float* row_factors(const PackedWeights& weights, std::int64_t expert,
                                  std::int64_t tile) {
    return weights.row_factors_.data() + (expert * tiles_of(weights.rows_) + tile) * kTileRows;
  }
  static std::span<const Residual> residuals(const PackedWeights& weights, std::int64_t expert) {
    if (weights.residuals_.empty()) return {};
    const std::size_t begin = weights.residual_offsets_[static_cast<std::size_t>(expert)];
    const std::size_t end = weights.residual_offsets_[static_cast<std::size_t>(expert) + 1];
    return {weights.residuals_.data() + begin, end - begin};
  }

  // Streams of a row: bf16 and fp32 have two, the high and the low half.
  static int streams_per_row(Format activations) {
    return activations == Format::kBf16 || activations == Format::kFp32 ? 2 : 1;
  }
  static int streams_per_row(const PackedActivations& activations) {
    return streams_per_row(activations.format_);
  }
  static const ActivationGroup* stream(const PackedActivations& activations, std::int64_t row,
                                       int half) {
    const std::int64_t index = row * streams_per_row(activations) + half;
    return reinterpret_cast<const ActivationGroup*>(activations.memory_.data()) +
           index * stream_stride(activations.columns_);
  }
  // A row as fp32 values, of bf16 precision unless the format is fp32, for bf16 weights: [columns].
  static const float* row(const PackedActivations& activations, std::int64_t row) {
    return reinterpret_cast<const float*>(activations.memory_.data()) + row * activations.columns_;
  }
  static float row_factor(const PackedActivations& activations, std::int64_t row) {
    return activations.row_factors_.empty()
               ? 1.0F
               : activations.row_factors_[static_cast<std::size_t>(row)];
  }
  static Format meets(const PackedActivations& activations) { return activations.weights_; }
};

}  // namespace nibble
