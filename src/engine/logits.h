// Passes over a row of logits, each in a fixed order, so that their results have the same bits
// everywhere in a batch.
//
//   if (!all_finite(logits)) return std::nullopt;
//   const TokenId greedy = first_of(logits, largest_logit(logits));
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "machine/isa.h"
#include "text/token_id.h"

namespace nibble::engine {

bool all_finite(std::span<const float> logits);
float largest_logit(std::span<const float> logits);  // -infinity for none; no NaN
text::TokenId first_of(std::span<const float> logits, float value);
// The `count` largest ones, the largest first; of equal ones the lowest id comes first.
std::vector<text::TokenId> largest_tokens(std::span<const float> logits, std::int64_t count);

struct Exponents {
  float largest = 0;  // finite
  double scale = 1;   // above 0
  double least = 0;   // smaller weights become 0
};
// weights[i] = e^((logits[i] - largest) * scale), within 1e-14 of it relatively; 0 below e^-700.
// Gives the sum of all. Every instruction set gives the same bits.
double exponentials(std::span<const float> logits, const Exponents& exponents,
                    std::span<double> weights, Isa isa = best_isa());

}  // namespace nibble::engine
