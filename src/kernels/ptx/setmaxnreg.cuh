// Moves registers between the warpgroups of a block. PTX ISA 9.7.19.5 (setmaxnreg). The counts are
// multiples of 8 from 24 to 256; a whole warpgroup calls it.
#pragma once

#include "kernels/device/types.cuh"
#include "kernels/ptx/architecture.cuh"

namespace nibble::ptx {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(NIBBLE_FP4_MMA)

template <int kRegisters>
NIBBLE_DEVICE void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
NIBBLE_DEVICE void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

#endif

}  // namespace nibble::ptx
