#include "bench/cuda_probes.h"

#include "base/check.h"
#include "base/embedded.h"
#include "kernels/device/device_sources.h"

namespace nibble {

namespace embedded {
std::span<const EmbeddedFile> bench_device();
}

Result<cuda::Cubin> compile_probes(const std::string& arch) {
  const std::span<const cuda::SourceFile> kernels = device_sources();
  std::vector<cuda::SourceFile> files(kernels.begin(), kernels.end());
  for (const EmbeddedFile& file : embedded::bench_device()) {
    files.push_back({.name = file.name, .text = file.text});
  }
  return cuda::compile(
      {.name = "probes", .files = files, .main = "bench/device/probes.cuh", .arch = arch});
}

Result<CudaProbes> CudaProbes::load(const cuda::Device& device) {
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Cubin cubin, compile_probes(device.info().arch()));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Module module, cuda::Module::load(device, cubin));
  CudaProbes probes(device.info().sms);
  for (const cuda::KernelResources& found : cubin.kernels) {
    NIBBLE_ASSIGN_OR_RETURN(const cuda::Kernel kernel, module.kernel(found.name));
    probes.kernels_.emplace(found.name, kernel);
  }
  return probes;
}

const cuda::Kernel& CudaProbes::kernel(std::string_view name) const {
  const auto found = kernels_.find(name);
  NIBBLE_CHECK(found != kernels_.end());
  return found->second;
}

Result<> CudaProbes::empty(cuda::Stream& stream) const {
  return cuda::launch(kernel("empty"), {}, stream);
}

Result<> CudaProbes::empty_programmatic(cuda::Stream& stream) const {
  return cuda::launch(kernel("empty_programmatic"), {.programmatic = true}, stream);
}

Result<> CudaProbes::hold(double microseconds, cuda::Stream& stream) const {
  return cuda::launch(kernel("hold"), {}, stream,
                      HoldParams{.nanoseconds = static_cast<int64_t>(microseconds * 1e3)});
}

Result<> CudaProbes::fill(cuda::DeviceBuffer& buffer, FillParams params,
                          cuda::Stream& stream) const {
  constexpr unsigned kBlocksOfSm = 8;
  params.data = buffer.address();
  params.bytes = static_cast<int64_t>(buffer.size() / 16 * 16);
  return cuda::launch(kernel("fill_random"),
                      {.grid = {static_cast<unsigned>(sms_) * kBlocksOfSm},
                       .block = {static_cast<unsigned>(kFillThreads)}},
                      stream, params);
}

}  // namespace nibble
