// Layers drawn by a fixed seed, whose times are predicted before they are measured: `bench moe
// --set predicted`. The first 24 had been measured when the model was given its form, the 24 behind
// them were settled and committed with it before they were run.
//
//   for (const BenchShape& shape : predicted_set()) measure(shape);
#pragma once

#include <vector>

#include "bench/rig.h"

namespace nibble {

inline constexpr int kPredictedShapes = 48;
inline constexpr std::uint64_t kPredictedSeed = 20261130;

// Each with one number of tokens. Weights of a layer take 0.1 to 8 GB.
std::vector<BenchShape> predicted_set();

}  // namespace nibble
