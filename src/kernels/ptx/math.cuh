// Arithmetic on pairs of 16-bit floats, conversions, and the quick functions of one float.
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

// PTX ISA 9.7.4.3 (mul, half precision). Subnormals are kept. sm_80 has fma alone: adding -0
// changes no product.
NIBBLE_DEVICE uint32_t mul_bf16x2(uint32_t a, uint32_t b) {
  uint32_t d;
#if __CUDA_ARCH__ >= 900
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
#else
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(0x80008000U));
#endif
  return d;
}

NIBBLE_DEVICE uint32_t mul_f16x2(uint32_t a, uint32_t b) {
  uint32_t d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

// `low` in the low half. PTX ISA 9.7.9.22 (cvt).
NIBBLE_DEVICE uint32_t cvt_bf16x2(float low, float high) {
  uint32_t d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}

NIBBLE_DEVICE uint32_t cvt_f16x2(float low, float high) {
  uint32_t d;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}

// PTX ISA 9.7.3.23 (ex2), 9.7.3.15 (rcp): 2 and 1 units in the last place.
NIBBLE_DEVICE float ex2(float x) {
  float d;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(x));
  return d;
}

NIBBLE_DEVICE float rcp(float x) {
  float d;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(x));
  return d;
}

}  // namespace nibble::ptx
