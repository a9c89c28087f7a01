// The router's arithmetic, the same operations in the same order as kernels/lanes/exponential.inc
// and kernels/moe/vector_code.inc have them, so that scores and weights have the CPU's bits.
#pragma once

#include "kernels/device/types.cuh"

namespace nibble {

inline constexpr uint32_t kAllLanes = 0xffffffffU;
inline constexpr float kInfinite = __builtin_bit_cast(float, 0x7f800000U);

NIBBLE_DEVICE float power_of_two(uint32_t n) {
  return __builtin_bit_cast(float, (n + 127U) << 23);
}

// No operation here may be fused with another: each one is rounded as written.
NIBBLE_DEVICE float exponential(float x) {
  x = -104.0F > x ? -104.0F : x;
  x = 89.0F < x ? 89.0F : x;
  const float shift = 0x1.8p23F;
  const float shifted = __fmaf_rn(x, 1.44269504F, shift);
  const float n = __fsub_rn(shifted, shift);
  float r = __fmaf_rn(-n, 0.693359375F, x);
  r = __fmaf_rn(-n, -2.12194440e-4F, r);
  float p = 1.9875691500e-4F;
  p = __fmaf_rn(p, r, 1.3981999507e-3F);
  p = __fmaf_rn(p, r, 8.3334519073e-3F);
  p = __fmaf_rn(p, r, 4.1665795894e-2F);
  p = __fmaf_rn(p, r, 1.6666665459e-1F);
  p = __fmaf_rn(p, r, 5.0000001201e-1F);
  p = __fmaf_rn(p, __fmul_rn(r, r), __fadd_rn(r, 1.0F));
  const uint32_t power = __builtin_bit_cast(uint32_t, shifted) - 0x4b400000U;
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(power) >> 1);
  return __fmul_rn(__fmul_rn(p, power_of_two(half)), power_of_two(power - half));
}

NIBBLE_DEVICE float sigmoid(float x) {
  return __fdiv_rn(1.0F, __fadd_rn(1.0F, exponential(__fsub_rn(0.0F, x))));
}

NIBBLE_DEVICE bool is_nan(float x) {
  return x != x;
}
NIBBLE_DEVICE bool is_finite(float x) {
  return x > -kInfinite && x < kInfinite;
}

// Numbers in the order of floats, of which -0 is 0; not for NaN. Above 0 for every one of them.
NIBBLE_DEVICE uint32_t ascending(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x == 0 ? 0.0F : x);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
NIBBLE_DEVICE float from_ascending(uint32_t key) {
  return __builtin_bit_cast(float, (key & 0x80000000U) != 0 ? key & 0x7fffffffU : ~key);
}

// The sum of elements 32 j + lane, j < kCount, in the CPU's order: sixteen sums of every sixteenth
// element, then these from the first to the last. `element` gives 0 beyond the last one.
template <int kCount, class ElementAt>
NIBBLE_DEVICE float sum_of_lanes(ElementAt element) {
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const float value = element(j);
    sum = __fadd_rn(__fadd_rn(sum, value), __shfl_down_sync(kAllLanes, value, 16));
  }
  float total = 0;
#pragma unroll
  for (int lane = 0; lane < 16; ++lane) {
    total = __fadd_rn(total, __shfl_sync(kAllLanes, sum, lane));
  }
  return total;
}

}  // namespace nibble
