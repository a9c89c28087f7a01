// The inner loops of the layer, once for every instruction set. All of them work on 16 lanes at a
// time with the same operations in the same order, so that their results have the same bits.
//
//   const VectorCode& code = vector_code(best_isa());
//   code.sigmoid(logits, scores, padded);
#pragma once

#include <cstdint>

#include "kernels/lanes/lanes.h"
#include "machine/isa.h"

namespace nibble {

// One expert's gate and up of one token, or a part of them.
struct ActivationRow {
  const float* gate = nullptr;       // [count]
  const float* up = nullptr;         // [count]
  const float* gate_bias = nullptr;  // [count], or nullptr
  const float* up_bias = nullptr;    // [count]; nullptr when gate_bias is
  float* output = nullptr;           // [count]
  std::int64_t count = 0;
  float alpha = 0;
  float limit = 0;
};

// Columns `begin` .. `end` - 1 of one token.
struct WeightedSum {
  const float* down = nullptr;              // [slots, hidden]
  const float* bias = nullptr;              // [experts, hidden], or nullptr
  const float* shared = nullptr;            // [hidden], or nullptr
  float* output = nullptr;                  // [hidden]
  const std::int32_t* slots = nullptr;      // [top_k]
  const std::int32_t* expert_of = nullptr;  // [all slots]; not read without a bias
  const float* weights = nullptr;           // [top_k]
  std::int64_t top_k = 0;
  std::int64_t hidden = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct VectorCode {
  // x and y: [count], a multiple of kLanes; y may be x.
  void (*exponential)(const float* x, float* y, std::int64_t count) = nullptr;
  void (*sigmoid)(const float* x, float* y, std::int64_t count) = nullptr;
  // exp(x - largest) / sum; the largest must be finite, padding is -infinity.
  void (*softmax)(const float* x, float* y, std::int64_t count) = nullptr;
  void (*swiglu)(const ActivationRow& row) = nullptr;
  void (*clamped_swiglu)(const ActivationRow& row) = nullptr;
  void (*weighted_sum)(const WeightedSum& sum) = nullptr;
};

const VectorCode& vector_code(Isa isa);

extern const VectorCode kPortableCode;
#if defined(__x86_64__)
extern const VectorCode kAvx2Code;
extern const VectorCode kAvx512Code;
#endif

}  // namespace nibble
