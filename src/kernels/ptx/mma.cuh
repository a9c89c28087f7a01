// The warp's matrix product, 16 x 8 x 16 with fp32 sums. PTX ISA 9.7.14.5 (mma).
//
// Lane 4 g + t holds of A rows g and g + 8 and columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9 (registers:
// row g, row g + 8, then both again for the upper columns); of B the same columns of row g; of D
// rows g and g + 8 and columns 2 t, 2 t + 1.
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

NIBBLE_DEVICE void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

NIBBLE_DEVICE void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace nibble::ptx
