// Rows of activations -> 4-bit codes and scales, the same bits as formats/quantize.h gives:
// each operation is one IEEE fp32 operation in the order that stands there.
#pragma once

#include "formats/codec.h"
#include "kernels/device/convert.cuh"
#include "kernels/device/fp4.cuh"
#include "kernels/moe/device/quantize_rows.h"
#include "kernels/ptx/griddepcontrol.cuh"

namespace nibble {

// Every warp's largest value of a row, where a block has the row.
struct QuantizeShared {
  uint32_t largest[kQuantizeThreads / 32];
};

template <QuantizeShape kShape>
struct Quantize {
  static constexpr int kBlock = kShape.block();
  static constexpr int64_t kScales = kShape.scales();
  static constexpr int kUnits = kBlock / 8;  // of 16 bytes
  static constexpr bool kMxfp4 = kShape.mode == QuantizeMode::kMxfp4;
  // Bits of an infinity. Magnitudes of 16-bit floats ascend as their bits do.
  static constexpr uint32_t kInfinity = kShape.element == Element::kBf16 ? 0x7f80U : 0x7c00U;
  static constexpr uint32_t kMagnitude = 0x7fffU;
  static constexpr uint32_t kAllLanes = 0xffffffffU;
  static_assert(kShape.element != Element::kFp32, "rows are bf16 or fp16");
  static_assert(kShape.columns > 0 && kShape.columns % kBlock == 0, "blocks are whole");

  // The values that share a scale.
  struct Values {
    Bits128 unit[kUnits];

    NIBBLE_DEVICE uint32_t bits(int i) const {
      return unit[i / 8].word[i / 2 % 4] >> (16 * (i % 2)) & 0xffffU;
    }
    // The largest magnitude, or what is above: infinity or NaN.
    NIBBLE_DEVICE uint32_t largest() const {
      uint32_t most = 0;
#pragma unroll
      for (int i = 0; i < kBlock; ++i) most = larger(most, bits(i) & kMagnitude);
      return most;
    }
    NIBBLE_DEVICE uint32_t largest_finite() const {
      uint32_t most = 0;
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        const uint32_t magnitude = bits(i) & kMagnitude;
        if (magnitude < kInfinity) most = larger(most, magnitude);
      }
      return most;
    }
  };

  struct Scale {
    uint8_t code;
    float step;  // what divides the values
  };

  static NIBBLE_DEVICE uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
  }
  static NIBBLE_DEVICE float widen(uint32_t bits) {
    return Number<kShape.element>::widen(static_cast<uint16_t>(bits));
  }

  static NIBBLE_DEVICE Values load(const QuantizeRows& params, int64_t row, int64_t block) {
    const Bits128* const from =
        static_cast<const Bits128*>(params.x) + (row * kScales + block) * kUnits;
    Values values;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) values.unit[i] = from[i];
    return values;
  }

  static NIBBLE_DEVICE Scale scale_of(float amax, float factor) {
    if constexpr (kMxfp4) {
      const int exponent = static_cast<int>(float_to_e8m0(amax)) - 2;
      const auto code = static_cast<uint8_t>(exponent > 0 ? exponent : 0);
      return {code, e8m0_to_float(code)};
    } else {
      const Nvfp4Scale scale = nvfp4_scale(amax, factor);
      return {scale.code, scale.step};
    }
  }

  // One scale and its codes. A block with what is no number has the scale NaN and codes zero.
  static NIBBLE_DEVICE void store(const QuantizeRows& params, int64_t row, int64_t block,
                                  const Values& values, float factor) {
    const uint32_t largest = values.largest();
    struct alignas(kBlock / 2) Codes {
      uint32_t word[kBlock / 8];
    } codes{};
    uint8_t scale = kMxfp4 ? 0xff : 0x7f;
    if (largest < kInfinity) {
      const Scale made = scale_of(widen(largest), factor);
      scale = made.code;
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        const uint32_t code = float_to_e2m1(__fdiv_rn(widen(values.bits(i)), made.step));
        codes.word[i / 8] |= code << (4 * (i % 8));
      }
    }
    reinterpret_cast<Codes*>(params.codes)[row * kScales + block] = codes;
    params.scales[swizzled_offset(row, block, kScales)] = scale;
  }

  static NIBBLE_DEVICE bool is_there(const QuantizeRows& params, int64_t row) {
    const int32_t count = params.count == nullptr ? params.rows : *params.count;
    return row < count && (params.token_of == nullptr || params.token_of[row] >= 0);
  }

  // A thread a scale.
  static NIBBLE_DEVICE void with_factor(const QuantizeRows& params) {
    const int64_t place = int64_t{blockIdx.x} * kQuantizeThreads + threadIdx.x;
    const int64_t row = place / kScales;
    if (!is_there(params, row)) return;
    const int64_t block = place % kScales;
    store(params, row, block, load(params, row, block), params.factor);
  }

  // Of all threads that share a row.
  static NIBBLE_DEVICE uint32_t largest_of_row(uint32_t own) {
    uint32_t most = __reduce_max_sync(kAllLanes, own);
    if constexpr (quantize_row_threads(kShape) > 32) {
      __shared__ QuantizeShared shared;
      if (threadIdx.x % 32 == 0) shared.largest[threadIdx.x / 32] = most;
      __syncthreads();
#pragma unroll
      for (const uint32_t each : shared.largest) most = larger(most, each);
    }
    return most;
  }

  // A warp or a block a row, which is read twice: first for its factor.
  static NIBBLE_DEVICE void with_own_factors(const QuantizeRows& params) {
    constexpr int kThreads = quantize_row_threads(kShape);
    constexpr int kRows = kQuantizeThreads / kThreads;
    const int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.x / kThreads;
    if (!is_there(params, row)) return;  // with all threads of the row
    const int64_t first = threadIdx.x % kThreads;
    uint32_t largest = 0;
    for (int64_t block = first; block < kScales; block += kThreads) {
      largest = larger(largest, load(params, row, block).largest_finite());
    }
    constexpr float kLargest = 6.0F * 448.0F;  // code times scale
    const float some = __fdiv_rn(widen(largest_of_row(largest)), kLargest);
    const float factor = some > 0 ? some : 1.0F;
    if (first == 0) params.factors[row] = factor;
    for (int64_t block = first; block < kScales; block += kThreads) {
      store(params, row, block, load(params, row, block), factor);
    }
  }
};

template <QuantizeShape kShape>
NIBBLE_DEVICE void quantize_rows(const QuantizeRows& params) {
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  if constexpr (kShape.mode == QuantizeMode::kNvfp4Rows) {
    Quantize<kShape>::with_own_factors(params);
  } else {
    Quantize<kShape>::with_factor(params);
  }
}

}  // namespace nibble
