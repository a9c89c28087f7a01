// Blackwell's arithmetic of one expert, in double precision: what a W4A4 layer on a GPU is held
// against before it is timed.
//
//   const std::vector<double> y = w4a4_expert_reference({.format = Format::kNvfp4,
//       .hidden = 6144, .intermediate = 2048, .gate_up = gate_up, .down = down, .x = x});
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/rig.h"
#include "formats/format.h"
#include "formats/quantized_matrix.h"
#include "kernels/device/element.h"
#include "kernels/moe/activation.h"
#include "kernels/moe/device/w4a4_weights.h"

namespace nibble {

struct W4A4Expert {
  Format format = Format::kNvfp4;    // or kMxfp4: of weights and activations
  Element between = Element::kBf16;  // or kFp16: of rows between the products
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  Activation activation = {};
  const QuantizedMatrix& gate_up;  // [2 intermediate, hidden]
  const QuantizedMatrix& down;     // [hidden, intermediate]
  std::span<const float> x;        // [hidden]
};

// [hidden]. Activations are rounded to 4 bits before either product, each row with its own factor;
// those of the second are made of rows of 16 bits.
std::vector<double> w4a4_expert_reference(const W4A4Expert& expert);

// An expert's matrix as it is stored canonically.
struct W4A4Matrix {
  W4A4Weights::Canonical bytes;
  QuantizedMatrix view;
};
Result<W4A4Matrix> w4a4_matrix(const W4A4Weights& weights, std::int64_t expert);

// "w4a4 nvfp4 x nvfp4", and which body multiplies where it is the software's.
std::string w4a4_kernel_name(const BenchShape& shape, bool software_mma);

// x as MXFP4 has it.
std::vector<float> through_mxfp4(std::span<const float> x);

}  // namespace nibble
