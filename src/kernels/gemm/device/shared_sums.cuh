// Sums of a tile that several blocks have parts of: who comes in within the tile gives its sums,
// and who has the tile's beginning adds them in the order of the parts.
//
//   using Shared = SharedSums<Work, 256, 32, 32, 1>;
//   if (step > 0) Shared::give(params.partials, params.flags, sums);
//   else Shared::take_all(params.partials, params.flags, tiles, tile_end, sums);
#pragma once

#include "kernels/device/types.cuh"
#include "kernels/ptx/sync.cuh"

namespace nibble {

// kThreads that hold sums, kQuads times four each; of a tile that is as large as tiles get,
// kMostQuads.
template <class Work, int kThreads, int kQuads, int kMostQuads, int kCluster>
struct SharedSums {
  using Sums = float[kQuads][4];

  // Where this thread's sums of a block lie; the warp's next to each other.
  NIBBLE_DEVICE static float* place_of(float* partials, int64_t block) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int lane = static_cast<int>(threadIdx.x % 32);
    return partials + block * (int64_t{kThreads} * kMostQuads * 4) +
           (int64_t{warp} * kQuads * 32 + lane) * 4;
  }

  NIBBLE_DEVICE static void give(float* partials, uint32_t* flags, const Sums& sums) {
    float* partial = place_of(partials, blockIdx.x);
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      Float4 four;
#pragma unroll
      for (int i = 0; i < 4; ++i) four.value[i] = sums[quad][i];
      *reinterpret_cast<Float4*>(partial + quad * 32 * 4) = four;
    }
    ptx::fence_acq_rel_gpu();
    ptx::bar_sync(1, kThreads);
    if (threadIdx.x == 0) ptx::st_release_gpu(flags + blockIdx.x, 1);
  }

  // Sums that another block of the same rank of a cluster gave.
  NIBBLE_DEVICE static void take(float* partials, uint32_t from, Sums& sums) {
    const float* partial = place_of(partials, from);
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      const Float4 four = ptx::ld_global_cg_16(partial + quad * 32 * 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[quad][i] += four.value[i];
    }
  }

  // All sums of the tile that ends at unit `tile_end`, in their order, once they are all there.
  // `tiles`: of the launch.
  NIBBLE_DEVICE static void take_all(float* partials, const uint32_t* flags, int32_t tiles,
                                     int32_t tile_end, Sums& sums) {
    const uint32_t first = blockIdx.x / kCluster + 1;
    if (Work::part_begin(tiles, first) >= tile_end) return;
    if (threadIdx.x == 0) {
      for (uint32_t other = first; Work::part_begin(tiles, other) < tile_end; ++other) {
        if (Work::part_begin(tiles, other) == Work::part_begin(tiles, other + 1)) continue;
        while (ptx::ld_acquire_gpu(flags + other * kCluster + blockIdx.x % kCluster) == 0) {
        }
      }
    }
    ptx::bar_sync(1, kThreads);
    for (uint32_t other = first; Work::part_begin(tiles, other) < tile_end; ++other) {
      if (Work::part_begin(tiles, other) == Work::part_begin(tiles, other + 1)) continue;
      take(partials, other * kCluster + blockIdx.x % kCluster, sums);
    }
  }
};

}  // namespace nibble
