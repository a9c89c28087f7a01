// cvta: a generic pointer as an address of shared memory.
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

// PTX ISA 9.7.9.18 (cvta).
NIBBLE_DEVICE uint32_t cvta_to_shared(const void* pointer) {
  uint32_t address;
  asm("{.reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide;}"
      : "=r"(address)
      : "l"(pointer));
  return address;
}

}  // namespace nibble::ptx
