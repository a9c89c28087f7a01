#include "capi/alpha_pairs.h"

#include <vector>

#include "base/embedded.h"
#include "cuda/compile.h"

namespace nibble::embedded {
std::span<const EmbeddedFile> capi_sources();
}  // namespace nibble::embedded

namespace nibble::capi {
namespace {

constexpr unsigned kPairThreads = 128;

}  // namespace

Result<cuda::Cubin> compile_alpha_pairs(const std::string& arch) {
  std::vector<cuda::SourceFile> files;
  for (const EmbeddedFile& file : embedded::capi_sources()) files.push_back({file.name, file.text});
  return cuda::compile(
      {.name = "alpha_pairs", .files = files, .main = "capi/device/alpha_pairs.cuh", .arch = arch});
}

Result<std::shared_ptr<const cuda::Kernel>> alpha_pairs_kernel(Gpu& gpu) {
  const std::lock_guard lock(gpu.mutex);
  if (auto known = gpu.alpha_pairs.lock()) return known;
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Cubin cubin, compile_alpha_pairs(gpu.device.info().arch()));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Module module, cuda::Module::load(gpu.device, cubin));
  NIBBLE_ASSIGN_OR_RETURN(cuda::Kernel kernel, module.kernel("alpha_pairs"));
  auto made = std::make_shared<const cuda::Kernel>(std::move(kernel));
  gpu.alpha_pairs = made;
  return std::shared_ptr<const cuda::Kernel>(std::move(made));
}

Result<> enqueue_alpha_pairs(const cuda::Kernel& kernel, cuda::Stream& stream, const float* alpha,
                             float* pairs, int experts) {
  const unsigned blocks = (static_cast<unsigned>(experts) + kPairThreads - 1) / kPairThreads;
  return cuda::launch(kernel, {.grid = {blocks}, .block = {kPairThreads}}, stream, alpha, pairs,
                      experts);
}

}  // namespace nibble::capi
