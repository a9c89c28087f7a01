// The loops for AVX2 and FMA. vpmaddubsw multiplies unsigned weights by signed activations and adds
// neighbours; with weights of at most 24 and activations of at most 128 a sum of two stays below
// 6,145, and the sum of a block, once `correction` has taken the offset off, below 24,577: 16 bits
// never lose anything.
#include "kernels/gemm/layout.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define NIBBLE_AVX2 __attribute__((target("avx2,fma")))

namespace nibble {
namespace {

NIBBLE_AVX2 inline __m256i load(const void* at) {
  return _mm256_load_si256(static_cast<const __m256i*>(at));
}

// 16 scale bytes of 8 rows -> 16 integers m << e. pshufb holds 2^e for e < 8; the high byte of each
// lane looks up e - 8 (mod 16), so that the two bytes make the whole power of two.
NIBBLE_AVX2 inline __m256i unpack_scales(const std::byte* bytes) {
  const __m256i twice =
      _mm256_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7,  //
                       8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);
  const __m256i powers = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0));
  const __m128i loaded = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  const __m256i both = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(loaded), twice);
  const __m256i mantissa = _mm256_and_si256(both, _mm256_set1_epi16(0x000f));
  const __m256i exponent = _mm256_and_si256(_mm256_srli_epi16(both, 4), _mm256_set1_epi16(0x0f0f));
  const __m256i power =
      _mm256_shuffle_epi8(powers, _mm256_xor_si256(exponent, _mm256_set1_epi16(0x0800)));
  return _mm256_mullo_epi16(mantissa, power);
}

// The weights of one step: rows 0-7 and 8-15, four columns each.
struct StepWeights {
  __m256i rows0;
  __m256i rows8;
};

NIBBLE_AVX2 inline StepWeights unpack_step(const std::byte* codes) {
  const __m256i stored = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i both = load(codes);
  const __m256i low = _mm256_and_si256(both, nibble);
  const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
  return {_mm256_shuffle_epi8(stored, low), _mm256_shuffle_epi8(stored, high)};
}

// Requests a line of weights into all caches: past the outer ones (a non-temporal request) it comes
// later, on a Xeon by a third.
NIBBLE_AVX2 inline void request(const std::byte* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

NIBBLE_AVX2 void unpack(const std::byte* tile, int groups, Panel& panel) {
  for (int at = 0; at < groups; ++at, tile += kGroupBytes) {
    auto* const weights = reinterpret_cast<__m256i*>(panel.weights[at]);
#pragma GCC unroll 8
    for (int step = 0; step < kSteps; ++step) {
      const std::byte* const codes = tile + 32 * step;
      if (step % 2 == 0) request(codes + kAheadGroups * kGroupBytes);
      const StepWeights unpacked = unpack_step(codes);
      _mm256_store_si256(weights + 2 * step, unpacked.rows0);
      _mm256_store_si256(weights + 2 * step + 1, unpacked.rows8);
    }
    auto* const scales = reinterpret_cast<__m256i*>(panel.scales[at]);
    _mm256_store_si256(scales, unpack_scales(tile + kCodeBytes));
    _mm256_store_si256(scales + 1, unpack_scales(tile + kCodeBytes + 16));
  }
}

// Where multiply() takes its weights from: a chunk that was unpacked for many streams, or the
// packed tile itself when one block of streams is all there is.
struct FromPanel {
  const Panel* panel;

  NIBBLE_AVX2 StepWeights step(int group, int step) const {
    const auto* const weights = reinterpret_cast<const __m256i*>(panel->weights[group]);
    return {load(weights + 2 * step), load(weights + 2 * step + 1)};
  }
  NIBBLE_AVX2 StepWeights scales(int group) const {
    const auto* const scales = reinterpret_cast<const __m256i*>(panel->scales[group]);
    return {load(scales), load(scales + 1)};
  }
};

// Requests stand between the products, a line each two steps: five of them in a row wait for each
// other, and what follows for them.
struct FromTile {
  const std::byte* tile;
  std::ptrdiff_t ahead_bytes;

  NIBBLE_AVX2 StepWeights step(int group, int step) const {
    const std::byte* const codes = tile + group * kGroupBytes + 32 * step;
    if (step % 2 == 0) request(codes + ahead_bytes);
    return unpack_step(codes);
  }
  NIBBLE_AVX2 StepWeights scales(int group) const {
    const std::byte* const bytes = tile + group * kGroupBytes + kCodeBytes;
    request(bytes + ahead_bytes);
    return {unpack_scales(bytes), unpack_scales(bytes + 16)};
  }
};

NIBBLE_AVX2 inline __m256i broadcast(const void* word) {
  return _mm256_set1_epi32(*static_cast<const std::int32_t*>(word));
}

// sum += weights * x, neighbours added, in 16 bits. In assembler because the compiler would add all
// products of a group as a tree, which needs more registers than there are.
NIBBLE_AVX2 inline void add_products(__m256i& sum, __m256i weights, __m256i x) {
  __m256i products;
  asm("vpmaddubsw %[x], %[weights], %[products]\n\t"
      "vpaddw %[products], %[sum], %[sum]"
      : [sum] "+x"(sum), [products] "=&x"(products)
      : [weights] "x"(weights), [x] "x"(x));
}

// Adds whole numbers x scale to eight sums.
NIBBLE_AVX2 inline void add_scaled(float* sums, __m256i whole, const float* scale) {
  const __m256 scales = _mm256_broadcast_ss(scale);
  _mm256_store_ps(sums, _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), scales, _mm256_load_ps(sums)));
}

// Each block with its own scale: the sums of a block's row stand in one half of a lane.
NIBBLE_AVX2 inline void add_two_scaled(float* sums, __m256i blocks, __m256i weight_scales,
                                       const float* scale) {
  const __m256i even = _mm256_blend_epi16(blocks, _mm256_setzero_si256(), 0xAA);
  const __m256i odd = _mm256_blend_epi16(blocks, _mm256_setzero_si256(), 0x55);
  add_scaled(sums, _mm256_madd_epi16(even, weight_scales), scale);
  add_scaled(sums, _mm256_madd_epi16(odd, weight_scales), scale + 1);
}

// Sums of one group: rows 0-7 and 8-15 of each stream, both blocks side by side in 16 bits.
template <int kStreams, class Weights>
[[gnu::always_inline]] NIBBLE_AVX2 inline void sum_blocks(
    const Weights& weights, int at, const ActivationGroup* const (&streams)[kStreams],
    __m256i (&top)[kStreams], __m256i (&bottom)[kStreams]) {
#pragma GCC unroll 4
  for (int stream = 0; stream < kStreams; ++stream) {
    top[stream] = bottom[stream] = broadcast(streams[stream][at].correction);
  }
#pragma GCC unroll 8
  for (int step = 0; step < kSteps; ++step) {
    const StepWeights rows = weights.step(at, step);
#pragma GCC unroll 4
    for (int stream = 0; stream < kStreams; ++stream) {
      const __m256i x = broadcast(streams[stream][at].values + 4 * step);
      add_products(top[stream], rows.rows0, x);
      add_products(bottom[stream], rows.rows8, x);
    }
  }
}

// Everything that the loop needs is in locals: what it stores could else be what it reads next.
template <int kStreams, bool kTwoScales, class Weights>
[[gnu::always_inline]] NIBBLE_AVX2 inline void multiply_tile(const Weights weights, int tile,
                                                             const MultiplyArguments& arguments) {
  const ActivationGroup* streams[kStreams];
#pragma GCC unroll 4
  for (int stream = 0; stream < kStreams; ++stream) streams[stream] = arguments.streams[stream];
  float* const sums = arguments.sums_of(tile, 0);
  const int groups = arguments.groups;
  for (int at = 0; at < groups; at += kScaleGroups) {
    __m256i whole_top[kStreams];
    __m256i whole_bottom[kStreams];
#pragma GCC unroll 2
    for (int next = 0; next < kScaleGroups; ++next) {
      __m256i top[kStreams];
      __m256i bottom[kStreams];
      sum_blocks(weights, at + next, streams, top, bottom);
      const StepWeights scales = weights.scales(at + next);
#pragma GCC unroll 4
      for (int stream = 0; stream < kStreams; ++stream) {
        float* const rows = sums + stream * kTileRows;
        if constexpr (kTwoScales) {
          const float* const scale = streams[stream][at + next].scale;
          add_two_scaled(rows, top[stream], scales.rows0, scale);
          add_two_scaled(rows + 8, bottom[stream], scales.rows8, scale);
          continue;
        }
        const __m256i more_top = _mm256_madd_epi16(top[stream], scales.rows0);
        const __m256i more_bottom = _mm256_madd_epi16(bottom[stream], scales.rows8);
        whole_top[stream] = next == 0 ? more_top : _mm256_add_epi32(whole_top[stream], more_top);
        whole_bottom[stream] =
            next == 0 ? more_bottom : _mm256_add_epi32(whole_bottom[stream], more_bottom);
      }
    }
    if constexpr (kTwoScales) continue;
#pragma GCC unroll 4
    for (int stream = 0; stream < kStreams; ++stream) {
      float* const rows = sums + stream * kTileRows;
      add_scaled(rows, whole_top[stream], streams[stream][at].scale);
      add_scaled(rows + 8, whole_bottom[stream], streams[stream][at].scale);
    }
  }
}

template <int kStreams, bool kTwoScales>
NIBBLE_AVX2 void multiply(const MultiplyArguments& arguments) {
  for (int tile = 0; tile < arguments.tiles; ++tile) {
    multiply_tile<kStreams, kTwoScales>(FromPanel{arguments.panels + tile}, tile, arguments);
  }
}

template <int kStreams, bool kTwoScales>
NIBBLE_AVX2 void multiply_packed(const MultiplyArguments& arguments) {
  for (int tile = 0; tile < arguments.tiles; ++tile) {
    multiply_tile<kStreams, kTwoScales>(
        FromTile{arguments.packed_tile(tile), arguments.ahead_bytes}, tile, arguments);
  }
}

NIBBLE_AVX2 inline __m256 widen(const std::byte* eight_bf16) {
  const __m128i bits = _mm_load_si128(reinterpret_cast<const __m128i*>(eight_bf16));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

template <int kStreams>
NIBBLE_AVX2 void multiply_bf16(const Bf16Arguments& arguments) {
  __m256 top[kStreams];
  __m256 bottom[kStreams];
#pragma GCC unroll 4
  for (int stream = 0; stream < kStreams; ++stream) {
    top[stream] = bottom[stream] = _mm256_setzero_ps();
  }
  const std::byte* tile = arguments.tile;
  for (std::int64_t column = 0; column < arguments.columns; ++column, tile += 2 * kTileRows) {
    _mm_prefetch(reinterpret_cast<const char*>(tile) + 1024, _MM_HINT_T0);
    const __m256 rows0 = widen(tile);
    const __m256 rows8 = widen(tile + 16);
#pragma GCC unroll 4
    for (int stream = 0; stream < kStreams; ++stream) {
      const __m256 x = _mm256_broadcast_ss(arguments.rows[stream] + column);
      top[stream] = _mm256_fmadd_ps(rows0, x, top[stream]);
      bottom[stream] = _mm256_fmadd_ps(rows8, x, bottom[stream]);
    }
  }
#pragma GCC unroll 4
  for (int stream = 0; stream < kStreams; ++stream) {
    _mm256_store_ps(arguments.sums[stream], top[stream]);
    _mm256_store_ps(arguments.sums[stream] + 8, bottom[stream]);
  }
}

}  // namespace

const IntegerKernel kAvx2IntegerKernel = {
    unpack,
    {multiply<1, false>, multiply<2, false>, multiply<3, false>, multiply<4, false>},
    {multiply<1, true>, multiply<2, true>, multiply<3, true>, multiply<4, true>},
    kBlockStreams,
    {multiply_packed<1, false>, multiply_packed<2, false>, multiply_packed<3, false>,
     multiply_packed<4, false>},
    {multiply_packed<1, true>, multiply_packed<2, true>, multiply_packed<3, true>,
     multiply_packed<4, true>}};
const Bf16Kernel kAvx2Bf16Kernel = {multiply_bf16<1>, multiply_bf16<2>, multiply_bf16<3>,
                                    multiply_bf16<4>};

}  // namespace nibble
#endif
