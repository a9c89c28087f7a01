#include "kernels/moe/vector_code.h"

#if defined(__x86_64__)

// The intrinsics' own header sets off this warning (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define NIBBLE_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define NIBBLE_INLINE \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"), always_inline)) inline

namespace nibble {
namespace {

struct Lanes {
  __m512 all;
};

NIBBLE_INLINE Lanes load(const float* from) {
  return {_mm512_loadu_ps(from)};
}
NIBBLE_INLINE void store(float* to, Lanes lanes) {
  _mm512_storeu_ps(to, lanes.all);
}
NIBBLE_INLINE Lanes broadcast(float value) {
  return {_mm512_set1_ps(value)};
}
NIBBLE_INLINE Lanes add(Lanes a, Lanes b) {
  return {_mm512_add_ps(a.all, b.all)};
}
NIBBLE_INLINE Lanes sub(Lanes a, Lanes b) {
  return {_mm512_sub_ps(a.all, b.all)};
}
NIBBLE_INLINE Lanes mul(Lanes a, Lanes b) {
  return {_mm512_mul_ps(a.all, b.all)};
}
NIBBLE_INLINE Lanes div(Lanes a, Lanes b) {
  return {_mm512_div_ps(a.all, b.all)};
}
NIBBLE_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm512_fmadd_ps(a.all, b.all, c.all)};
}
NIBBLE_INLINE Lanes fnma(Lanes a, Lanes b, Lanes c) {
  return {_mm512_fnmadd_ps(a.all, b.all, c.all)};
}
// vminps and vmaxps give the second operand when one is NaN.
NIBBLE_INLINE Lanes lesser(Lanes a, Lanes b) {
  return {_mm512_min_ps(a.all, b.all)};
}
NIBBLE_INLINE Lanes greater(Lanes a, Lanes b) {
  return {_mm512_max_ps(a.all, b.all)};
}

NIBBLE_INLINE __m512 power_of_two(__m512i n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}

// As in vector_portable.cpp.
NIBBLE_INLINE Lanes times_power_of_two(Lanes value, Lanes shifted) {
  const __m512i n =
      _mm512_sub_epi32(_mm512_castps_si512(shifted.all), _mm512_set1_epi32(0x4B400000));
  const __m512i half = _mm512_srai_epi32(n, 1);
  const __m512 halfway = _mm512_mul_ps(value.all, power_of_two(half));
  return {_mm512_mul_ps(halfway, power_of_two(_mm512_sub_epi32(n, half)))};
}

#include "kernels/moe/vector_code.inc"

}  // namespace

const VectorCode kAvx512Code = kCode;

}  // namespace nibble

#endif
