// What products do to their sums on the way out.
#pragma once

#include "kernels/device/element.h"
#include "kernels/device/types.cuh"
#include "kernels/gemm/device/product.h"
#include "kernels/ptx/math.cuh"

namespace nibble {

template <Element kElement>
NIBBLE_DEVICE uint32_t pair_of(float low, float high) {
  if constexpr (kElement == Element::kBf16) return ptx::cvt_bf16x2(low, high);
  return ptx::cvt_f16x2(low, high);
}

// SwiGLU of a gate and an up value; gpt-oss's form clamps both, and has a slope of its own.
template <Epilogue kEpilogue>
NIBBLE_DEVICE float gated(float gate, float up, float swiglu_alpha, float limit) {
  constexpr float kLog2e = 1.44269504F;
  if constexpr (kEpilogue == Epilogue::kSwiGlu) {
    return gate * ptx::rcp(1.0F + ptx::ex2(-kLog2e * gate)) * up;
  } else {
    gate = gate > limit ? limit : gate;  // NaN stays
    up = up > limit ? limit : (up < -limit ? -limit : up);
    return gate * ptx::rcp(1.0F + ptx::ex2(-kLog2e * swiglu_alpha * gate)) * (up + 1.0F);
  }
}

// Two neighbouring columns of row-major output; the second only where `both`. kAligned: an even
// column lies at a multiple of two elements in every row.
template <Element kElement, bool kAligned>
NIBBLE_DEVICE void store_pair(void* output, int64_t at, float low, float high, bool both) {
  if constexpr (kElement == Element::kFp32) {
    float* to = static_cast<float*>(output) + at;
    to[0] = low;
    if (both) to[1] = high;
  } else {
    const uint32_t pair = pair_of<kElement>(low, high);
    uint16_t* to = static_cast<uint16_t*>(output) + at;
    if constexpr (kAligned) {
      *reinterpret_cast<uint32_t*>(to) = pair;
    } else {
      to[0] = static_cast<uint16_t>(pair);
      if (both) to[1] = static_cast<uint16_t>(pair >> 16);
    }
  }
}

// Two lanes of neighbouring rows, 4 apart in the warp, each with a value of two tokens: afterwards
// the even one has both rows of the first token, the odd one both of the second.
struct RowPair {
  float low;
  float high;
};
NIBBLE_DEVICE RowPair exchange_rows(float first, float second, bool odd) {
  const float theirs = __shfl_xor_sync(0xffffffffU, odd ? first : second, 4);
  return odd ? RowPair{theirs, second} : RowPair{first, theirs};
}

}  // namespace nibble
