// The roofs of a GPU, measured on it (machine/gpu_roofs.h keeps them).
//
//   NIBBLE_ASSIGN_OR_RETURN(const GpuRoofs roofs, measure_gpu_roofs(gpu, probes, {}, progress));
//   roofs.value("read_gb_s")
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "bench/cuda_probes.h"
#include "cuda/device.h"
#include "machine/gpu_roofs.h"

namespace nibble {

struct GpuRoofRequest {
  double seconds = 0.4;       // of each roof, while the board is watched
  double most_bytes = 8.6e9;  // of the memory that is read; never more than half of what is free
};

// A roof that cannot be measured has a reason, and the others are measured all the same. An error
// is that of a GPU that does nothing at all.
Result<GpuRoofs> measure_gpu_roofs(const cuda::Device& gpu, const CudaProbes& probes,
                                   const GpuRoofRequest& request,
                                   const std::function<void(std::string_view)>& progress);

// What the GPU is, without a number measured.
GpuRoofs describe_gpu(const cuda::DeviceInfo& info);

}  // namespace nibble
