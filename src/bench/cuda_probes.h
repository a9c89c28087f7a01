// The kernels of bench/device/probes.cuh, compiled and loaded: what reads, copies, multiplies,
// holds a stream, and fills memory with random values.
//
//   NIBBLE_ASSIGN_OR_RETURN(const CudaProbes probes, CudaProbes::load(gpu));
//   NIBBLE_RETURN_IF_ERROR(probes.fill(buffer, {.filling = Filling::kBf16}, stream));
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "bench/device/probe_params.h"
#include "cuda/compile.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "cuda/module.h"
#include "cuda/stream.h"

namespace nibble {

// For any architecture, without a GPU.
Result<cuda::Cubin> compile_probes(const std::string& arch);

class CudaProbes {
 public:
  static Result<CudaProbes> load(const cuda::Device& device);

  bool has(std::string_view name) const { return kernels_.contains(name); }
  // By its name in probes.cuh; read_bulk is there from sm_90 on only.
  const cuda::Kernel& kernel(std::string_view name) const;

  Result<> empty(cuda::Stream& stream) const;
  Result<> empty_programmatic(cuda::Stream& stream) const;
  Result<> hold(double microseconds, cuda::Stream& stream) const;
  // All of the buffer but the last bytes beyond a multiple of 16; `params` names neither.
  Result<> fill(cuda::DeviceBuffer& buffer, FillParams params, cuda::Stream& stream) const;

 private:
  explicit CudaProbes(int sms) : sms_(sms) {}

  int sms_;
  std::map<std::string, cuda::Kernel, std::less<>> kernels_;
};

}  // namespace nibble
