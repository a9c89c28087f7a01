#include "kernels/moe/device/moe_cuda.h"

#include <cmath>
#include <span>
#include <string_view>

#include "kernels/moe/layer_checks.h"

namespace nibble {
namespace {

constexpr std::int64_t kMostIntermediate = std::int64_t{1} << 23;

Result<> check_weights(const CudaMoeConfig& config, const MoeWeights& weights) {
  const std::int64_t experts = config.router.experts;
  const std::int64_t both = 2 * config.intermediate;
  NIBBLE_RETURN_IF_ERROR(
      check_expert_sizes(weights.gate_up, "gate_up", experts, both, config.hidden));
  NIBBLE_RETURN_IF_ERROR(
      check_expert_sizes(weights.down, "down", experts, config.hidden, config.intermediate));
  if (weights.gate_up.front().format != weights.down.front().format) {
    return input_error("gate_up is {}, down {}; both have one format",
                       to_string(weights.gate_up.front().format),
                       to_string(weights.down.front().format));
  }
  NIBBLE_RETURN_IF_ERROR(check_bias(weights.gate_up_bias, "gate_up's bias", experts * both));
  NIBBLE_RETURN_IF_ERROR(check_bias(weights.down_bias, "down's bias", experts * config.hidden));
  return check_bias(weights.router_bias, "the router's bias", experts);
}

Result<TiledWeights> pack_named(const cuda::Device& device,
                                std::span<const QuantizedMatrix> experts, RowOrder order,
                                std::string_view name) {
  Result<TiledWeights> packed = TiledWeights::pack(device, experts, order);
  if (!packed.ok()) return packed.error().within(name);
  return packed;
}

// A factor with which a product of random weights has outputs as large as its inputs: codes have a
// mean square of 8.6, and scales of 1 to 2 one of 2.2.
float random_factor(std::int64_t columns) {
  return static_cast<float>(1 / std::sqrt(8.6 * 2.2 * static_cast<double>(columns)));
}

}  // namespace

Result<CudaMoeProblem> cuda_moe_problem(const CudaMoeConfig& config, Format format,
                                        bool gate_up_bias, bool down_bias) {
  NIBBLE_ASSIGN_OR_RETURN(const MoeShape shape,
                          moe_shape(config.router, config.hidden, config.output));
  if (config.intermediate < 2 || config.intermediate > kMostIntermediate ||
      config.intermediate % 2 != 0) {
    return input_error("an expert has {} intermediate columns; give an even number from 2 to {}",
                       config.intermediate, kMostIntermediate);
  }
  if (config.activations == Element::kFp32) {
    return input_error("the layer takes bf16 or fp16 activations on a GPU, not fp32");
  }
  NIBBLE_RETURN_IF_ERROR(check_activation(config.activation));
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
  NIBBLE_RETURN_IF_ERROR(check_weights(config, weights));
  NIBBLE_RETURN_IF_ERROR(device.make_current());
  NIBBLE_ASSIGN_OR_RETURN(layer.gate_up_,
                          pack_named(device, weights.gate_up, RowOrder::kGateUp, "gate_up"));
  NIBBLE_ASSIGN_OR_RETURN(layer.down_, pack_named(device, weights.down, RowOrder::kPlain, "down"));
  NIBBLE_ASSIGN_OR_RETURN(layer.gate_up_bias_, cuda::DeviceBuffer::of(weights.gate_up_bias));
  NIBBLE_ASSIGN_OR_RETURN(layer.down_bias_, cuda::DeviceBuffer::of(weights.down_bias));
  NIBBLE_ASSIGN_OR_RETURN(layer.router_bias_, cuda::DeviceBuffer::of(weights.router_bias));
  NIBBLE_ASSIGN_OR_RETURN(layer.correction_bias_,
                          cuda::DeviceBuffer::of(config.router.correction_bias));
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
      layer.gate_up_, TiledWeights::random(device, gate_up, random_factor(config.hidden), seed));
  NIBBLE_ASSIGN_OR_RETURN(
      layer.down_, TiledWeights::random(device, down, random_factor(config.intermediate), ~seed));
  NIBBLE_ASSIGN_OR_RETURN(layer.correction_bias_,
                          cuda::DeviceBuffer::of(config.router.correction_bias));
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
  return CudaMoePrograms(problem, std::move(around), std::move(gate_up), std::move(down));
}

}  // namespace nibble
