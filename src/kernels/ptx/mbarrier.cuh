// Barriers in shared memory that count arrivals and bytes. PTX ISA 9.7.13.15.
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

NIBBLE_DEVICE void mbarrier_init(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

NIBBLE_DEVICE void mbarrier_arrive(uint32_t barrier) {
  asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}" ::"r"(barrier)
               : "memory");
}

// Without a branch.
NIBBLE_DEVICE void mbarrier_arrive_if(uint32_t barrier, bool condition) {
  asm volatile(
      "{.reg .b64 state; .reg .pred p; setp.ne.u32 p, %1, 0; @p mbarrier.arrive.shared.b64 state, "
      "[%0];}" ::"r"(barrier),
      "r"(static_cast<uint32_t>(condition))
      : "memory");
}

#if __CUDA_ARCH__ >= 900
NIBBLE_DEVICE void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile(
      "{.reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;}" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}
#endif

// Suspends for a while where the hardware can; true when the phase of this parity is over.
NIBBLE_DEVICE bool mbarrier_wait_parity(uint32_t barrier, uint32_t parity) {
  uint32_t done;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
#else
  // test_wait.parity came with PTX ISA 7.1 and sm_80.
  asm volatile(
      "{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
#endif
  return done != 0;
}

// The barrier's arrival follows when all cp.async of this thread so far have come.
NIBBLE_DEVICE void cp_async_mbarrier_arrive_noinc(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

#if __CUDA_ARCH__ >= 900
// Makes initialised barriers visible to the copy engine. PTX ISA 9.7.13.4 (membar, fence).
NIBBLE_DEVICE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
#endif

}  // namespace nibble::ptx
