#include "kernels/moe/device/quantize_kernel.h"

#include <fmt/format.h>
#include <limits>

#include "cuda/compile.h"
#include "kernels/device/device_sources.h"

namespace nibble {
namespace {

std::string quantize_text(const QuantizeShape& shape) {
  return fmt::format(
      R"(#include "kernels/moe/device/quantize_rows.cuh"
extern "C" __global__ void __launch_bounds__(nibble::kQuantizeThreads)
    quantize_rows(const __grid_constant__ nibble::QuantizeRows params) {{
  nibble::quantize_rows<nibble::QuantizeShape{{
      nibble::Element({}), nibble::QuantizeMode({}), {}}}>(params);
}}
)",
      static_cast<int>(shape.element), static_cast<int>(shape.mode), shape.columns);
}

}  // namespace

Result<> check_quantize(const QuantizeShape& shape) {
  if (shape.element == Element::kFp32) {
    return input_error("rows of activations are quantized from bf16 or fp16, not from fp32");
  }
  if (shape.columns < 1 || shape.columns % shape.block() != 0) {
    return input_error("rows of {} columns are not whole blocks of {}, which share a scale",
                       shape.columns, shape.block());
  }
  return {};
}

Result<cuda::Cubin> compile_quantize(const QuantizeShape& shape, const std::string& arch) {
  NIBBLE_RETURN_IF_ERROR(check_quantize(shape));
  return cuda::compile({.name = fmt::format("quantize rows of {}", shape.columns),
                        .files = device_sources(),
                        .main = quantize_text(shape),
                        .defines = {},
                        .arch = arch});
}

Result<QuantizeKernel> QuantizeKernel::make(const cuda::Device& device, const QuantizeShape& shape,
                                            const std::string& arch) {
  NIBBLE_RETURN_IF_ERROR(device.make_current());
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Arch code, cuda::arch_to_run(device.info(), arch));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Cubin cubin, compile_quantize(shape, code.name()));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Module module, cuda::Module::load(device, cubin));
  NIBBLE_ASSIGN_OR_RETURN(cuda::Kernel kernel, module.kernel("quantize_rows"));
  return QuantizeKernel(shape, std::move(kernel), code.major >= 9);
}

Result<> QuantizeKernel::enqueue(cuda::Stream& stream, const QuantizeRows& params) const {
  const std::int64_t blocks = quantize_blocks(shape_, params.rows);
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    return input_error("{} rows of {} columns are {} blocks of threads; a launch has at most 2^31",
                       params.rows, shape_.columns, blocks);
  }
  const cuda::Launch launch_shape{.grid = {static_cast<unsigned>(blocks)},
                                  .block = {kQuantizeThreads},
                                  .programmatic = programmatic_};
  return cuda::launch(kernel_, launch_shape, stream, params);
}

}  // namespace nibble
