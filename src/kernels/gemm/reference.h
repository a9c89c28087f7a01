// The definition of correct: the product in double precision, straight from the canonical matrix.
//
//   gemm_reference(matrix, rounded_activations(x, k, Format::kInt8), y);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/quantized_matrix.h"

namespace nibble {

// y[t, n] = sum over k of x[t, k] * value(matrix, n, k); x: [tokens, columns], y: [tokens, rows].
void gemm_reference(const QuantizedMatrix& matrix, std::span<const double> x, std::span<double> y);

// What the activations of a path stand for: x: [tokens, k] fp32, rounded as gemm() rounds it
// (kFp32: not at all).
std::vector<double> rounded_activations(std::span<const float> x, std::int64_t k, Format format,
                                        std::optional<float> input_scale = std::nullopt);

// The whole matrix [rows, columns] in double precision: exact.
std::vector<double> dequantized(const QuantizedMatrix& matrix);

}  // namespace nibble
