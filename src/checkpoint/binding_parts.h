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
// Whether a tensor belongs to a layer with a number that neither the layers nor the MTP layers of
// the configuration have (binding_claims.cpp).
bool is_beyond_layers(std::string_view tensor, const ModelSpec& model);
// Warns of such layers. `regions` are the tensors'; the checkpoint has a model.
void check_layers(const Checkpoint& checkpoint, const std::vector<Region>& regions, FaultLog& log);
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
// By the factors, of the experts of a layer that have two sound ones; the model has experts.
std::vector<ExpertRatio> factor_ratios(const Binding& binding, std::size_t layer);
// The names of the experts of one layer whose ratio is more than 8 times off the median.
std::vector<const std::string*> outliers(const std::vector<ExpertRatio>& ratios);

}  // namespace nibble
