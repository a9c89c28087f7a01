#include "kernels/moe/layer_checks.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "formats/quantize.h"

namespace nibble {

Result<> check_activation(const Activation& activation) {
  if (activation.kind != ActivationKind::kClampedSwiGlu) return {};
  if (std::isfinite(activation.alpha) && activation.limit > 0) return {};
  return input_error(
      "the clamped SwiGLU has alpha {} and limit {}; give a finite alpha and a limit above 0",
      activation.alpha, activation.limit);
}

Result<> check_bias(std::span<const float> bias, std::string_view name, std::int64_t size) {
  if (!bias.empty() && static_cast<std::int64_t>(bias.size()) != size) {
    return input_error("{} has {} values; the layer's sizes want {}", name, bias.size(), size);
  }
  for (std::size_t index = 0; index < bias.size(); ++index) {
    if (!std::isfinite(bias[index])) {
      return input_error("value {} of {} is {}, not a finite number", index, name, bias[index]);
    }
  }
  return {};
}

Result<> check_expert_sizes(std::span<const QuantizedMatrix> experts, std::string_view name,
                            std::int64_t count, std::int64_t rows, std::int64_t columns) {
  if (static_cast<std::int64_t>(experts.size()) != count) {
    return input_error("{} has {} experts, the router {}", name, experts.size(), count);
  }
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    if (experts[expert].rows != rows || experts[expert].columns != columns) {
      return input_error("{} of expert {} is {} x {}; the layer's sizes want {} x {}", name, expert,
                         experts[expert].rows, experts[expert].columns, rows, columns);
    }
  }
  return {};
}

Result<float> largest_input_scale(std::span<const QuantizedMatrix> experts, std::string_view name) {
  float largest = 0;
  for (std::size_t expert = 0; expert < experts.size(); ++expert) {
    const std::optional<float>& scale = experts[expert].input_scale;
    if (!scale) {
      return input_error(
          "{} of expert {} has no input scale; choose scales by row, or bf16 activations", name,
          expert);
    }
    if (const std::string_view fault = factor_fault(*scale); !fault.empty()) {
      return input_error("{} of expert {} has input scale {}, which {}", name, expert, *scale,
                         fault);
    }
    largest = std::max(largest, *scale);
  }
  return largest;
}

}  // namespace nibble
