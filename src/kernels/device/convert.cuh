// A few neighbouring elements of a row, read and written at once.
//
//   Elements<Element::kBf16, 8> some = row[i];  // 16 bytes
//   some.add_to(sums);                          // float sums[8]
//   row[i] = Elements<Element::kBf16, 8>::of(sums);
#pragma once

#include "formats/codec.h"
#include "kernels/device/element.h"
#include "kernels/device/types.cuh"

#ifdef __CUDACC__
#include "kernels/ptx/convert.cuh"
#endif

namespace nibble {

template <Element kElement>
struct Number {
  using Bits = uint16_t;
#ifdef __CUDACC__
  static NIBBLE_DEVICE float widen(Bits bits) {
    if constexpr (kElement == Element::kBf16) return bf16_to_float(bits);
    return ptx::cvt_f32_f16(bits);
  }
  static NIBBLE_DEVICE Bits narrow(float value) {
    if constexpr (kElement == Element::kBf16) return ptx::cvt_bf16(value);
    return ptx::cvt_f16(value);
  }
#else
  static float widen(Bits bits) {
    return kElement == Element::kBf16 ? bf16_to_float(bits) : fp16_to_float(bits);
  }
  static Bits narrow(float value) {
    return kElement == Element::kBf16 ? float_to_bf16(value) : float_to_fp16(value);
  }
#endif
};
template <>
struct Number<Element::kFp32> {
  using Bits = float;
  static NIBBLE_DEVICE float widen(float value) { return value; }
  static NIBBLE_DEVICE float narrow(float value) { return value; }
};

template <Element kElement, int kCount>
struct alignas(kCount* bytes_of(kElement)) Elements {
  typename Number<kElement>::Bits bits[kCount];

  NIBBLE_DEVICE void add_to(float (&sums)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] += Number<kElement>::widen(bits[i]);
  }
  static NIBBLE_DEVICE Elements of(const float (&values)[kCount]) {
    Elements result;
#pragma unroll
    for (int i = 0; i < kCount; ++i) result.bits[i] = Number<kElement>::narrow(values[i]);
    return result;
  }
};

}  // namespace nibble
