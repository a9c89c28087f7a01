// RMSNorm, of whole rows or of each head in a row, and the addition to the residual that stands
// before it.
//
//   rms_norm({.x = residual, .add = attended, .weight = weight, .columns = 2048,
//             .epsilon = 1e-6F, .output = normed}, pool);                 // residual += attended
//   rms_norm({.x = qkv, .weight = q_norm, .columns = 128, .vectors = 32, .stride = 5120,
//             .epsilon = 1e-6F, .output = qkv}, pool);                    // in place
//
//   output = x / sqrt(mean(x^2) + epsilon) * weight
//
// In fp32, squares summed in 16 lanes: the same bits on every instruction set, for any batch and
// number of threads. Values above 1e19 overflow, as they do in every fp32 implementation.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace nibble {

struct RmsNormParams {
  std::span<float> x;             // [rows, stride]
  std::span<const float> add;     // [rows, columns], added to x first; or empty. One vector a row
  std::span<const float> weight;  // [columns]
  std::int64_t columns = 0;       // of one vector
  std::int64_t begin = 0;         // floats of a row before its first vector
  std::int64_t vectors = 1;       // of a row, one after the other
  std::int64_t stride = 0;        // floats from one row of x to the next; 0: vectors * columns
  float epsilon = 0;
  std::span<float> output;  // as x; may be x
};

// Sizes that do not fit together are our caller's mistake (NIBBLE_CHECK). Does not allocate.
void rms_norm(const RmsNormParams& params, ThreadPool& pool);

}  // namespace nibble
