#include "kernels/moe/vector_code.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define NIBBLE_TARGET __attribute__((target("avx2,fma")))
#define NIBBLE_INLINE __attribute__((target("avx2,fma"), always_inline)) inline

namespace nibble {
namespace {

struct Lanes {
  __m256 low;
  __m256 high;
};

NIBBLE_INLINE Lanes load(const float* from) {
  return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}
NIBBLE_INLINE void store(float* to, Lanes lanes) {
  _mm256_storeu_ps(to, lanes.low);
  _mm256_storeu_ps(to + 8, lanes.high);
}
NIBBLE_INLINE Lanes broadcast(float value) {
  return {_mm256_set1_ps(value), _mm256_set1_ps(value)};
}
NIBBLE_INLINE Lanes add(Lanes a, Lanes b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
NIBBLE_INLINE Lanes sub(Lanes a, Lanes b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
NIBBLE_INLINE Lanes mul(Lanes a, Lanes b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
NIBBLE_INLINE Lanes div(Lanes a, Lanes b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
NIBBLE_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
NIBBLE_INLINE Lanes fnma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}
// minps and maxps give the second operand when one is NaN.
NIBBLE_INLINE Lanes lesser(Lanes a, Lanes b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
NIBBLE_INLINE Lanes greater(Lanes a, Lanes b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

NIBBLE_INLINE __m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

// As in vector_portable.cpp.
NIBBLE_INLINE __m256 times_power_of_two(__m256 value, __m256 shifted) {
  const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4B400000));
  const __m256i half = _mm256_srai_epi32(n, 1);
  value = _mm256_mul_ps(value, power_of_two(half));
  return _mm256_mul_ps(value, power_of_two(_mm256_sub_epi32(n, half)));
}
NIBBLE_INLINE Lanes times_power_of_two(Lanes value, Lanes shifted) {
  return {times_power_of_two(value.low, shifted.low), times_power_of_two(value.high, shifted.high)};
}

#include "kernels/moe/vector_code.inc"

}  // namespace

const VectorCode kAvx2Code = kCode;

}  // namespace nibble

#endif
