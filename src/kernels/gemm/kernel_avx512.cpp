// The loops for AVX-512 with VNNI. vpdpbusd adds four products of unsigned weights and signed
// activations into 32 bits: a step has 16 rows x 4 columns, and a block of 16 columns takes four.
#include "kernels/gemm/layout.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define NIBBLE_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")))

namespace nibble {
namespace {

// 32 scale bytes of 16 rows -> 32 integers m << e.
NIBBLE_AVX512 inline __m512i unpack_scales(const std::byte* bytes) {
  const __m256i loaded = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
  const __m512i wide = _mm512_cvtepu8_epi16(loaded);
  const __m512i mantissa = _mm512_and_si512(wide, _mm512_set1_epi16(15));
  return _mm512_sllv_epi16(mantissa, _mm512_srli_epi16(wide, 4));
}

// The weights of steps `step` and `step` + 4, sixteen rows of four columns each.
struct StepWeights {
  __m512i first;
  __m512i second;
};

NIBBLE_AVX512 inline StepWeights unpack_steps(const std::byte* codes) {
  const __m512i stored = _mm512_broadcast_i32x4(
      _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  const __m512i nibble = _mm512_set1_epi8(15);
  const __m512i both = _mm512_loadu_si512(codes);
  const __m512i low = _mm512_and_si512(both, nibble);
  const __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
  return {_mm512_shuffle_epi8(stored, low), _mm512_shuffle_epi8(stored, high)};
}

// Requests a line of weights into all caches: past the outer ones (a non-temporal request) it comes
// later, on a Xeon by a third.
NIBBLE_AVX512 inline void request(const std::byte* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

NIBBLE_AVX512 void unpack(const std::byte* tile, int groups, Panel& panel) {
  for (int at = 0; at < groups; ++at, tile += kGroupBytes) {
    std::uint8_t* const weights = panel.weights[at];
#pragma GCC unroll 4
    for (int step = 0; step < kSteps / 2; ++step) {
      const std::byte* const codes = tile + 64 * step;
      request(codes + kAheadGroups * kGroupBytes);
      const StepWeights unpacked = unpack_steps(codes);
      _mm512_store_si512(weights + 64 * step, unpacked.first);
      _mm512_store_si512(weights + 64 * (step + kSteps / 2), unpacked.second);
    }
    _mm512_store_si512(panel.scales[at], unpack_scales(tile + kCodeBytes));
  }
}

// As in kernel_avx2.cpp.
struct FromPanel {
  const Panel& panel;

  NIBBLE_AVX512 StepWeights steps(int group, int step) const {
    const std::uint8_t* const weights = panel.weights[group];
    return {_mm512_load_si512(weights + 64 * step),
            _mm512_load_si512(weights + 64 * (step + kSteps / 2))};
  }
  NIBBLE_AVX512 __m512i scales(int group) const { return _mm512_load_si512(panel.scales[group]); }
};

struct FromTile {
  const std::byte* tile;
  std::ptrdiff_t ahead_bytes;

  NIBBLE_AVX512 StepWeights steps(int group, int step) const {
    const std::byte* const codes = tile + group * kGroupBytes + 64 * step;
    request(codes + ahead_bytes);
    return unpack_steps(codes);
  }
  NIBBLE_AVX512 __m512i scales(int group) const {
    const std::byte* const bytes = tile + group * kGroupBytes + kCodeBytes;
    request(bytes + ahead_bytes);
    return unpack_scales(bytes);
  }
};

NIBBLE_AVX512 inline __m512i broadcast(const void* word) {
  return _mm512_set1_epi32(*static_cast<const std::int32_t*>(word));
}

// The scales of the two blocks of a group, each in the low half of its row's lane. The sum of a
// block fits 16 bits, so the low half of its lane is all of it, and vpmaddwd and vpdpwssd multiply
// the high halves, the signs, by nothing.
struct BlockScales {
  __m512i first;
  __m512i second;
};
NIBBLE_AVX512 inline BlockScales split(__m512i scales) {
  return {_mm512_and_si512(scales, _mm512_set1_epi32(0xffff)), _mm512_srli_epi32(scales, 16)};
}

// Adds whole numbers x scale to sixteen sums.
NIBBLE_AVX512 inline void add_scaled(float* sums, __m512i whole, float scale) {
  const __m512 more = _mm512_cvtepi32_ps(whole);
  _mm512_store_ps(sums, _mm512_fmadd_ps(more, _mm512_set1_ps(scale), _mm512_load_ps(sums)));
}

// Sums of one group: sixteen rows of each stream, a register for each block. `kTiles` tiles side by
// side, so that each activation that is broadcast meets all their rows: with one tile the loads
// would take longer than the products.
template <int kTiles, int kStreams, class Weights>
[[gnu::always_inline]] NIBBLE_AVX512 inline void sum_blocks(
    const Weights (&weights)[kTiles], int at, const ActivationGroup* const (&streams)[kStreams],
    __m512i (&first)[kTiles][kStreams], __m512i (&second)[kTiles][kStreams]) {
#pragma GCC unroll 2
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma GCC unroll 8
    for (int stream = 0; stream < kStreams; ++stream) {
      first[tile][stream] = broadcast(&streams[stream][at].correction[0]);
      second[tile][stream] = broadcast(&streams[stream][at].correction[1]);
    }
  }
#pragma GCC unroll 4
  for (int step = 0; step < kSteps / 2; ++step) {
    StepWeights rows[kTiles];
#pragma GCC unroll 2
    for (int tile = 0; tile < kTiles; ++tile) rows[tile] = weights[tile].steps(at, step);
#pragma GCC unroll 8
    for (int stream = 0; stream < kStreams; ++stream) {
      const std::int8_t* const values = streams[stream][at].values;
      const __m512i low = broadcast(values + 4 * step);
      const __m512i high = broadcast(values + 4 * (step + kSteps / 2));
#pragma GCC unroll 2
      for (int tile = 0; tile < kTiles; ++tile) {
        first[tile][stream] = _mm512_dpbusd_epi32(first[tile][stream], rows[tile].first, low);
        second[tile][stream] = _mm512_dpbusd_epi32(second[tile][stream], rows[tile].second, high);
      }
    }
  }
}

// Everything that the loop needs is in locals: what it stores could else be what it reads next.
template <int kTiles, int kStreams, bool kTwoScales, class Weights>
[[gnu::always_inline]] NIBBLE_AVX512 inline void multiply_tiles(
    const Weights (&weights)[kTiles], int first_tile, const MultiplyArguments& arguments) {
  const ActivationGroup* streams[kStreams];
#pragma GCC unroll 8
  for (int stream = 0; stream < kStreams; ++stream) streams[stream] = arguments.streams[stream];
  float* const sums = arguments.sums_of(first_tile, 0);
  constexpr int kTileSums = kPassStreams * kTileRows;
  const int groups = arguments.groups;
  for (int at = 0; at < groups; at += kScaleGroups) {
    __m512i whole[kTiles][kStreams];
#pragma GCC unroll 2
    for (int next = 0; next < kScaleGroups; ++next) {
      __m512i first[kTiles][kStreams];
      __m512i second[kTiles][kStreams];
      sum_blocks(weights, at + next, streams, first, second);
#pragma GCC unroll 2
      for (int tile = 0; tile < kTiles; ++tile) {
        const BlockScales scales = split(weights[tile].scales(at + next));
#pragma GCC unroll 8
        for (int stream = 0; stream < kStreams; ++stream) {
          if constexpr (kTwoScales) {
            float* const rows = sums + tile * kTileSums + stream * kTileRows;
            const float* const scale = streams[stream][at + next].scale;
            add_scaled(rows, _mm512_madd_epi16(first[tile][stream], scales.first), scale[0]);
            add_scaled(rows, _mm512_madd_epi16(second[tile][stream], scales.second), scale[1]);
            continue;
          }
          __m512i& sum = whole[tile][stream];
          sum = next == 0 ? _mm512_madd_epi16(first[tile][stream], scales.first)
                          : _mm512_dpwssd_epi32(sum, first[tile][stream], scales.first);
          sum = _mm512_dpwssd_epi32(sum, second[tile][stream], scales.second);
        }
      }
    }
    if constexpr (kTwoScales) continue;
#pragma GCC unroll 2
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma GCC unroll 8
      for (int stream = 0; stream < kStreams; ++stream) {
        add_scaled(sums + tile * kTileSums + stream * kTileRows, whole[tile][stream],
                   streams[stream][at].scale[0]);
      }
    }
  }
}

template <int kStreams, bool kTwoScales>
NIBBLE_AVX512 void multiply(const MultiplyArguments& arguments) {
  const Panel* const panels = arguments.panels;
  int tile = 0;
  for (; tile + 1 < arguments.tiles; tile += 2) {
    const FromPanel pair[] = {{panels[tile]}, {panels[tile + 1]}};
    multiply_tiles<2, kStreams, kTwoScales>(pair, tile, arguments);
  }
  if (tile < arguments.tiles) {
    const FromPanel last[] = {{panels[tile]}};
    multiply_tiles<1, kStreams, kTwoScales>(last, tile, arguments);
  }
}

// Two tiles times more than four streams would need more sums than there are registers; one tile
// times eight broadcasts no more for its products.
template <int kStreams, bool kTwoScales>
NIBBLE_AVX512 void multiply_packed(const MultiplyArguments& arguments) {
  const std::ptrdiff_t ahead = arguments.ahead_bytes;
  int tile = 0;
  if constexpr (kStreams <= kBlockStreams) {
    for (; tile + 1 < arguments.tiles; tile += 2) {
      const FromTile pair[] = {{arguments.packed_tile(tile), ahead},
                               {arguments.packed_tile(tile + 1), ahead}};
      multiply_tiles<2, kStreams, kTwoScales>(pair, tile, arguments);
    }
  }
  for (; tile < arguments.tiles; ++tile) {
    const FromTile one[] = {{arguments.packed_tile(tile), ahead}};
    multiply_tiles<1, kStreams, kTwoScales>(one, tile, arguments);
  }
}

template <int kStreams>
NIBBLE_AVX512 void multiply_bf16(const Bf16Arguments& arguments) {
  __m512 sums[kStreams];
#pragma GCC unroll 4
  for (int stream = 0; stream < kStreams; ++stream) sums[stream] = _mm512_setzero_ps();
  const std::byte* tile = arguments.tile;
  for (std::int64_t column = 0; column < arguments.columns; ++column, tile += 2 * kTileRows) {
    _mm_prefetch(reinterpret_cast<const char*>(tile) + 1024, _MM_HINT_T0);
    const __m256i bits = _mm256_load_si256(reinterpret_cast<const __m256i*>(tile));
    const __m512 rows = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
#pragma GCC unroll 4
    for (int stream = 0; stream < kStreams; ++stream) {
      const __m512 x = _mm512_set1_ps(arguments.rows[stream][column]);
      sums[stream] = _mm512_fmadd_ps(rows, x, sums[stream]);
    }
  }
#pragma GCC unroll 4
  for (int stream = 0; stream < kStreams; ++stream) {
    _mm512_store_ps(arguments.sums[stream], sums[stream]);
  }
}

}  // namespace

const IntegerKernel kAvx512IntegerKernel = {
    unpack,
    {multiply<1, false>, multiply<2, false>, multiply<3, false>, multiply<4, false>},
    {multiply<1, true>, multiply<2, true>, multiply<3, true>, multiply<4, true>},
    kMostStreams,
    {multiply_packed<1, false>, multiply_packed<2, false>, multiply_packed<3, false>,
     multiply_packed<4, false>, multiply_packed<5, false>, multiply_packed<6, false>,
     multiply_packed<7, false>, multiply_packed<8, false>},
    {multiply_packed<1, true>, multiply_packed<2, true>, multiply_packed<3, true>,
     multiply_packed<4, true>, multiply_packed<5, true>, multiply_packed<6, true>,
     multiply_packed<7, true>, multiply_packed<8, true>}};
const Bf16Kernel kAvx512Bf16Kernel = {multiply_bf16<1>, multiply_bf16<2>, multiply_bf16<3>,
                                      multiply_bf16<4>};

}  // namespace nibble
#endif
