// Compiles what a measurement on a GPU will need into the cache of compiled kernels, without a GPU:
// time on a machine that has one is dearer.
//
//   NIBBLE_ASSIGN_OR_RETURN(const CompiledAhead done, compile_ahead(request, "sm_90a", progress));
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/cuda_bench.h"
#include "cuda/device.h"

namespace nibble {

struct CompiledAhead {
  int programs = 0;
  int cached = 0;    // of them, that were there before
  std::string arch;  // what they are for: of "sm_90" sm_90a, which a GPU of 9.0 runs
  std::vector<std::string> spilling;  // names of those with a kernel that spills registers
  // The same of the body that stands in for an instruction, which is there to be checked alone.
  std::vector<std::string> software_spilling;
};

// The GPU that is compiled for, as far as tactics depend on it: an H200 for sm_90a, and what its
// architecture gives a block otherwise. A usage error for a name that is none.
Result<cuda::DeviceInfo> device_for(const std::string& arch);

// A usage error for W4A4 on sm_120 without a suffix, which has no FP4 instruction.
Result<CompiledAhead> compile_ahead(const CudaBenchRequest& request, const std::string& arch,
                                    const BenchProgress& progress);

}  // namespace nibble
