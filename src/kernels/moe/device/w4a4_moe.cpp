#include "kernels/moe/device/w4a4_moe.h"

#include <string_view>

#include "formats/quantize.h"
#include "kernels/moe/layer_checks.h"

namespace nibble {
namespace {

W4A4Output output_of(Element element) {
  switch (element) {
    case Element::kBf16:
      return W4A4Output::kBf16;
    case Element::kFp16:
      return W4A4Output::kFp16;
    case Element::kFp32:
      break;
  }
  return W4A4Output::kFp32;
}

Result<> check_named(const W4A4Problem& problem, std::string_view name) {
  const Result<> checked = check_problem(problem);
  if (!checked.ok()) return checked.error().within(name);
  return checked;
}

Result<W4A4Weights> upload_named(const cuda::Device& device,
                                 std::span<const QuantizedMatrix> experts, RowOrder order,
                                 float token_factor, std::string_view name) {
  Result<W4A4Weights> uploaded = W4A4Weights::upload(device, experts, order, token_factor);
  if (!uploaded.ok()) return uploaded.error().within(name);
  return uploaded;
}

}  // namespace

Result<CudaW4A4MoeProblem> cuda_w4a4_moe_problem(const CudaMoeConfig& config, Format format,
                                                 bool gate_up_bias, bool down_bias) {
  NIBBLE_ASSIGN_OR_RETURN(const MoeShape shape, cuda_moe_shape(config));
  const bool fixed = config.static_input_scales;
  if (fixed && format != Format::kNvfp4) {
    return input_error("static input scales belong to nvfp4 activations; these are {}",
                       to_string(format));
  }
  const bool clamped = config.activation.kind == ActivationKind::kClampedSwiGlu;
  CudaW4A4MoeProblem problem{
      .shape = shape,
      .gate_up = {.experts = config.router.experts,
                  .n = 2 * config.intermediate,
                  .k = config.hidden,
                  .format = format,
                  .output = fixed ? W4A4Output::kNvfp4 : output_of(config.activations),
                  .epilogue = clamped ? Epilogue::kClampedSwiGlu : Epilogue::kSwiGlu,
                  .bias = gate_up_bias},
      .down = {.experts = config.router.experts,
               .n = config.hidden,
               .k = config.intermediate,
               .format = format,
               .output = output_of(config.output),
               .bias = down_bias}};
  NIBBLE_RETURN_IF_ERROR(check_named(problem.down, "down"));
  NIBBLE_RETURN_IF_ERROR(check_named(problem.gate_up, "gate_up"));
  problem.tokens = {.element = config.activations, .columns = shape.hidden};
  if (format == Format::kMxfp4) {
    problem.tokens.mode = QuantizeMode::kMxfp4;
  } else if (!fixed) {
    problem.tokens.mode = QuantizeMode::kNvfp4Rows;
  }
  if (fixed) return problem;
  problem.slots = problem.tokens;
  problem.slots->columns = static_cast<int>(config.intermediate);
  return problem;
}

Result<CudaW4A4MoeLayer> CudaW4A4MoeLayer::make(const cuda::Device& device, CudaMoeConfig config,
                                                const MoeWeights& weights) {
  if (weights.gate_up.empty() || weights.down.empty()) {
    return input_error("the layer has no experts");
  }
  CudaW4A4MoeLayer layer;
  NIBBLE_ASSIGN_OR_RETURN(
      layer.problem_,
      cuda_w4a4_moe_problem(config, weights.gate_up.front().format, !weights.gate_up_bias.empty(),
                            !weights.down_bias.empty()));
  NIBBLE_RETURN_IF_ERROR(check_cuda_moe_weights(config, weights));
  if (config.static_input_scales) {
    NIBBLE_ASSIGN_OR_RETURN(layer.gate_up_input_scale_,
                            largest_input_scale(weights.gate_up, "gate_up"));
    NIBBLE_ASSIGN_OR_RETURN(layer.down_input_scale_, largest_input_scale(weights.down, "down"));
  }
  NIBBLE_RETURN_IF_ERROR(device.make_current());
  NIBBLE_ASSIGN_OR_RETURN(layer.gate_up_, upload_named(device, weights.gate_up, RowOrder::kGateUp,
                                                       layer.gate_up_input_scale_, "gate_up"));
  NIBBLE_ASSIGN_OR_RETURN(layer.down_, upload_named(device, weights.down, RowOrder::kPlain,
                                                    layer.down_input_scale_, "down"));
  NIBBLE_ASSIGN_OR_RETURN(layer.biases_, CudaMoeBiases::upload(config.router, weights));
  layer.config_ = std::move(config);
  return layer;
}

Result<CudaW4A4MoeLayer> CudaW4A4MoeLayer::random(const cuda::Device& device, CudaMoeConfig config,
                                                  Format format, std::uint64_t seed) {
  CudaW4A4MoeLayer layer;
  NIBBLE_ASSIGN_OR_RETURN(layer.problem_, cuda_w4a4_moe_problem(config, format, false, false));
  if (config.static_input_scales) {
    layer.gate_up_input_scale_ = 4.0F / kNvfp4Largest;
    layer.down_input_scale_ = 8.0F / kNvfp4Largest;
  }
  const auto weights = [&](const W4A4Problem& product, RowOrder order, float input_scale) {
    const TiledShape shape{.format = format,
                           .experts = product.experts,
                           .rows = product.n,
                           .columns = product.k,
                           .order = order};
    return W4A4Weights::random(device, shape, random_weight_factor(product.k) * input_scale,
                               order == RowOrder::kGateUp ? seed : ~seed);
  };
  NIBBLE_ASSIGN_OR_RETURN(layer.gate_up_, weights(layer.problem_.gate_up, RowOrder::kGateUp,
                                                  layer.gate_up_input_scale_));
  NIBBLE_ASSIGN_OR_RETURN(layer.down_,
                          weights(layer.problem_.down, RowOrder::kPlain, layer.down_input_scale_));
  NIBBLE_ASSIGN_OR_RETURN(layer.biases_, CudaMoeBiases::upload(config.router, {}));
  layer.config_ = std::move(config);
  return layer;
}

Result<CudaW4A4MoePrograms> CudaW4A4MoePrograms::make(const cuda::Device& device,
                                                      const CudaW4A4MoeProblem& problem,
                                                      const CudaW4A4MoeTactics& tactics,
                                                      const std::string& arch) {
  NIBBLE_ASSIGN_OR_RETURN(MoeKernels around, MoeKernels::make(device, problem.shape, arch));
  NIBBLE_ASSIGN_OR_RETURN(W4A4Kernel gate_up,
                          W4A4Kernel::make(device, problem.gate_up, tactics.gate_up, arch));
  NIBBLE_ASSIGN_OR_RETURN(W4A4Kernel down,
                          W4A4Kernel::make(device, problem.down, tactics.down, arch));
  NIBBLE_ASSIGN_OR_RETURN(QuantizeKernel tokens,
                          QuantizeKernel::make(device, problem.tokens, arch));
  CudaW4A4MoePrograms programs(problem, std::move(around), std::move(gate_up), std::move(down),
                               std::move(tokens));
  if (!problem.slots) return programs;
  NIBBLE_ASSIGN_OR_RETURN(QuantizeKernel slots, QuantizeKernel::make(device, *problem.slots, arch));
  programs.slots_.emplace(std::move(slots));
  return programs;
}

}  // namespace nibble
