// The warp's product of 4-bit floats with block scales, 16 x 8 x 64 with fp32 sums: mma.sync with
// block scaling. PTX ISA 9.7.14.5.14 (mma with .block_scale), sm_120a, sm_120f and sm_121a.
//
// Lane 4 g + t holds of A rows g and g + 8 and columns 8 t .. 8 t + 7 and 32 + 8 t ..: eight codes
// a register, the lowest nibble first (registers: row g, row g + 8, then both again for the upper
// columns); of B the same columns of column g (two registers); of D rows g and g + 8 and columns
// 2 t, 2 t + 1.
// Scales: a 32-bit word holds a row's scales, the lowest byte first. Of A the word of row g is lane
// 4 g + 2 s's and that of row g + 8 lane 4 g + 2 s + 1's, s = kSourceA in {0, 1}; of B the word of
// column g is lane 4 g + kSourceB's, kSourceB in {0, 1, 2, 3}. The other lanes' words are not
// looked at.
//
// Other architectures run a body of shuffles and multiply-adds on the same registers, with the same
// result but for the order of sums: sums of a block are exact there, and blocks are added in their
// order.
#pragma once

#include "formats/codec.h"
#include "kernels/device/types.cuh"
#include "kernels/ptx/architecture.cuh"

namespace nibble::ptx {

#ifdef NIBBLE_FP4_MMA

// NVFP4: a scale (ue4m3) for 16 columns, four a word.
template <int kSourceA, int kSourceB>
NIBBLE_DEVICE void mma_m16n8k64_nvf4(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1, uint32_t scale_a, uint32_t scale_b) {
  asm("mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1."
      "f32.ue4m3 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {0, %12}, "
      "{%11}, {0, %13};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(scale_a), "r"(scale_b),
        "n"(kSourceA), "n"(kSourceB));
}

// MXFP4: a scale (ue8m0) for 32 columns, the two bytes from kByte in {0, 2} on of a word.
template <int kSourceA, int kSourceB, int kByte>
NIBBLE_DEVICE void mma_m16n8k64_mxf4(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1, uint32_t scale_a, uint32_t scale_b) {
  asm("mma.sync.aligned.kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32."
      "ue8m0 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {%14, %12}, "
      "{%11}, {%14, %13};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(scale_a), "r"(scale_b),
        "n"(kSourceA), "n"(kSourceB), "n"(kByte));
}

#else

namespace fp4_body {

// Twice the code's value, an integer from -12 to 12.
NIBBLE_DEVICE int twice_e2m1(uint32_t code) {
  // Of 0, .5, 1, 1.5, 2, 3, 4, 6: a nibble each.
  const int magnitude = static_cast<int>(0xc8643210U >> ((code & 7U) * 4) & 15U);
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

// Four times the products of eight codes, added up: exact.
NIBBLE_DEVICE int dot8(uint32_t a, uint32_t b) {
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += twice_e2m1(a >> (4 * i)) * twice_e2m1(b >> (4 * i));
  return sum;
}

// kBlocks: scales of 64 columns, 4 (ue4m3) or 2 (ue8m0), from byte `first` of a word on.
template <int kBlocks>
NIBBLE_DEVICE float scale_of(uint32_t word, int block, int first) {
  const auto byte = static_cast<uint8_t>(word >> (8 * (first + block)));
  if constexpr (kBlocks == 4) return e4m3_to_float(byte & 0x7fU);  // unsigned: seven bits
  return e8m0_to_float(byte);
}

// Not inlined: a kernel has it in many places.
template <int kBlocks>
__device__ __noinline__ Float4 multiply(Float4 d, Bits128 a, uint32_t b0, uint32_t b1,
                                        uint32_t scale_a, uint32_t scale_b, int sources) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int g = lane / 4;
  const int t = lane % 4;
  const int source_a = sources & 3;
  const int source_b = sources >> 2 & 3;
  const int first = sources >> 4;
  // [row g, row g + 8][the lane of the row that holds the columns][lower, upper columns]
  uint32_t rows[2][4][2];
  uint32_t columns[2][4][2];
  uint32_t row_scale[2];
  uint32_t column_scale[2];
#pragma unroll
  for (int side = 0; side < 2; ++side) {
#pragma unroll
    for (int other = 0; other < 4; ++other) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        rows[side][other][half] = __shfl_sync(0xffffffffU, a.word[2 * half + side], 4 * g + other);
        columns[side][other][half] =
            __shfl_sync(0xffffffffU, half == 0 ? b0 : b1, 4 * (2 * t + side) + other);
      }
    }
    row_scale[side] = __shfl_sync(0xffffffffU, scale_a, 4 * g + 2 * source_a + side);
    column_scale[side] = __shfl_sync(0xffffffffU, scale_b, 4 * (2 * t + side) + source_b);
  }
  constexpr int kLanes = 8 / kBlocks;  // that hold a block's codes: 2 (16 codes) or 4 (32)
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = i / 2;
      const int column = i % 2;
      int sum = 0;
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const int word = block * kLanes + j;  // of the eight words of 64 codes
        sum += dot8(rows[row][word % 4][word / 4], columns[column][word % 4][word / 4]);
      }
      // Scales of two numbers of a few bits multiply exactly; their product with the sum as well.
      const float scale = scale_of<kBlocks>(row_scale[row], block, first) *
                          scale_of<kBlocks>(column_scale[column], block, first);
      d.value[i] += 0.25F * static_cast<float>(sum) * scale;
    }
  }
  return d;
}

template <int kBlocks>
NIBBLE_DEVICE void multiply_in_place(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1, uint32_t scale_a, uint32_t scale_b, int sources) {
  const Float4 sums = multiply<kBlocks>({{d[0], d[1], d[2], d[3]}}, {{a[0], a[1], a[2], a[3]}}, b0,
                                        b1, scale_a, scale_b, sources);
#pragma unroll
  for (int i = 0; i < 4; ++i) d[i] = sums.value[i];
}

}  // namespace fp4_body

template <int kSourceA, int kSourceB>
NIBBLE_DEVICE void mma_m16n8k64_nvf4(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1, uint32_t scale_a, uint32_t scale_b) {
  fp4_body::multiply_in_place<4>(d, a, b0, b1, scale_a, scale_b, kSourceA | kSourceB << 2);
}

template <int kSourceA, int kSourceB, int kByte>
NIBBLE_DEVICE void mma_m16n8k64_mxf4(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1, uint32_t scale_a, uint32_t scale_b) {
  fp4_body::multiply_in_place<2>(d, a, b0, b1, scale_a, scale_b,
                                 kSourceA | kSourceB << 2 | kByte << 4);
}

#endif

}  // namespace nibble::ptx
