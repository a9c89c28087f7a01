// A word of eight 4-bit weights to the four registers of an A fragment, scaled: exact, since e2m1
// x e4m3 has at most six significant bits. The bits are where w4a16_layout.h says.
#pragma once

#include "kernels/device/element.h"
#include "kernels/gemm/device/w4a16_tactic.h"
#include "kernels/ptx/math.cuh"

namespace nibble {

// A scale byte in both halves, as the factor that lifts placed codes to weight x scale / lift.
template <WeightFormat kFormat, Element kElement>
NIBBLE_DEVICE uint32_t scale_pair(uint32_t byte) {
  if constexpr (kFormat == WeightFormat::kNvfp4 && kElement == Element::kBf16) {
    return byte * 0x00100010U + ((237U << 7) * 0x00010001U);
  } else if constexpr (kFormat == WeightFormat::kNvfp4) {
    return byte * 0x00800080U + ((13U << 10) * 0x00010001U);
  } else if constexpr (kElement == Element::kBf16) {
    return byte * 0x00800080U + ((120U << 7) * 0x00010001U);
  } else {
    // fp16 has five bits of exponent: weights are exact down to 2^-24 of the largest scale.
    return (byte > 104U ? byte - 104U : 0U) * 0x04000400U;
  }
}

// 13 instructions a word for bf16 with its multiplications; fp16 takes 18.
template <Element kElement>
NIBBLE_DEVICE void dequantize(uint32_t word, uint32_t scale_low, uint32_t scale_high,
                              uint32_t (&a)[4]) {
  if constexpr (kElement == Element::kBf16) {
    constexpr uint32_t kMask = 0x81c081c0U;
    const uint64_t wide = static_cast<uint64_t>(word & 0x2e002e00U) * ((1U << 13) + (1U << 18));
    const uint32_t last = (static_cast<uint32_t>(wide) | static_cast<uint32_t>(wide >> 32)) & kMask;
    a[0] = ptx::mul_bf16x2(word & kMask, scale_low);
    a[1] = ptx::mul_bf16x2((word * 8U) & kMask, scale_high);
    a[2] = ptx::mul_bf16x2(((word & 0x40074007U) * 66U) & kMask, scale_low);
    a[3] = ptx::mul_bf16x2(last, scale_high);
  } else {
    constexpr uint32_t kSign = 0x80008000U;
    constexpr uint32_t kRest = 0x0e000e00U;
    const uint32_t swapped = (word >> 16) | (word << 16);
    a[0] = ptx::mul_f16x2((word & kSign) | ((word << 3) & kRest), scale_low);
    a[1] = ptx::mul_f16x2(((word << 3) & kSign) | ((word << 6) & kRest), scale_high);
    a[2] = ptx::mul_f16x2(((word << 1) & kSign) | ((word << 9) & kRest), scale_low);
    a[3] = ptx::mul_f16x2(((swapped << 2) & kSign) | (swapped & kRest), scale_high);
  }
}

}  // namespace nibble
