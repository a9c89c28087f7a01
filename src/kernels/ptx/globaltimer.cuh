// The GPU's clock in nanoseconds, the same for all SMs. PTX ISA 10.27 (%globaltimer).
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

NIBBLE_DEVICE uint64_t globaltimer() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace nibble::ptx
