// Activations into whole numbers, for AVX2: the bits of packed_activations.cpp, which says what
// they mean and does what is out of the ordinary. The processors of AVX-512 take it too.
#include "kernels/gemm/layout.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define NIBBLE_AVX2 __attribute__((target("avx2")))

namespace nibble {
namespace {

constexpr int kRegisters = kScaleColumns / 8;

NIBBLE_AVX2 inline __m256i magnitudes(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

// The bits of the largest magnitude.
NIBBLE_AVX2 inline std::uint32_t largest_bits(const __m256 (&x)[kRegisters]) {
  __m256i most = magnitudes(x[0]);
  for (int at = 1; at < kRegisters; ++at) most = _mm256_max_epi32(most, magnitudes(x[at]));
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(four));
}

// To bf16, to nearest, ties to even, of what is finite.
NIBBLE_AVX2 inline __m256 round_to_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  return _mm256_castsi256_ps(
      _mm256_and_si256(sum, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
}

NIBBLE_AVX2 inline __m256i round_whole(__m256 x, __m256 factor) {
  const __m256 shift = _mm256_set1_ps(12582912.0F);  // 1.5 * 2^23
  const __m256 shifted = _mm256_add_ps(_mm256_mul_ps(x, factor), shift);
  return _mm256_cvttps_epi32(_mm256_sub_ps(shifted, shift));
}

// 16 whole numbers of 8 bits, in 16 bits and in their order.
NIBBLE_AVX2 inline __m256i narrow(__m256i first, __m256i second) {
  return _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xd8);
}
NIBBLE_AVX2 inline __m128i narrow(__m256i sixteen) {
  return _mm_packs_epi16(_mm256_castsi256_si128(sixteen), _mm256_extracti128_si256(sixteen, 1));
}

NIBBLE_AVX2 inline void store(const __m256i& first, const __m256i& second, Isa isa,
                              std::int8_t* to) {
  const __m128i bytes0 = narrow(first);
  const __m128i bytes1 = narrow(second);
  auto* const out = reinterpret_cast<__m128i*>(to);
  const bool in_order = isa == Isa::kAvx512;
  _mm_storeu_si128(out, in_order ? bytes0 : _mm_unpacklo_epi16(bytes0, bytes1));
  _mm_storeu_si128(out + 1, in_order ? bytes1 : _mm_unpackhi_epi16(bytes0, bytes1));
}

// The groups that share one scale.
NIBBLE_AVX2 inline void write_groups(const __m256i (&whole)[kRegisters], float scale, Isa isa,
                                     ActivationGroup* groups) {
  static_assert(kScaleGroups == 2);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i blocks[4];
  __m256i sums[4];
  for (int at = 0; at < 4; ++at) {
    blocks[at] = narrow(whole[2 * at], whole[2 * at + 1]);
    sums[at] = _mm256_madd_epi16(blocks[at], ones);
  }
  const __m256i halves =
      _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
  const __m128i all =
      _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  alignas(16) std::int32_t corrections[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(corrections),
                  _mm_mullo_epi32(all, _mm_set1_epi32(-kCodeZero)));
  for (int at = 0; at < kScaleGroups; ++at) {
    ActivationGroup& group = groups[at];
    store(blocks[2 * at], blocks[2 * at + 1], isa, group.values);
    const auto first = static_cast<std::uint32_t>(corrections[2 * at]);
    const auto second = static_cast<std::uint32_t>(corrections[2 * at + 1]);
    const bool words = isa == Isa::kAvx512;
    group.correction[0] =
        static_cast<std::int32_t>(words ? first : (first & 0xffffU) | second << 16);
    group.correction[1] = words ? corrections[2 * at + 1] : 0;
    group.scale[0] = group.scale[1] = scale;
  }
}

float from_bits(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

NIBBLE_AVX2 bool quantize_halves_avx2(const float* x, bool to_bf16, Isa isa, ActivationGroup* high,
                                      ActivationGroup* low) {
  __m256 values[kRegisters];
  for (int at = 0; at < kRegisters; ++at) values[at] = _mm256_loadu_ps(x + 8 * at);
  std::uint32_t largest = largest_bits(values);
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  if (largest >= kInfinity) return false;
  if (to_bf16) {
    for (__m256& value : values) value = round_to_bf16(value);
    largest = largest_bits(values);
  }
  constexpr std::int32_t kBias = 127;
  constexpr std::int32_t kLeast = kBias - 100;
  const auto biased = static_cast<std::int32_t>(largest >> 23);
  if (biased < kLeast || largest >= kInfinity) return false;
  // As unit_exponent(): the largest in units of 2^(its exponent - 14) has the exponent 14.
  constexpr float kMostWhole = 127 * 256 + 127;
  constexpr std::uint32_t kExponent14 = std::uint32_t{kBias + 14} << 23;
  const bool fits = from_bits((largest & 0x7fffffU) | kExponent14) < kMostWhole;
  const std::int32_t exponent = biased - kBias - 14 + (to_bf16 || !fits ? 1 : 0);
  const float unit = from_bits(static_cast<std::uint32_t>(exponent + kBias) << 23);
  const __m256 inverse =
      _mm256_set1_ps(from_bits(static_cast<std::uint32_t>(kBias - exponent) << 23));
  __m256i highs[kRegisters];
  __m256i lows[kRegisters];
  for (int at = 0; at < kRegisters; ++at) {
    const __m256i whole = round_whole(values[at], inverse);
    highs[at] = _mm256_srai_epi32(_mm256_add_epi32(whole, _mm256_set1_epi32(128)), 8);
    lows[at] = _mm256_sub_epi32(whole, _mm256_slli_epi32(highs[at], 8));
  }
  write_groups(highs, 256 * unit, isa, high);
  write_groups(lows, unit, isa, low);
  return true;
}

NIBBLE_AVX2 bool quantize_int8_avx2(const float* x, Isa isa, ActivationGroup* groups) {
  __m256 values[kRegisters];
  for (int at = 0; at < kRegisters; ++at) values[at] = _mm256_loadu_ps(x + 8 * at);
  const std::uint32_t bits = largest_bits(values);
  const float largest = from_bits(bits);
  if (bits >= 0x7f800000U || largest < kLeastInt8) return false;
  const __m256 inverse = _mm256_set1_ps(127.0F / largest);
  __m256i whole[kRegisters];
  for (int at = 0; at < kRegisters; ++at) whole[at] = round_whole(values[at], inverse);
  write_groups(whole, largest / 127.0F, isa, groups);
  return true;
}

}  // namespace nibble
#endif
