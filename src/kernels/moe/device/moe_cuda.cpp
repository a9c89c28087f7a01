#include "kernels/moe/device/moe_cuda.h"

#include <span>
#include <string_view>

namespace nibble {
namespace {

Result<TiledWeights> pack_named(const cuda::Device& device,
                                std::span<const QuantizedMatrix> experts, RowOrder order,
                                std::string_view name) {
  Result<TiledWeights> packed = TiledWeights::pack(device, experts, order);
  if (!packed.ok()) return packed.error().within(name);
  return packed;
}

}  // namespace

Result<CudaMoeProblem> cuda_moe_problem(const CudaMoeConfig& config, Format format,
                                        bool gate_up_bias, bool down_bias) {
  NIBBLE_ASSIGN_OR_RETURN(const MoeShape shape, cuda_moe_shape(config));
  if (config.static_input_scales) {
    return input_error("static input scales belong to nvfp4 activations; these have 16 bits");
  }
  const bool clamped = config.activation.kind == ActivationKind::kClampedSwiGlu;
  const CudaMoeProblem problem{
      .shape = shape,
      .gate_up = {.experts = config.router.experts,
                  .n = 2 * config.intermediate,
                  .k = config.hidden,
                  .format = format,
                  .activations = config.activations,
                  .output = config.activations,
                  .mode = clamped ? W4A16Mode::kClampedSwiGlu : W4A16Mode::kSwiGlu,
                  .bias = gate_up_bias},
      .down = {.experts = config.router.experts,
               .n = config.hidden,
               .k = config.intermediate,
               .format = format,
               .activations = config.activations,
               .output = config.output,
               .mode = W4A16Mode::kPlain,
               .bias = down_bias}};
  NIBBLE_RETURN_IF_ERROR(check_problem(problem.gate_up));
  NIBBLE_RETURN_IF_ERROR(check_problem(problem.down));
  return problem;
}

Result<CudaMoeLayer> CudaMoeLayer::make(const cuda::Device& device, CudaMoeConfig config,
                                        const MoeWeights& weights) {
  if (weights.gate_up.empty() || weights.down.empty()) {
    return input_error("the layer has no experts");
  }
  CudaMoeLayer layer;
  NIBBLE_ASSIGN_OR_RETURN(
      layer.problem_, cuda_moe_problem(config, weights.gate_up.front().format,
                                       !weights.gate_up_bias.empty(), !weights.down_bias.empty()));
  NIBBLE_RETURN_IF_ERROR(check_cuda_moe_weights(config, weights));
  NIBBLE_RETURN_IF_ERROR(device.make_current());
  NIBBLE_ASSIGN_OR_RETURN(layer.gate_up_,
                          pack_named(device, weights.gate_up, RowOrder::kGateUp, "gate_up"));
  NIBBLE_ASSIGN_OR_RETURN(layer.down_, pack_named(device, weights.down, RowOrder::kPlain, "down"));
  NIBBLE_ASSIGN_OR_RETURN(layer.biases_, CudaMoeBiases::upload(config.router, weights));
  layer.config_ = std::move(config);
  return layer;
}

Result<CudaMoeLayer> CudaMoeLayer::random(const cuda::Device& device, CudaMoeConfig config,
                                          Format format, std::uint64_t seed) {
  CudaMoeLayer layer;
  NIBBLE_ASSIGN_OR_RETURN(layer.problem_, cuda_moe_problem(config, format, false, false));
  NIBBLE_RETURN_IF_ERROR(device.make_current());
  const TiledShape gate_up{.format = format,
                           .experts = config.router.experts,
                           .rows = 2 * config.intermediate,
                           .columns = config.hidden,
                           .order = RowOrder::kGateUp};
  const TiledShape down{.format = format,
                        .experts = config.router.experts,
                        .rows = config.hidden,
                        .columns = config.intermediate};
  NIBBLE_ASSIGN_OR_RETURN(
      layer.gate_up_,
      TiledWeights::random(device, gate_up, random_weight_factor(config.hidden), seed));
  NIBBLE_ASSIGN_OR_RETURN(
      layer.down_,
      TiledWeights::random(device, down, random_weight_factor(config.intermediate), ~seed));
  NIBBLE_ASSIGN_OR_RETURN(layer.biases_, CudaMoeBiases::upload(config.router, {}));
  layer.config_ = std::move(config);
  return layer;
}

Result<CudaMoePrograms> CudaMoePrograms::make(const cuda::Device& device,
                                              const CudaMoeProblem& problem,
                                              const CudaMoeTactics& tactics) {
  NIBBLE_ASSIGN_OR_RETURN(MoeKernels around, MoeKernels::make(device, problem.shape));
  NIBBLE_ASSIGN_OR_RETURN(W4A16Kernel gate_up,
                          W4A16Kernel::make(device, problem.gate_up, tactics.gate_up));
  NIBBLE_ASSIGN_OR_RETURN(W4A16Kernel down, W4A16Kernel::make(device, problem.down, tactics.down));
  CudaMoePrograms programs(problem, std::move(around), std::move(gate_up), std::move(down));
  if (tactics.one_launch) {
    NIBBLE_ASSIGN_OR_RETURN(programs.one_launch_,
                            OneLaunchKernel::make(device, problem, *tactics.one_launch));
  }
  return programs;
}

}  // namespace nibble
