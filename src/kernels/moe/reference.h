// The definition of correct: the layer in double precision, straight from the canonical matrices,
// token by token and choice by choice.
//
//   const std::vector<double> y = moe_reference({.config = config, .weights = weights, .x = x,
//       .expert_ids = ids, .expert_weights = expert_weights});
//   if (moe_error(output, y) > moe_error_limit(config.activations)) ...
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/moe/moe.h"

namespace nibble {

struct MoeReferenceParams {
  const MoeConfig& config;
  const MoeWeights& weights;
  std::span<const float> x;                  // [tokens, hidden]
  std::span<const std::int32_t> expert_ids;  // [tokens, top_k], e.g. of the workspace
  std::span<const float> expert_weights;     // [tokens, top_k]
};

// [tokens, hidden]. Activations are rounded as the configuration says, before either product.
std::vector<double> moe_reference(const MoeReferenceParams& params);

// Its three stages; one stage's check does not then depend on how the one before it was rounded.
// [tokens, top_k, 2 * intermediate], without bias.
std::vector<double> reference_gate_up(const MoeReferenceParams& params);
// gate_up: as above; -> [tokens, top_k, intermediate].
std::vector<double> reference_activated(const MoeReferenceParams& params,
                                        std::span<const double> gate_up);
// activated: [tokens, top_k, intermediate], not rounded yet; -> [tokens, hidden].
std::vector<double> reference_output(const MoeReferenceParams& params,
                                     std::span<const float> activated);

// The router's rule in double precision, for one token: experts, best first, and their weights.
struct ReferenceRoute {
  std::vector<std::int32_t> ids;
  std::vector<double> weights;
};
ReferenceRoute reference_route(const RouterConfig& config, std::span<const float> logits);

// sqrt(sum of squared differences / sum of squared references); infinite for what is not a number.
double moe_error(std::span<const float> output, std::span<const double> reference);

// What moe_error() of a right layer stays below. Activations between the products are rounded, and
// the smallest difference before that sends some of them a whole step the other way: of size-1
// values with differences of d, the part d / step, which makes an error of sqrt(d * step); the
// limit is twice that.
//   fp32   d = 2^-15 and no step: less than bf16, whose limit it takes
//   bf16   d = 2^-14 (halves of 8 bits), step 2^-8: 2^-11
//   int8   d = 2^-22, step 2^-5: next to none; one of 300 values gives 2^-9
//   nvfp4  d = 2^-22, step 2^-1: next to none; one of 1,000 values gives 2^-6
// An exchanged factor or a wrong weight shows as 2^-4 and more.
double moe_error_limit(Format activations);

}  // namespace nibble
