#!/usr/bin/env python3
"""Writes src/kernels/ptx/wgmma.cuh: one instruction a width, whose operands are too many to write by hand.

  tools/make_wgmma.py > src/kernels/ptx/wgmma.cuh && clang-format-14 -i src/kernels/ptx/wgmma.cuh
"""
WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128)

HEAD = """// The warpgroup's matrix product with A in registers and B in shared memory, 64 x N x 16 with fp32
// sums: four warps, each with 16 rows in mma.m16n8k16's order of A and D. PTX ISA 9.7.15 (wgmma).
// The registers of A and D must not be touched until wgmma_wait_group() has said that the group is
// over. Written by tools/make_wgmma.py.
#pragma once

#include "kernels/device/types.cuh"

namespace nibble::ptx {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

NIBBLE_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

NIBBLE_DEVICE void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// At most kPending groups of this warpgroup still run.
template <int kPending>
NIBBLE_DEVICE void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// D += A x B. d: [N / 8][4]; b: a matrix descriptor (wgmma_descriptor()).
template <int kColumns>
struct Wgmma;
"""

TAIL = """
// Describes B in shared memory, K-major with the 128-byte swizzle: 8 rows of 128 bytes to a group,
// groups `stride` bytes apart; `address` is a multiple of 1,024, plus 32 bytes for each 16 columns.
// PTX ISA 9.7.15.5.1.2.
NIBBLE_DEVICE uint64_t wgmma_descriptor(uint32_t address, uint32_t stride) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kLeadingUnused = uint64_t{1} << 16;
  return kSwizzle128 | kLeadingUnused | (static_cast<uint64_t>(stride >> 4) << 32) |
         ((address & 0x3ffffU) >> 4);
}

#endif

}  // namespace nibble::ptx
"""


def instruction(width, kind):
    sums = width // 2
    outputs = ", ".join(f'"+f"(d[{i // 4}][{i % 4}])' for i in range(sums))
    names = ", ".join(f"%{i}" for i in range(sums))
    a = ", ".join(f"%{sums + i}" for i in range(4))
    return f"""  NIBBLE_DEVICE static void {kind}(float (&d)[{width // 8}][4], const uint32_t (&a)[4], uint64_t b) {{
    asm volatile(
        "{{.reg .pred add; setp.eq.u32 add, 0, 0; "
        "wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{kind}.{kind} {{{names}}}, "
        "{{{a}}}, %{sums + 4}, add, 1, 1, 0;}}"
        : {outputs}
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }}"""


def main():
    print(HEAD)
    for width in WIDTHS:
        print(f"template <>\nstruct Wgmma<{width}> {{")
        print("\n".join(instruction(width, kind) for kind in ("bf16", "f16")))
        print("};\n")
    print(TAIL)


main()
