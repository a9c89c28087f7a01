// Between the two products of an expert: SwiGLU, and gpt-oss's clamped variant of it.
//
//   activate({.gate_up = gate_up, .expert_of = expert_of, .bias = {}, .intermediate = 2048,
//             .activation = {}, .output = activated}, best_isa(), pool);
//
// The same bits on every instruction set, for any batch and number of threads (where a result is
// NaN, that it is NaN). The exponential is within 1.5 units in the last place.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/gemm/packed_activations.h"
#include "machine/isa.h"

namespace nibble {

enum class ActivationKind {
  kSwiGlu,         // gate * sigmoid(gate) * up
  kClampedSwiGlu,  // gate' * sigmoid(alpha * gate') * (up' + 1); gate' = min(gate, limit),
                   // up' = up clamped to +-limit (gpt-oss)
};

struct Activation {
  ActivationKind kind = ActivationKind::kSwiGlu;
  float alpha = 1.702F;  // kClampedSwiGlu only
  float limit = 7;       // kClampedSwiGlu only
};

std::string_view to_string(ActivationKind kind);  // "swiglu", "clamped-swiglu"

struct ActivateParams {
  std::span<const float> gate_up;           // [slots, 2 * intermediate]: gate, then up
  std::span<const std::int32_t> expert_of;  // [slots]; only read when there is a bias
  std::span<const float> bias;              // [experts, 2 * intermediate], added first; or empty
  std::int64_t intermediate = 0;
  Activation activation;
  std::span<float> output;  // [slots, intermediate]
  // The next product's input, quantized slot by slot while a slot's output is at hand; or none.
  PackedActivations* packed = nullptr;
  std::optional<float> input_scale = std::nullopt;
};

// Sizes that do not fit together are our caller's mistake (NIBBLE_CHECK). Does not allocate.
void activate(const ActivateParams& params, Isa isa, ThreadPool& pool);

}  // namespace nibble
