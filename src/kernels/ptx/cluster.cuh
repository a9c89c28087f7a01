// The blocks of a cluster. sm_90 and later.
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

#if __CUDA_ARCH__ >= 900
// PTX ISA 10.10 (special registers).
NIBBLE_DEVICE uint32_t cluster_ctarank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
#endif

}  // namespace nibble::ptx
