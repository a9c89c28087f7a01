// Blocks of NVFP4 from values that are spread over lanes: the same bits as formats/quantize.h
// gives.
//
//   const Nvfp4Block block = Nvfp4Block::of_lanes<1, 4>({a, b}, {c, d}, lane % 4, factor);
#pragma once

#include "formats/codec.h"
#include "kernels/device/types.cuh"

namespace nibble {

struct Nvfp4Scale {
  uint8_t code;
  float step;  // what divides the values
};

// Of a block whose largest magnitude is `amax`, finite.
NIBBLE_DEVICE Nvfp4Scale nvfp4_scale(float amax, float factor) {
  const uint8_t code = float_to_e4m3(__fdiv_rn(__fdiv_rn(amax, 6.0F), factor));
  const float step = __fmul_rn(e4m3_to_float(code), factor);
  if (step != 0.0F) return {code, step};
  return {float_to_e4m3(1.0F), factor};
}

struct Nvfp4Block {
  uint32_t low;  // codes of columns 0 to 7, then of 8 to 15
  uint32_t high;
  uint8_t scale;

  // Lane `index` of kLanes, kStride apart, has columns kEach * index .. of the first eight and of
  // the second eight; afterwards all of them have the block. A block with what is no number has the
  // scale NaN and codes zero.
  template <int kStride, int kLanes, int kEach = 8 / kLanes>
  static NIBBLE_DEVICE Nvfp4Block of_lanes(const float (&first)[kEach],
                                           const float (&second)[kEach], int index, float factor) {
    float amax = 0;
    bool finite = true;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      include(first[i], amax, finite);
      include(second[i], amax, finite);
    }
#pragma unroll
    for (int distance = kStride; distance < kStride * kLanes; distance *= 2) {
      const float theirs = __shfl_xor_sync(0xffffffffU, amax, distance);
      amax = theirs > amax ? theirs : amax;
      finite &= __shfl_xor_sync(0xffffffffU, finite ? 1 : 0, distance) != 0;
    }
    if (!finite) return {0, 0, 0x7f};
    const Nvfp4Scale scale = nvfp4_scale(amax, factor);
    Nvfp4Block block{0, 0, scale.code};
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int shift = 4 * (kEach * index + i);
      block.low |= uint32_t{float_to_e2m1(__fdiv_rn(first[i], scale.step))} << shift;
      block.high |= uint32_t{float_to_e2m1(__fdiv_rn(second[i], scale.step))} << shift;
    }
#pragma unroll
    for (int distance = kStride; distance < kStride * kLanes; distance *= 2) {
      block.low |= __shfl_xor_sync(0xffffffffU, block.low, distance);
      block.high |= __shfl_xor_sync(0xffffffffU, block.high, distance);
    }
    return block;
  }

 private:
  static NIBBLE_DEVICE void include(float value, float& amax, bool& finite) {
    const float magnitude = value < 0 ? -value : value;
    finite &= magnitude < codec_detail::float_of(codec_detail::kInfinity);  // not for NaN either
    amax = magnitude > amax ? magnitude : amax;
  }
};

}  // namespace nibble
