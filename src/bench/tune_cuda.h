// The grouped products of a layer on a GPU for the tuner: W4A16 tactics in the layer that they
// serve, replayed as graphs, with cold weights.
//
//   NIBBLE_ASSIGN_OR_RETURN(tune::WorkerService service, make_cuda_tuner({.ordinal = 0}));
//
// W4A4 tactics (keys with NVFP4 or MXFP4 activations) are refused: see tune_cuda.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/rig.h"
#include "bench/route_draw.h"
#include "cuda/device.h"
#include "tactics/tune/worker.h"

namespace nibble {

struct CudaTuneSetup {
  int ordinal = 0;
  RouteDraw routing;
  std::vector<std::int64_t> tokens;  // of all keys
  std::uint64_t seed = 1;
};

// The service says that it is lost when the context answers no more.
Result<tune::WorkerService> make_cuda_tuner(const CudaTuneSetup& setup);

// What choices of a GPU hold for: its name and SMs, the driver, and device_code_version().
Result<tune::TuningSite> cuda_tuning_site(int ordinal);
Result<tune::TuningSite> cuda_tuning_site(const cuda::DeviceInfo& info);
// Twelve digits of the SHA-256 of all device code of the kernels: another text may be another
// speed, and other bits.
std::string device_code_version();

}  // namespace nibble
