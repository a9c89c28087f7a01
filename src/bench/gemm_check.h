// The correctness check that stands before each timing of a product.
//
//   NIBBLE_RETURN_IF_ERROR(check_product({.matrix = matrix, .activations = Format::kInt8,
//                                         .x = token, .y = output}, "expert 3"));
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "formats/quantized_matrix.h"

namespace nibble {

// Some rows of a matrix as a matrix of their own: a view of the same bytes.
QuantizedMatrix rows_of(const QuantizedMatrix& matrix, std::int64_t first, std::int64_t count);

struct ProductCheck {
  const QuantizedMatrix& matrix;  // [n, k]
  Format activations = Format::kBf16;
  std::span<const float> x;  // [k]
  std::span<const float> y;  // [n]
  std::int64_t rows = 64;    // of the matrix that are compared
  std::int64_t first_row = 0;
};

// |y - reference| / |reference|, both as vectors, infinite for what is no number.
double product_error(const ProductCheck& check);
// What a right kernel stays below.
double product_error_limit(Format weights, Format activations, std::int64_t k);
// A run error that names `where` and both numbers.
Result<> check_product(const ProductCheck& check, std::string_view where);

}  // namespace nibble
