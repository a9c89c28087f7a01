// The kernels around the grouped products of a layer, as one program: compiled for one
// NIBBLE_MOE_SHAPE.
#pragma once

#include "kernels/moe/device/combine.cuh"
#include "kernels/moe/device/gather.cuh"
#include "kernels/moe/device/route.cuh"

namespace nibble {

inline constexpr MoeShape kMoeShape = NIBBLE_MOE_SHAPE;

}  // namespace nibble

extern "C" __global__ void __launch_bounds__(nibble::kTopKThreads)
    moe_route_top_k(const __grid_constant__ nibble::RouteTopK params) {
  nibble::route_top_k<nibble::kMoeShape>(params);
}

extern "C" __global__ void __launch_bounds__(nibble::kTablesThreads)
    moe_route_tables(const __grid_constant__ nibble::RouteTables params) {
  nibble::route_tables<nibble::kMoeShape>(params);
}

#if NIBBLE_MOE_FUSED
extern "C" __global__ void __launch_bounds__(nibble::kTablesThreads)
    moe_route_fused(const __grid_constant__ nibble::RouteTopK top_k,
                    const __grid_constant__ nibble::RouteTables tables) {
  nibble::route_fused<nibble::kMoeShape>(top_k, tables);
}
#endif

extern "C" __global__ void __launch_bounds__(nibble::kRowThreads)
    moe_gather(const __grid_constant__ nibble::GatherRows params) {
  nibble::gather<nibble::kMoeShape>(params);
}

extern "C" __global__ void __launch_bounds__(nibble::kRowThreads)
    moe_combine(const __grid_constant__ nibble::CombineRows params) {
  nibble::combine<nibble::kMoeShape>(params);
}
