// Loads from shared memory by address. PTX ISA 9.7.9.8 (ld), 9.7.14.5.15 (ldmatrix).
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

NIBBLE_DEVICE Bits128 ld_shared_16(uint32_t address) {
  Bits128 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(address)
               : "memory");
  return v;
}

NIBBLE_DEVICE uint32_t ld_shared_4(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

NIBBLE_DEVICE uint32_t ld_shared_2(uint32_t address) {
  uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return v;
}

// Four 8 x 8 matrices of 16-bit values; lane 8 m + r gives the address of row r of matrix m.
NIBBLE_DEVICE Bits128 ldmatrix_x4(uint32_t address) {
  Bits128 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(address)
               : "memory");
  return v;
}

}  // namespace nibble::ptx
