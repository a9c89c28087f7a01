// The steps of Binding::make that stand in files of their own; nobody else needs them, but that a
// scan of values compares gate and up in the same way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/binding.h"

namespace nibble {

// Notes what is claimed of each matrix, and where it differs (binding_claims.cpp).
void compare_claims(const Quantization& claims, std::vector<BoundMatrix>& matrices, FaultLog& log);
// NVFP4 activations need a scale: which matrices lack one (binding_claims.cpp).
void compare_activations(const std::vector<BoundMatrix>& matrices, FaultLog& log);

// binding_values.cpp:
// Looks at the values of factors, input scales and KV scales, and at how gate and up of the experts
// relate.
void check_values(const Binding& binding, FaultLog& log);

// How large gate and up of one expert are, by some measure.
struct ExpertRatio {
  const std::string* name = nullptr;  // of gate
  double gate = 0;
  double up = 0;
};
// Warns of the experts of one layer whose ratio is more than 8 times off the median.
void warn_of_outliers(const std::vector<ExpertRatio>& ratios, std::string_view sentence,
                      FaultLog& log);

}  // namespace nibble
