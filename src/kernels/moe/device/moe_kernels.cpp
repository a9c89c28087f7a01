#include "kernels/moe/device/moe_kernels.h"

#include <algorithm>

#include "cuda/compile.h"
#include "kernels/device/device_sources.h"

namespace nibble {
namespace {

constexpr std::int64_t kMostHidden = std::int64_t{1} << 24;

}  // namespace

Result<MoeShape> moe_shape(const RouterConfig& router, std::int64_t hidden, Element output) {
  NIBBLE_RETURN_IF_ERROR(check_router(router, kMostDeviceExperts));
  if (hidden < 2 || hidden > kMostHidden || hidden % 2 != 0) {
    return input_error("the layer has {} hidden columns; give an even number from 2 to {}", hidden,
                       kMostHidden);
  }
  return MoeShape{.experts = static_cast<int>(router.experts),
                  .top_k = static_cast<int>(router.top_k),
                  .groups = static_cast<int>(router.groups),
                  .top_groups = static_cast<int>(router.top_groups),
                  .sigmoid = router.kind == RouterKind::kSigmoid,
                  .renormalise = router.renormalise,
                  .softmax_after_top_k = router.softmax_after_top_k,
                  .correction_bias = !router.correction_bias.empty(),
                  .hidden = static_cast<int>(hidden),
                  .output = output};
}

std::string cpp_text_of(const MoeShape& shape) {
  return fmt::format("{{{},{},{},{},{},{},{},{},{},Element({})}}", shape.experts, shape.top_k,
                     shape.groups, shape.top_groups, shape.sigmoid, shape.renormalise,
                     shape.softmax_after_top_k, shape.correction_bias, shape.hidden,
                     static_cast<int>(shape.output));
}

Result<cuda::Cubin> compile_moe_kernels(const MoeShape& shape, const std::string& arch) {
  return cuda::compile(
      {.name = "moe",
       .files = device_sources(),
       .main = "kernels/moe/device/kernels.cuh",
       .defines = {"NIBBLE_MOE_SHAPE=" + cpp_text_of(shape),
                   fmt::format("NIBBLE_MOE_FUSED={:d}", has_fused_route(shape.experts))},
       .arch = arch});
}

Result<MoeKernels> MoeKernels::make(const cuda::Device& device, const MoeShape& shape,
                                    const std::string& arch) {
  NIBBLE_RETURN_IF_ERROR(device.make_current());
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Arch code, cuda::arch_to_run(device.info(), arch));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Cubin cubin, compile_moe_kernels(shape, code.name()));
  NIBBLE_ASSIGN_OR_RETURN(const cuda::Module module, cuda::Module::load(device, cubin));
  const char* const fused = has_fused_route(shape.experts) ? "moe_route_fused" : "moe_route_tables";
  NIBBLE_ASSIGN_OR_RETURN(cuda::Kernel top_k, module.kernel("moe_route_top_k"));
  NIBBLE_ASSIGN_OR_RETURN(cuda::Kernel tables, module.kernel("moe_route_tables"));
  NIBBLE_ASSIGN_OR_RETURN(cuda::Kernel one_launch, module.kernel(fused));
  NIBBLE_ASSIGN_OR_RETURN(cuda::Kernel gather, module.kernel("moe_gather"));
  NIBBLE_ASSIGN_OR_RETURN(cuda::Kernel combine, module.kernel("moe_combine"));
  // Code for earlier architectures has no griddepcontrol.wait, also where the GPU would have it.
  return MoeKernels(device, shape, code.major >= 9,
                    {std::move(top_k), std::move(tables), std::move(one_launch), std::move(gather),
                     std::move(combine)});
}

cuda::Launch MoeKernels::launch_of(std::int64_t items, int per_block, int threads) const {
  return {.grid = {static_cast<unsigned>(ceil_div(items, per_block))},
          .block = {static_cast<unsigned>(threads)},
          .programmatic = programmatic_};
}

Result<> MoeKernels::route(cuda::Stream& stream, const RouteTopK& top_k_params,
                           const RouteTables& tables_params) const {
  if (is_fused_route(shape_.experts, shape_.top_k, top_k_params.tokens)) {
    return launch(kernels_.fused, launch_of(1, 1, kTablesThreads), stream, top_k_params,
                  tables_params);
  }
  NIBBLE_RETURN_IF_ERROR(top_k(stream, top_k_params));
  return tables(stream, tables_params);
}

Result<> MoeKernels::top_k(cuda::Stream& stream, const RouteTopK& params) const {
  const cuda::Launch shape = launch_of(params.tokens, kTopKThreads / 32, kTopKThreads);
  return launch(kernels_.top_k, shape, stream, params);
}

Result<> MoeKernels::tables(cuda::Stream& stream, const RouteTables& params) const {
  const std::int64_t choices = std::int64_t{params.tokens} * shape_.top_k;
  const std::int64_t blocks = std::clamp<std::int64_t>(ceil_div(choices, kTablesThreads), 1, sms_);
  return launch(kernels_.tables, launch_of(blocks, 1, kTablesThreads), stream, params);
}

Result<> MoeKernels::gather(cuda::Stream& stream, const GatherRows& params) const {
  const std::int64_t units = params.tokens * 8 * chunks_of(shape_.hidden);
  return launch(kernels_.gather, launch_of(units, kRowThreads, kRowThreads), stream, params);
}

Result<> MoeKernels::combine(cuda::Stream& stream, const CombineRows& params) const {
  const int columns = combine_columns(shape_.hidden, shape_.output);
  const std::int64_t units = params.tokens * (shape_.hidden / columns);
  return launch(kernels_.combine, launch_of(units, kRowThreads, kRowThreads), stream, params);
}

}  // namespace nibble
