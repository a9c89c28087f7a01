// Order between threads of a block, and between blocks. PTX ISA 9.7.13.1 (bar), 9.7.9.8 (ld),
// 9.7.9.11 (st), 9.7.13.4 (fence).
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

NIBBLE_DEVICE void bar_sync(uint32_t barrier, uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

NIBBLE_DEVICE uint32_t ld_acquire_gpu(const uint32_t* address) {
  uint32_t v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(address) : "memory");
  return v;
}

NIBBLE_DEVICE void st_release_gpu(uint32_t* address, uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// Adds, and does not say what was there. PTX ISA 9.7.13.6 (red), 9.7.13.5 (atom).
NIBBLE_DEVICE void red_add_release_gpu(uint32_t* address, uint32_t value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

NIBBLE_DEVICE uint32_t atom_add_gpu(uint32_t* address, uint32_t value) {
  uint32_t before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(address), "r"(value)
               : "memory");
  return before;
}

// Past the first-level cache, which does not see what other blocks wrote.
NIBBLE_DEVICE Float4 ld_global_cg_16(const float* address) {
  Float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.value[0]), "=f"(v.value[1]), "=f"(v.value[2]), "=f"(v.value[3])
               : "l"(address)
               : "memory");
  return v;
}

NIBBLE_DEVICE void fence_acq_rel_gpu() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

}  // namespace nibble::ptx
