#include "kernels/moe/device/moe_cuda_layer.h"

#include <cmath>

#include "kernels/moe/layer_checks.h"

namespace nibble {
namespace {

constexpr std::int64_t kMostIntermediate = std::int64_t{1} << 23;

}  // namespace

Result<MoeShape> cuda_moe_shape(const CudaMoeConfig& config) {
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
  return shape;
}

Result<> check_cuda_moe_weights(const CudaMoeConfig& config, const MoeWeights& weights) {
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

// Codes have a mean square of 8.6, and scales of 1 to 2 one of 2.2.
float random_weight_factor(std::int64_t columns) {
  return static_cast<float>(1 / std::sqrt(8.6 * 2.2 * static_cast<double>(columns)));
}

Result<CudaMoeBiases> CudaMoeBiases::upload(const RouterConfig& router, const MoeWeights& weights) {
  CudaMoeBiases biases;
  NIBBLE_ASSIGN_OR_RETURN(biases.gate_up, cuda::DeviceBuffer::of(weights.gate_up_bias));
  NIBBLE_ASSIGN_OR_RETURN(biases.down, cuda::DeviceBuffer::of(weights.down_bias));
  NIBBLE_ASSIGN_OR_RETURN(biases.router, cuda::DeviceBuffer::of(weights.router_bias));
  NIBBLE_ASSIGN_OR_RETURN(biases.correction, cuda::DeviceBuffer::of(router.correction_bias));
  return biases;
}

}  // namespace nibble
