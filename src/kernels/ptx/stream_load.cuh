// Loads and stores of global memory that is met once. PTX ISA 9.7.9.8 (ld), 9.7.9.9 (ld.global.nc),
// 9.7.9.11 (st).
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

// Read-only memory, not kept in L1.
NIBBLE_DEVICE Bits128 ld_global_nc_16(const void* address) {
  Bits128 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address));
  return v;
}

// From L2, whatever L1 holds.
NIBBLE_DEVICE Bits128 ld_global_cg_16(const void* address) {
  Bits128 v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address));
  return v;
}

NIBBLE_DEVICE void st_global_cs_16(void* address, const Bits128& v) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.word[0]),
               "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

}  // namespace nibble::ptx
