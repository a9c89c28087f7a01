// Engines have one factor an expert, grouped products two: of gate and up rows.
#pragma once

// alpha: [experts], or null: 1. pairs: [experts, 2].
extern "C" __global__ void alpha_pairs(const float* alpha, float* pairs, int experts) {
  const int expert = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (expert >= experts) return;
  const float value = alpha != nullptr ? alpha[expert] : 1.0F;
  pairs[2 * expert] = value;
  pairs[2 * expert + 1] = value;
}
