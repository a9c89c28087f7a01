// Canonical codes and scales -> the tiles of w4a16_layout.h, and back; and random ones. A block
// of 128 threads makes one tile after another, a thread what one lane of the product reads of it.
#pragma once

#include "kernels/device/types.cuh"
#include "kernels/gemm/device/weight_codes.h"

namespace nibble {

// The sixteen columns of a row that a lane owns.
struct LaneRow {
  CodeRow codes = 0;
  uint32_t scale = 0;  // byte of the tile
};

// A place in the matrices of all experts; beyond the matrix there is none.
struct CanonicalPlace {
  int64_t row = 0;     // of all experts' rows
  int64_t column = 0;  // the first of sixteen
  int count = 0;       // of them that exist: even; 0: none

  NIBBLE_DEVICE int64_t code_byte(int64_t columns) const { return (row * columns + column) / 2; }
  NIBBLE_DEVICE int64_t scale_at(int64_t columns, int block) const {
    return row * ceil_div(columns, block) + column / block;
  }
};

NIBBLE_DEVICE CanonicalPlace canonical_place(const Prepack& params, int64_t expert, int64_t block,
                                             int64_t chunk, int tile_row, int t) {
  const int64_t row = source_row(params.order, block, tile_row, params.rows);
  CanonicalPlace place{expert * params.rows + row, chunk * kChunk + 16 * t, 0};
  const int64_t left = params.columns - place.column;
  if (row < params.rows && left > 0) place.count = static_cast<int>(left < 16 ? left : 16);
  return place;
}

NIBBLE_DEVICE LaneRow read_canonical(const Prepack& params, const CanonicalPlace& place,
                                     int64_t expert) {
  LaneRow result;
  if (place.count == 0) return result;
  const uint8_t* const from = params.codes + place.code_byte(params.columns);
  if (place.count == 16 && reinterpret_cast<uint64_t>(from) % 8 == 0) {
    result.codes = *reinterpret_cast<const CodeRow*>(from);
  } else {
    for (int byte = 0; byte < place.count / 2; ++byte) {
      result.codes |= static_cast<CodeRow>(from[byte]) << (8 * byte);
    }
  }
  const uint32_t scale = params.scales[place.scale_at(params.columns, params.mxfp4 ? 32 : 16)];
  if (params.mxfp4) {
    result.scale = mxfp4_scale_byte(scale, params.shifts[expert]);
    if (result.scale == 0) result.codes = 0;
  } else if ((scale & 0x7fU) == 0) {
    result.codes = 0;
  } else {
    result.scale = nvfp4_scale_byte(scale & 0x7fU);
    // The sign of a scale goes to its codes.
    if ((scale & 0x80U) != 0) result.codes ^= 0x8888888888888888ULL;
  }
  return result;
}

NIBBLE_DEVICE void write_canonical(const Prepack& params, const CanonicalPlace& place,
                                   int64_t expert, const LaneRow& row) {
  if (place.count == 0) return;
  uint8_t* const to = params.codes + place.code_byte(params.columns);
  for (int byte = 0; byte < place.count / 2; ++byte) {
    to[byte] = static_cast<uint8_t>(row.codes >> (8 * byte));
  }
  // Two lanes may write one byte of MXFP4, and then the same value.
  params.scales[place.scale_at(params.columns, params.mxfp4 ? 32 : 16)] =
      static_cast<uint8_t>(params.mxfp4 ? e8m0_of_scale_byte(row.scale, params.shifts[expert])
                                        : e4m3_of_scale_byte(row.scale));
}

// Calls `lane_of_tile(tile bytes, expert, places of the two rows, lane)` for every tile.
template <class LaneOfTile>
NIBBLE_DEVICE void for_each_tile(const Prepack& params, LaneOfTile lane_of_tile) {
  const WeightTiles tiles = params.layout();
  const int64_t of_expert = tiles.blocks * tiles.chunks;
  const int lane = static_cast<int>(threadIdx.x);
  const int row = lane / 32 * 16 + lane % 32 / 4;
  const int t = lane % 4;
  for (int64_t tile = blockIdx.x; tile < params.experts * of_expert; tile += gridDim.x) {
    const int64_t expert = tile / of_expert;
    const int64_t block = tile % of_expert / tiles.chunks;
    const int64_t chunk = tile % tiles.chunks;
    lane_of_tile(params.tiles + tile * tiles.tile_bytes, expert,
                 canonical_place(params, expert, block, chunk, row, t),
                 canonical_place(params, expert, block, chunk, row + 8, t), lane);
  }
}

NIBBLE_DEVICE void prepack(const Prepack& params) {
  for_each_tile(params, [&params](uint8_t* tile, int64_t expert, const CanonicalPlace& upper_place,
                                  const CanonicalPlace& lower_place, int lane) {
    const LaneRow upper = read_canonical(params, upper_place, expert);
    const LaneRow lower = read_canonical(params, lower_place, expert);
    Bits128 words;
#pragma unroll
    for (int j = 0; j < 4; ++j) words.word[j] = word_of_codes(upper.codes, lower.codes, j);
    reinterpret_cast<Bits128*>(tile)[lane] = words;
    // A scale of MXFP4 by the even lane: where its columns do not exist, nor do the odd one's.
    if (params.mxfp4 && lane % 2 == 1) return;
    tile[scale_place(params.mxfp4, lane, false)] = static_cast<uint8_t>(upper.scale);
    tile[scale_place(params.mxfp4, lane, true)] = static_cast<uint8_t>(lower.scale);
  });
}

NIBBLE_DEVICE void unpack(const Prepack& params) {
  for_each_tile(params,
                [&params](const uint8_t* tile, int64_t expert, const CanonicalPlace& upper_place,
                          const CanonicalPlace& lower_place, int lane) {
                  const Bits128 words = reinterpret_cast<const Bits128*>(tile)[lane];
                  LaneRow upper;
                  LaneRow lower;
#pragma unroll
                  for (int j = 0; j < 4; ++j)
                    codes_of_word(words.word[j], j, upper.codes, lower.codes);
                  upper.scale = tile[scale_place(params.mxfp4, lane, false)];
                  lower.scale = tile[scale_place(params.mxfp4, lane, true)];
                  write_canonical(params, upper_place, expert, upper);
                  write_canonical(params, lower_place, expert, lower);
                });
}

// splitmix64 (Steele, Lea and Flood 2014): eight bytes for every number.
NIBBLE_DEVICE uint64_t random_bits(uint64_t number) {
  uint64_t z = number * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Every code is as likely as any other; scales are 1 to 2 (NVFP4: all eight) or 1 and 2 (MXFP4).
NIBBLE_DEVICE void random_weights(const RandomWeights& params) {
  const int64_t stride = int64_t{gridDim.x} * kPrepackThreads;
  const int64_t first = int64_t{blockIdx.x} * kPrepackThreads + threadIdx.x;
  const int64_t code_words = ceil_div(params.code_bytes, 8);
  const int64_t words = code_words + ceil_div(params.scale_bytes, 8);
  for (int64_t word = first; word < words; word += stride) {
    const uint64_t bits = random_bits(params.seed + 1 + static_cast<uint64_t>(word));
    const bool is_code = word < code_words;
    uint8_t* const to = is_code ? params.codes : params.scales;
    const int64_t begin = 8 * (is_code ? word : word - code_words);
    const int64_t end = is_code ? params.code_bytes : params.scale_bytes;
    for (int i = 0; i < 8 && begin + i < end; ++i) {
      const auto byte = static_cast<uint32_t>(bits >> (8 * i) & 0xffU);
      const uint32_t scale = params.mxfp4 ? 127U + (byte & 1U) : 0x38U + (byte & 7U);
      to[begin + i] = static_cast<uint8_t>(is_code ? byte : scale);
    }
  }
}

}  // namespace nibble

#ifdef __CUDACC__
extern "C" __global__ void __launch_bounds__(nibble::kPrepackThreads)
    w4a16_prepack(const __grid_constant__ nibble::Prepack params) {
  nibble::prepack(params);
}

extern "C" __global__ void __launch_bounds__(nibble::kPrepackThreads)
    w4a16_unpack(const __grid_constant__ nibble::Prepack params) {
  nibble::unpack(params);
}

extern "C" __global__ void __launch_bounds__(nibble::kPrepackThreads)
    w4a16_random_weights(const __grid_constant__ nibble::RandomWeights params) {
  nibble::random_weights(params);
}
#endif
