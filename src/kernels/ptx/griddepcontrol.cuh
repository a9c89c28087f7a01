// Programmatic dependent launch. PTX ISA 9.7.13.13 (griddepcontrol). Nothing below sm_90.
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

// Until the kernels that this one depends on have ended and their writes are visible.
NIBBLE_DEVICE void griddepcontrol_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may start once every block has called this or ended.
NIBBLE_DEVICE void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace nibble::ptx
