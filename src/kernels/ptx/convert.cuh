// Conversions of single floats. PTX ISA 9.7.9.22 (cvt).
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

NIBBLE_DEVICE float cvt_f32_f16(uint16_t bits) {
  float d;
  asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(bits));
  return d;
}

NIBBLE_DEVICE uint16_t cvt_f16(float value) {
  uint16_t d;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(d) : "f"(value));
  return d;
}

NIBBLE_DEVICE uint16_t cvt_bf16(float value) {
  uint16_t d;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(d) : "f"(value));
  return d;
}

}  // namespace nibble::ptx
