// What a layer's numbers must be on every processor: biases, experts' sizes, the activation.
//
//   NIBBLE_RETURN_IF_ERROR(check_expert_sizes(weights.down, "down", 256, hidden, intermediate));
//   NIBBLE_RETURN_IF_ERROR(check_bias(weights.down_bias, "down's bias", 256 * hidden));
//   NIBBLE_RETURN_IF_ERROR(check_activation(config.activation));
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "formats/quantized_matrix.h"
#include "kernels/moe/activation.h"

namespace nibble {

// Each an input error that names what does not fit. `name`: "gate_up", "down's bias".
Result<> check_activation(const Activation& activation);
// Empty: there is none.
Result<> check_bias(std::span<const float> bias, std::string_view name, std::int64_t size);
Result<> check_expert_sizes(std::span<const QuantizedMatrix> experts, std::string_view name,
                            std::int64_t count, std::int64_t rows, std::int64_t columns);

// One factor serves the input of all experts: the largest, so that no expert's input saturates that
// the checkpoint's own factor would hold.
Result<float> largest_input_scale(std::span<const QuantizedMatrix> experts, std::string_view name);

}  // namespace nibble
