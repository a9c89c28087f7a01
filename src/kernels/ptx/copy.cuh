// Copies from global to shared memory that do not pass through registers. PTX ISA 9.7.9.25.
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

NIBBLE_DEVICE void cp_async_16(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// Copies of this thread so far are one group more; and a wait until at most kLeft of its groups are
// under way. PTX ISA 9.7.9.25.3.2 and 9.7.9.25.3.3.
NIBBLE_DEVICE void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kLeft>
NIBBLE_DEVICE void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// The first `bytes` of 4, 8 or 16; zeros for the rest, of which nothing is read. Weights and tokens
// that other blocks read too: past the first-level cache where the size allows it.
template <int kBytes>
NIBBLE_DEVICE void cp_async_zfill(uint32_t shared, const void* global, uint32_t bytes) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared),
                 "l"(global), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global),
                 "n"(kBytes), "r"(bytes)
                 : "memory");
  }
}

#if __CUDA_ARCH__ >= 900
// What the second-level cache is to do with lines that are read: let them go first, or last. PTX
// ISA 9.7.9.19 (createpolicy).
NIBBLE_DEVICE uint64_t createpolicy_evict_first() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

NIBBLE_DEVICE uint64_t createpolicy_evict_last() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Both 16-byte aligned, bytes a multiple of 16; the barrier counts them.
NIBBLE_DEVICE void cp_async_bulk(uint32_t shared, const void* global, uint32_t bytes,
                                 uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], %2, [%3], %4;" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
#endif

}  // namespace nibble::ptx
