// Matrices in the canonical form (formats/quantized_matrix.h), from whichever dialect stores them:
// scales that multiply, the low nibble the even column, one factor for gate and one for up. Loading
// refuses what inspect would call an error, NaN and negative block scales included.
//
//   NIBBLE_ASSIGN_OR_RETURN(const LoadedMatrix lm_head, load_matrix(checkpoint, *bound));
//   NIBBLE_ASSIGN_OR_RETURN(const LoadedExpert expert, load_expert(binding, layer, 7));
//   expert.gate.matrix;  expert.up.matrix;  expert.down.matrix;      // views, or owned bytes
//   NIBBLE_ASSIGN_OR_RETURN(const LoadedMatrix both, stack_rows(expert.gate, expert.up));
//   both.matrix.segments                                             // {0, gate}, {I, up}
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/binding.h"
#include "formats/quantized_matrix.h"

namespace nibble {

// A view into the mapped file where the file holds the bytes in this order, else bytes of its own.
// The checkpoint must outlive it, and its files must stay as long as they are: the system ends a
// program that touches a mapped byte which is gone (loading looks, and refuses, once). Moving keeps
// the view valid; it cannot be copied.
struct LoadedMatrix {
  LoadedMatrix() = default;
  LoadedMatrix(LoadedMatrix&&) = default;
  LoadedMatrix& operator=(LoadedMatrix&&) = default;

  QuantizedMatrix matrix;
  std::vector<std::uint8_t> codes;   // what matrix.codes views, or empty
  std::vector<std::uint8_t> scales;  // what matrix.scales views, or empty
};

struct LoadedExpert {
  LoadedMatrix gate;                                 // [intermediate, hidden]
  LoadedMatrix up;                                   // [intermediate, hidden]
  LoadedMatrix down;                                 // [hidden, intermediate]
  std::vector<float> gate_bias, up_bias, down_bias;  // empty: none
};

// NVFP4, MXFP4 and bf16 matrices. Stacks are loaded expert by expert (load_expert).
Result<LoadedMatrix> load_matrix(const Checkpoint& checkpoint, const BoundMatrix& bound);
Result<LoadedExpert> load_expert(const Binding& binding, std::size_t layer, std::int64_t expert);

// `above` and then `below` as one matrix, each part with its own factors. Both need the same format
// and columns; static input scales must be alike, or the larger is taken (see docs/checkpoints.md).
Result<LoadedMatrix> stack_rows(const LoadedMatrix& above, const LoadedMatrix& below);

// A matrix of bf16, fp16, fp32 or FP8 elements as fp32, row-major: FP8 with its scales applied.
Result<std::vector<float>> load_elements(const Checkpoint& checkpoint, const BoundMatrix& bound);
// A vector (norm, bias, sinks) of bf16, fp16 or fp32 as fp32.
Result<std::vector<float>> load_vector(const Checkpoint& checkpoint, std::string_view tensor);

}  // namespace nibble
