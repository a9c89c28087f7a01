// One arrival at a barrier for what all lanes of a warp have read: lane 0 arrives after a
// __syncwarp(), which orders the others' reads before it (PTX ISA 8, causality order).
// compute-sanitizer's racecheck does not carry reads over __syncwarp() to the lane that arrives;
// with NIBBLE_EVERY_LANE_ARRIVES=1 all lanes arrive and nothing else differs, so that it can judge
// the rest. 32 times as many arrivals would cost every stage.
#pragma once

#include "kernels/device/options.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace nibble::ptx {

inline constexpr bool kEveryLaneArrives = NIBBLE_EVERY_LANE_ARRIVES != 0;
// Of a warp, towards a barrier's count.
inline constexpr uint32_t kWarpArrivals = kEveryLaneArrives ? 32 : 1;

// After __syncwarp(). Without a branch.
NIBBLE_DEVICE void mbarrier_arrive_warp_if(uint32_t barrier, bool condition, int lane) {
  mbarrier_arrive_if(barrier, condition && (kEveryLaneArrives || lane == 0));
}

}  // namespace nibble::ptx
